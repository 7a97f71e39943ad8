//! Looks behind the positions of searches, for messages that they passed over. A look locks nothing and claims nothing, so it delays no
//! claim, however much it reads.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::force_index_scans;
use crate::database::columns::columns;
use crate::database::connection::answered;
use crate::{Error, Webhooks};

/// A recent look reads messages that became due within this time. Longer than transactions last, unless a server stalls.
const RECENT: Duration = Duration::from_secs(10);
/// Time between two looks of the same reach, unless they take long.
const EACH: Duration = Duration::from_secs(1);

/// Part of the queue behind the positions that a look reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Recent,
    Full,
}

impl Reach {
    /// Looks use at most this fraction of the time. Full ones are few, so that they do not show in the 99th percentile of other statements.
    fn share(self) -> u32 {
        match self {
            Reach::Recent => 20,
            Reach::Full => 200,
        }
    }

    /// Longest time between two looks. With half of [`RECENT`], recent looks leave no time out.
    pub(super) fn longest(self) -> Duration {
        match self {
            Reach::Recent => RECENT / 2,
            Reach::Full => Duration::from_secs(120),
        }
    }

    pub(super) fn next(self, took: Duration, ended: Duration) -> Duration {
        ended + EACH.max(took * self.share()).min(self.longest())
    }

    /// Returns the due time from which recent messages are read.
    pub(super) fn since(now: DateTime<Utc>) -> DateTime<Utc> {
        now - RECENT
    }
}

/// Looks of one reach. A message comes with a wake, and only the search that removed the wake can have passed the message over. So there is
/// nothing to look for in endpoints that were not asked for since the last look.
#[derive(Debug)]
pub(super) struct Lookout {
    pub(super) reach: Reach,
    asked: HashSet<(i64, i64)>,
    /// Endpoints of the look under way, or of one that failed.
    looked_at: HashSet<(i64, i64)>,
    next_at: Duration,
    is_looking: bool,
}

impl Lookout {
    pub(super) fn new(reach: Reach) -> Lookout {
        let (asked, looked_at) = (HashSet::new(), HashSet::new());
        Lookout { reach, asked, looked_at, next_at: Duration::ZERO, is_looking: false }
    }

    pub(super) fn add(&mut self, endpoint: (i64, i64)) {
        self.asked.insert(endpoint);
    }

    pub(super) fn is_due(&self, at: Duration) -> bool {
        !self.is_looking && self.next_at <= at && !(self.asked.is_empty() && self.looked_at.is_empty())
    }

    /// Returns the endpoints of a look that begins.
    pub(super) fn begin(&mut self) -> impl Iterator<Item = (i64, i64)> {
        self.is_looking = true;
        self.looked_at.extend(self.asked.drain());
        self.looked_at.iter().copied()
    }

    pub(super) fn end(&mut self, look: &Behind, ended: Duration) {
        self.is_looking = false;
        self.next_at = self.reach.next(ended.saturating_sub(look.began), ended);
        if look.is_done {
            self.looked_at.clear();
        }
    }

    pub(super) fn forget_look(&mut self) {
        self.is_looking = false;
    }
}

/// A look behind the positions of some endpoints.
#[derive(Debug)]
pub struct Behind {
    pub(super) reach: Reach,
    began: Duration,
    pub(super) positions: Vec<Place>,
    /// Earlier times than those of the positions.
    pub(super) found: Vec<Place>,
    pub(super) is_done: bool,
}

/// Times of an endpoint from which messages are due and claims of running calls end. A missing time is not known, or was not found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) endpoint: (i64, i64),
    pub(super) due_from: Option<DateTime<Utc>>,
    pub(super) claimed_from: Option<DateTime<Utc>>,
}

impl Behind {
    pub(super) fn new(reach: Reach, began: Duration, positions: Vec<Place>) -> Behind {
        Behind { reach, began, positions, found: Vec::new(), is_done: false }
    }
}

impl Webhooks<'_> {
    /// Reads the queue behind the positions of a search. After an error, the look has found nothing, and the next one repeats it.
    pub async fn look_behind(self, look: &mut Behind) -> Result<(), Error> {
        look.found = answered(self.read_behind(look)).await?;
        look.is_done = true;
        Ok(())
    }

    async fn read_behind(self, look: &Behind) -> Result<Vec<Place>, Error> {
        let mut transaction = self.0.begin().await?;
        let now = force_index_scans(&mut transaction).await?;
        let since = match look.reach {
            Reach::Recent => Some(Reach::since(now)),
            Reach::Full => None,
        };
        columns! { place in look.positions =>
            app = place.endpoint.0,
            id = place.endpoint.1,
            due_from = place.due_from,
            claimed_from = place.claimed_from,
        }
        let rows = sqlx::query!(
            r#"SELECT known.app_id AS "app_id!", known.id AS "id!", due.at AS due_from, running.at AS claimed_from
             FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::timestamptz[])
               AS known (app_id, id, due_from, claimed_from)
             LEFT JOIN LATERAL (
               SELECT next_at AS at FROM webhook_message
               WHERE app_id = known.app_id AND endpoint_id = known.id AND head AND next_at < least(known.due_from, now())
                 AND next_at >= coalesce($5::timestamptz, '-infinity')
               ORDER BY next_at, number LIMIT 1
             ) AS due ON true LEFT JOIN LATERAL (
               SELECT next_at AS at FROM webhook_message
               WHERE app_id = known.app_id AND endpoint_id = known.id AND token IS NOT NULL AND next_at > now()
                 AND next_at < known.claimed_from
               ORDER BY next_at LIMIT 1
             ) AS running ON true
             WHERE due.at IS NOT NULL OR running.at IS NOT NULL"#,
            &app,
            &id,
            &due_from as &[Option<DateTime<Utc>>],
            &claimed_from as &[Option<DateTime<Utc>>],
            since
        )
        .fetch_all(&mut *transaction)
        .await?;
        transaction.rollback().await?;
        let place = |app, id, due_from, claimed_from| Place { endpoint: (app, id), due_from, claimed_from };
        Ok(rows.into_iter().map(|row| place(row.app_id, row.id, row.due_from, row.claimed_from)).collect())
    }
}
