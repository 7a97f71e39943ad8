//! Comparison of a shadow with the live tables. In both, the stored counters must equal those computed from the rows.
//!
//! Rows from before the retention's limit are not compared: they may be missing in the live tables, and the shadow still has them. Only the
//! stored counters include these rows.

use std::cmp::Ordering;

use chrono::{DateTime, Utc};
use domain::inbox::Counts;
use domain::{AppId, UserNumber};
use futures_util::stream::{BoxStream, TryStreamExt};
use sqlx::PgConnection;

use super::difference::Difference;
use super::{Shadow, View, difference};
use crate::Error;

/// Summary of one user's inbox. Items that the retention may have removed are only in `recounted` and `kept`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbox {
    /// Includes rows of deleted items.
    pub items: i64,
    checksum: i64,
    /// Computed from the compared rows.
    pub compared: Counts,
    /// Computed from all rows.
    pub recounted: Counts,
    /// Stored counters; all are 0 if the user has no row of counters.
    pub kept: Counts,
}

impl Inbox {
    fn is_consistent(&self) -> bool {
        self.kept == self.recounted
    }

    pub(super) fn not_compared(&self) -> Counts {
        self.recounted - self.compared
    }

    /// Values that must be equal in the live tables and in the shadow.
    fn facts(&self) -> (i64, i64, Counts) {
        (self.items, self.checksum, self.compared)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Compared users that have a row in the live tables or in the shadow.
    pub users: u64,
    /// Compared item rows in the live tables.
    pub items: u64,
    pub differing: u64,
    /// Users whose erasure is not complete, and who are not compared.
    pub leaving: u64,
    pub shown: Vec<Difference>,
}

type Line = ((AppId, UserNumber), Inbox);

impl View {
    /// The shadow must be at the same stream positions as this view. The result contains details of the first `most` inboxes that differ.
    pub async fn compare(&mut self, shadow: &Shadow, most: usize) -> Result<Comparison, Error> {
        let mut comparison = Comparison { leaving: self.leaving.len() as u64, ..Comparison::default() };
        let mut replay = shadow.store.pool.acquire().await?;
        let differing = {
            let live = lines(&mut self.transaction, self.removed_before);
            let shadowed = lines(&mut replay, self.removed_before);
            let leaving = |user: &_| self.leaving.contains(user);
            comparison.merge(live, shadowed, leaving, most).await?
        };
        for (user, live, replayed) in differing {
            let (here, there) = (&mut *self.transaction, &mut *replay);
            let from = self.removed_before;
            comparison.shown.push(difference::look((here, live), (there, replayed), user, from).await?);
        }
        Ok(comparison)
    }
}

impl Comparison {
    /// Returns the first `most` inboxes that differ, each with its live summary and its summary in the shadow.
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
            let is_equal = kept.facts() == replayed.facts();
            if !is_equal || !kept.is_consistent() || !replayed.is_consistent() {
                self.differing += 1;
                if differing.len() < most {
                    differing.push((user, kept, replayed));
                }
            }
        }
    }
}

/// Streams one line per user, in key order. The checksum covers the text form of the rows, which includes every column. Rows that were
/// created before `from` are only in the counters `recounted`.
fn lines(connection: &mut PgConnection, from: Option<DateTime<Utc>>) -> BoxStream<'_, Result<Line, Error>> {
    let rows = sqlx::query_as!(
        InboxRow,
        r#"SELECT app_id AS "app_id!", user_number AS "user_number!", coalesce(i.items, 0) AS "items!",
             coalesce(i.checksum, 0) AS "checksum!", coalesce(i.total, 0) AS "total!",
             coalesce(i.unread, 0) AS "unread!", coalesce(i.unseen, 0) AS "unseen!", coalesce(i.hidden, 0) AS "hidden!",
             coalesce(i.all_total, 0) AS "all_total!", coalesce(i.all_unread, 0) AS "all_unread!",
             coalesce(i.all_unseen, 0) AS "all_unseen!", coalesce(i.all_hidden, 0) AS "all_hidden!",
             coalesce(c.total, 0) AS "kept_total!", coalesce(c.unread, 0) AS "kept_unread!",
             coalesce(c.unseen, 0) AS "kept_unseen!", coalesce(c.hidden, 0) AS "kept_hidden!"
           FROM (
             SELECT app_id, user_number, count(*) FILTER (WHERE compared) AS items,
               bit_xor(hashtextextended(item::text, 0)) FILTER (WHERE compared) AS checksum,
               count(*) FILTER (WHERE compared AND listed) AS total,
               count(*) FILTER (WHERE compared AND listed AND clicked_at IS NULL) AS unread,
               count(*) FILTER (WHERE compared AND listed AND seen_at IS NULL) AS unseen,
               count(*) FILTER (WHERE compared AND hidden) AS hidden,
               count(*) FILTER (WHERE listed) AS all_total,
               count(*) FILTER (WHERE listed AND clicked_at IS NULL) AS all_unread,
               count(*) FILTER (WHERE listed AND seen_at IS NULL) AS all_unseen,
               count(*) FILTER (WHERE hidden) AS all_hidden
             FROM inbox_item AS item
             CROSS JOIN LATERAL (
               SELECT $1::timestamptz IS NULL OR created_at >= $1 AS compared,
                 deleted_at IS NULL AND archived_at IS NULL AND snoozed_until IS NULL AS listed,
                 deleted_at IS NULL AND (archived_at IS NOT NULL OR snoozed_until IS NOT NULL) AS hidden
             ) AS place
             GROUP BY app_id, user_number
           ) AS i
           FULL JOIN inbox_counter AS c USING (app_id, user_number) ORDER BY app_id, user_number"#,
        from
    )
    .fetch(connection);
    Box::pin(rows.map_ok(|row| line(&row)).map_err(Error::from))
}

/// Counters without a prefix are computed from the compared items, those with `all` from all items; `kept` marks the stored ones.
struct InboxRow {
    app_id: i64,
    user_number: i64,
    items: i64,
    checksum: i64,
    total: i64,
    unread: i64,
    unseen: i64,
    hidden: i64,
    all_total: i64,
    all_unread: i64,
    all_unseen: i64,
    all_hidden: i64,
    kept_total: i64,
    kept_unread: i64,
    kept_unseen: i64,
    kept_hidden: i64,
}

fn line(row: &InboxRow) -> Line {
    let counts = |total, unread, unseen, hidden| Counts { total, unread, unseen, hidden };
    let inbox = Inbox {
        items: row.items,
        checksum: row.checksum,
        compared: counts(row.total, row.unread, row.unseen, row.hidden),
        recounted: counts(row.all_total, row.all_unread, row.all_unseen, row.all_hidden),
        kept: counts(row.kept_total, row.kept_unread, row.kept_unseen, row.kept_hidden),
    };
    ((AppId(row.app_id), UserNumber(row.user_number)), inbox)
}
