//! Comparison of a shadow with the live tables. For each user, it compares the number of rows, a checksum over all columns,
//! the counters, and counters that are computed again from the rows.

use std::cmp::Ordering;

use domain::inbox::Counts;
use domain::{AppId, UserNumber};
use futures_util::stream::{BoxStream, TryStreamExt};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::difference::Difference;
use super::{Shadow, View, difference};
use crate::Error;

/// Query that returns one line for each user that has a row, in key order. The checksum covers the text form of the rows,
/// which includes every column.
const INBOXES: &str = "
    SELECT app_id, user_number, coalesce(i.items, 0) AS items, coalesce(i.checksum, 0) AS checksum,
      coalesce(i.total, 0) AS total, coalesce(i.unread, 0) AS unread, coalesce(i.unseen, 0) AS unseen,
      coalesce(c.total, 0) AS kept_total, coalesce(c.unread, 0) AS kept_unread, coalesce(c.unseen, 0) AS kept_unseen
    FROM (
      SELECT app_id, user_number, count(*) AS items, bit_xor(hashtextextended(item::text, 0)) AS checksum,
        count(*) FILTER (WHERE deleted_at IS NULL) AS total,
        count(*) FILTER (WHERE deleted_at IS NULL AND clicked_at IS NULL) AS unread,
        count(*) FILTER (WHERE deleted_at IS NULL AND seen_at IS NULL) AS unseen
      FROM inbox_item AS item GROUP BY app_id, user_number
    ) AS i
    FULL JOIN inbox_counter AS c USING (app_id, user_number) ORDER BY app_id, user_number";

/// Summary of one user's inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbox {
    /// Number of rows, including rows of deleted items.
    pub items: i64,
    checksum: i64,
    /// Counters computed from the rows.
    pub recounted: Counts,
    /// Stored counters; all are 0 if the user has no row of counters.
    pub kept: Counts,
}

/// Result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Number of compared users that have a row in the live tables or in the shadow.
    pub users: u64,
    /// Number of compared item rows in the live tables.
    pub items: u64,
    /// Number of users whose inboxes differ.
    pub differing: u64,
    /// Number of users whose erasure is not complete. They are not compared.
    pub leaving: u64,
    /// Details of the first inboxes that differ.
    pub shown: Vec<Difference>,
}

type Line = ((AppId, UserNumber), Inbox);

impl View {
    /// Compares the inboxes of all users in this view with those of the shadow, which must be at the same stream positions.
    /// The result contains details of the first `most` inboxes that differ.
    pub async fn compare(&mut self, shadow: &Shadow, most: usize) -> Result<Comparison, Error> {
        let mut comparison = Comparison { leaving: self.leaving.len() as u64, ..Comparison::default() };
        let mut replay = shadow.store.pool.acquire().await?;
        let differing = {
            let live = lines(&mut self.transaction);
            let shadowed = lines(&mut replay);
            let leaving = |user: &_| self.leaving.contains(user);
            comparison.merge(live, shadowed, leaving, most).await?
        };
        for (user, live, replayed) in differing {
            let (here, there) = (&mut *self.transaction, &mut *replay);
            comparison.shown.push(difference::look(here, there, user, live, replayed).await?);
        }
        Ok(comparison)
    }
}

impl Comparison {
    /// Compares the live lines with the lines of the shadow, and counts users, items and differences. Returns the first
    /// `most` inboxes that differ, each with its live and its replayed summary.
    async fn merge(
        &mut self,
        mut live: BoxStream<'_, Result<Line, Error>>,
        mut shadow: BoxStream<'_, Result<Line, Error>>,
        leaving: impl Fn(&(AppId, UserNumber)) -> bool,
        most: usize,
    ) -> Result<Vec<((AppId, UserNumber), Inbox, Inbox)>, Error> {
        let mut differing = Vec::new();
        let (mut here, mut there) = tokio::try_join!(live.try_next(), shadow.try_next())?;
        loop {
            let order = match (&here, &there) {
                (None, None) => return Ok(differing),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((one, _)), Some((other, _))) => one.cmp(other),
            };
            let kept = if order.is_le() { here.take() } else { None };
            let replayed = if order.is_ge() { there.take() } else { None };
            if order.is_le() {
                here = live.try_next().await?;
            }
            if order.is_ge() {
                there = shadow.try_next().await?;
            }
            let Some(user) = kept.as_ref().or(replayed.as_ref()).map(|(user, _)| *user) else { continue };
            if leaving(&user) {
                continue;
            }
            let inbox = |line: Option<Line>| line.map(|(_, inbox)| inbox).unwrap_or_default();
            let kept = inbox(kept);
            let replayed = inbox(replayed);
            self.users += u64::from(kept != Inbox::default() || replayed != Inbox::default());
            self.items += kept.items.cast_unsigned();
            if kept != replayed || kept.kept != kept.recounted {
                self.differing += 1;
                if differing.len() < most {
                    differing.push((user, kept, replayed));
                }
            }
        }
    }
}

/// Streams the result of [`INBOXES`].
fn lines(connection: &mut PgConnection) -> BoxStream<'_, Result<Line, Error>> {
    let rows = sqlx::query(INBOXES).fetch(connection);
    Box::pin(rows.map_err(Error::from).and_then(async |row| line(&row)))
}

fn line(row: &PgRow) -> Result<Line, Error> {
    let counts = |total, unread, unseen| -> Result<Counts, Error> {
        Ok(Counts { total: row.try_get(total)?, unread: row.try_get(unread)?, unseen: row.try_get(unseen)? })
    };
    let inbox = Inbox {
        items: row.try_get("items")?,
        checksum: row.try_get("checksum")?,
        recounted: counts("total", "unread", "unseen")?,
        kept: counts("kept_total", "kept_unread", "kept_unseen")?,
    };
    Ok(((AppId(row.try_get("app_id")?), UserNumber(row.try_get("user_number")?)), inbox))
}
