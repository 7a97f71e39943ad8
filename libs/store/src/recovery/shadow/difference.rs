//! What it is that differs in an inbox: which items, which of their columns, and the counters.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use domain::inbox::Counts;
use domain::{AppId, ItemId, UserNumber};
use futures_util::stream::{BoxStream, TryStreamExt};
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::Inbox;
use crate::Error;

/// Items of each kind that are named.
const NAMED: usize = 10;

/// How an inbox of the live tables differs from its replay. Values of items are not told: they are people's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The app.
    pub app: AppId,
    /// The owner.
    pub user: UserNumber,
    /// Items that the live tables lack.
    pub missing: Items<ItemId>,
    /// Items that only the live tables have.
    pub unexpected: Items<ItemId>,
    /// Items that both have.
    pub changed: Items<Changed>,
    /// The live counters.
    pub kept: Counts,
    /// What the live items add up to.
    pub recounted: Counts,
    /// The counters of the replay.
    pub replayed: Counts,
}

/// How many items there are of a kind, and the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items<T> {
    /// How many.
    pub count: u64,
    /// The first ten, by their ids.
    pub first: Vec<T>,
}

/// An item that is not what its replay is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The item.
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

/// Looks closer at a user whose inboxes differ.
pub(super) async fn look(
    live: &mut PgConnection,
    beside: &mut PgConnection,
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
        let (mut live, mut beside) = (rows(live, app, user), rows(beside, app, user));
        let (mut one, mut other) = (live.try_next().await?, beside.try_next().await?);
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
                other = beside.try_next().await?;
            }
        }
    }
    let columns = columns(live, beside, app, &changed.first).await?;
    difference.changed = Items { count: changed.count, first: columns };
    Ok(difference)
}

/// Ids and checksums of a user's items, by id.
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
    beside: &mut PgConnection,
    app: AppId,
    ids: &[i64],
) -> Result<Vec<Changed>, Error> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let (live, replayed) = (values(live, app, ids).await?, values(beside, app, ids).await?);
    let nothing = BTreeMap::new();
    let changed = ids.iter().map(|id| {
        let (one, other) = (live.get(id).unwrap_or(&nothing), replayed.get(id).unwrap_or(&nothing));
        let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        let text = |row: &Row, name| row.get(name).map(|value| value.get().to_owned());
        let differing = names.into_iter().filter(|name| text(one, *name) != text(other, *name));
        Changed { id: ItemId(*id), columns: differing.cloned().collect() }
    });
    Ok(changed.collect())
}

/// The values of a row by their columns, as they are written.
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
