use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use domain::inbox::Counts;
use domain::{AppId, ItemId, UserNumber};
use futures_util::stream::{BoxStream, TryStreamExt};
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::Inbox;
use crate::Error;

const NAMED: usize = 10;

/// Contains no values of items, because these are personal data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub app: AppId,
    pub user: UserNumber,
    /// Items that exist only in the replay.
    pub missing: Items<ItemId>,
    /// Items that exist only in the live tables.
    pub unexpected: Items<ItemId>,
    pub changed: Items<ChangedItem>,
    /// Live counters.
    pub kept: Counts,
    /// Counters computed from the live items.
    pub recounted: Counts,
    /// Counters that the live inbox would have if the compared items equalled those of the replay.
    pub replayed: Counts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items<T> {
    pub count: u64,
    /// First ten items, ordered by id.
    pub first: Vec<T>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedItem {
    pub id: ItemId,
    /// Columns whose values differ.
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

/// Ignores items that were created before `from`.
pub(super) async fn look(
    (live, here): (&mut PgConnection, Inbox),
    (replay, there): (&mut PgConnection, Inbox),
    (app, user): (AppId, UserNumber),
    from: Option<DateTime<Utc>>,
) -> Result<Difference, Error> {
    let mut replayed = there.kept - there.not_compared();
    replayed += here.not_compared();
    let mut difference = Difference {
        app,
        user,
        missing: Items::default(),
        unexpected: Items::default(),
        changed: Items::default(),
        kept: here.kept,
        recounted: here.recounted,
        replayed,
    };
    let mut changed = Items::default();
    {
        let (mut live, mut replay) = (rows(live, app, user, from), rows(replay, app, user, from));
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

/// Streams ids and checksums, ordered by id.
fn rows(
    connection: &mut PgConnection,
    app: AppId,
    user: UserNumber,
    from: Option<DateTime<Utc>>,
) -> BoxStream<'_, Result<(i64, i64), Error>> {
    let rows = sqlx::query!(
        r#"SELECT id, hashtextextended(i::text, 0) AS "checksum!" FROM inbox_item i
           WHERE app_id = $1 AND user_number = $2 AND ($3::timestamptz IS NULL OR created_at >= $3) ORDER BY id"#,
        app.0,
        user.0,
        from
    )
    .fetch(connection);
    Box::pin(rows.map_ok(|row| (row.id, row.checksum)).map_err(Error::from))
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

/// Values by column, as JSON text.
type Row = BTreeMap<String, Box<RawValue>>;

async fn values(connection: &mut PgConnection, app: AppId, ids: &[i64]) -> Result<BTreeMap<i64, Row>, Error> {
    let rows = sqlx::query!(
        r#"SELECT id, row_to_json(i)::text AS "json!" FROM inbox_item i
           WHERE app_id = $1 AND id = ANY($2) ORDER BY id"#,
        app.0,
        ids
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            let values =
                serde_json::from_str(&row.json).map_err(|error| Error::Unreadable(error.to_string()))?;
            Ok((row.id, values))
        })
        .collect()
}
