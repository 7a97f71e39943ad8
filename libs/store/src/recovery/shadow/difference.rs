//! Details of inboxes that differ: the items, their columns and the counters.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use domain::inbox::Counts;
use domain::{AppId, ItemId, UserNumber};
use futures_util::stream::{BoxStream, TryStreamExt};
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::Inbox;
use crate::Error;

/// Maximum number of missing, unexpected or changed items that a difference names.
const NAMED: usize = 10;

/// Differences between a live inbox and its replay. Contains no values of items, because these are personal data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub app: AppId,
    /// Owner of the inbox.
    pub user: UserNumber,
    /// Items that exist only in the replay.
    pub missing: Items<ItemId>,
    /// Items that exist only in the live tables.
    pub unexpected: Items<ItemId>,
    /// Items that exist in both, but with different values.
    pub changed: Items<ChangedItem>,
    /// The live counters.
    pub kept: Counts,
    /// Counters computed from the live items.
    pub recounted: Counts,
    /// The counters of the replay.
    pub replayed: Counts,
}

/// Number of missing, unexpected or changed items, and the first ten of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items<T> {
    pub count: u64,
    /// The first ten items, ordered by id.
    pub first: Vec<T>,
}

/// An item that differs from its replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedItem {
    pub id: ItemId,
    /// The columns whose values differ.
    pub columns: Vec<String>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Items { count: 0, first: Vec::new() }
    }
}

impl<T> Items<T> {
    fn add(&mut self, item: T) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(item);
        }
    }
}

/// Finds the differences between a user's live inbox and its replay. `here` is the summary of the live inbox, `there` that of
/// the replay.
pub(super) async fn look(
    live: &mut PgConnection,
    replay: &mut PgConnection,
    (app, user): (AppId, UserNumber),
    here: Inbox,
    there: Inbox,
) -> Result<Difference, Error> {
    let mut difference = Difference {
        app,
        user,
        missing: Items::default(),
        unexpected: Items::default(),
        changed: Items::default(),
        kept: here.kept,
        recounted: here.recounted,
        replayed: there.kept,
    };
    let mut changed = Items::default();
    {
        let (mut live, mut replay) = (rows(live, app, user), rows(replay, app, user));
        let mut one = live.try_next().await?;
        let mut other = replay.try_next().await?;
        loop {
            let order = match (&one, &other) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((id, _)), Some((replayed, _))) => id.cmp(replayed),
            };
            match (order, one, other) {
                (Ordering::Less, Some((id, _)), _) => difference.unexpected.add(ItemId(id)),
                (Ordering::Greater, _, Some((id, _))) => difference.missing.add(ItemId(id)),
                (_, Some((id, sum)), Some((_, replayed))) if sum != replayed => changed.add(id),
                _ => {}
            }
            if order.is_le() {
                one = live.try_next().await?;
            }
            if order.is_ge() {
                other = replay.try_next().await?;
            }
        }
    }
    let columns = columns(live, replay, app, &changed.first).await?;
    difference.changed = Items { count: changed.count, first: columns };
    Ok(difference)
}

/// Streams the ids and checksums of a user's items, ordered by id.
fn rows(
    connection: &mut PgConnection,
    app: AppId,
    user: UserNumber,
) -> BoxStream<'_, Result<(i64, i64), Error>> {
    let rows = sqlx::query_as(
        "SELECT id, hashtextextended(i::text, 0) FROM inbox_item i
         WHERE app_id = $1 AND user_number = $2 ORDER BY id",
    )
    .bind(app.0)
    .bind(user.0)
    .fetch(connection);
    Box::pin(rows.map_err(Error::from))
}

async fn columns(
    live: &mut PgConnection,
    replay: &mut PgConnection,
    app: AppId,
    ids: &[i64],
) -> Result<Vec<ChangedItem>, Error> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let live = values(live, app, ids).await?;
    let replayed = values(replay, app, ids).await?;
    let nothing = BTreeMap::new();
    let changed = ids.iter().map(|id| {
        let one = live.get(id).unwrap_or(&nothing);
        let other = replayed.get(id).unwrap_or(&nothing);
        let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        let text = |row: &Row, name| row.get(name).map(|value| value.get().to_owned());
        let differing = names.into_iter().filter(|name| text(one, *name) != text(other, *name));
        ChangedItem { id: ItemId(*id), columns: differing.cloned().collect() }
    });
    Ok(changed.collect())
}

/// The values of a row by column, as JSON text.
type Row = BTreeMap<String, Box<RawValue>>;

async fn values(connection: &mut PgConnection, app: AppId, ids: &[i64]) -> Result<BTreeMap<i64, Row>, Error> {
    let rows: Vec<(i64, String)> = sqlx::query_as(
        "SELECT id, row_to_json(i)::text FROM inbox_item i WHERE app_id = $1 AND id = ANY($2) ORDER BY id",
    )
    .bind(app.0)
    .bind(ids)
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|(id, row)| {
            let row = serde_json::from_str(&row).map_err(|error| Error::Unreadable(error.to_string()))?;
            Ok((id, row))
        })
        .collect()
}
