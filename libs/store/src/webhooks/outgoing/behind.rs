//! Looks behind the positions of searches, for messages that they passed over. A look locks nothing and claims nothing, so it delays no
//! claim, however much it reads.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::force_index_scans;
use crate::database::columns::columns;
use crate::database::connection::answered;
use crate::{Error, Webhooks};

/// Transactions are committed within this time after their start, unless a server stalls.
pub(super) const LATE: Duration = Duration::from_secs(10);
/// Time between two looks of the same reach, unless they take long.
const EACH: Duration = Duration::from_secs(1);
/// A look that failed within this time has read little. Longer than the pool waits for a connection.
const AT_ONCE: Duration = Duration::from_secs(5);

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

    /// Longest time between two looks.
    pub(super) fn longest(self) -> Duration {
        match self {
            Reach::Recent => LATE / 2,
            Reach::Full => Duration::from_secs(120),
        }
    }

    pub(super) fn next(self, took: Duration, ended: Duration) -> Duration {
        ended + EACH.max(took * self.share()).min(self.longest())
    }

    /// Returns the due time from which a look reads. A late message waits for a search of wakes before its look, so recent looks read from
    /// twice [`LATE`].
    fn since(self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        (self == Reach::Recent).then(|| now - 2 * LATE)
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
        self.looked_at.retain(|endpoint| look.unread.contains(&endpoint.0));
        let took = ended.saturating_sub(look.began);
        let failed_at_once = !look.unread.is_empty() && took < AT_ONCE;
        self.next_at = if failed_at_once { ended + EACH } else { self.reach.next(took, ended) };
    }

    pub(super) fn forget_look(&mut self) {
        self.is_looking = false;
    }

    pub(super) fn apps(&self) -> impl Iterator<Item = i64> {
        self.asked.iter().chain(&self.looked_at).map(|(app, _)| *app)
    }
}

/// A look behind the positions of some endpoints.
#[derive(Debug)]
pub struct Behind {
    pub(super) reach: Reach,
    began: Duration,
    pub(super) positions: BTreeMap<i64, Vec<Place>>,
    /// Earlier times than those of the positions.
    pub(super) found: Vec<Place>,
    /// Apps whose endpoints have not been read.
    pub(super) unread: BTreeSet<i64>,
}

/// Times of an endpoint from which messages are due and claims of running calls end. A missing time is not known, or was not found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) endpoint: (i64, i64),
    pub(super) due_from: Option<DateTime<Utc>>,
    pub(super) claimed_from: Option<DateTime<Utc>>,
}

impl Behind {
    pub(super) fn new(reach: Reach, began: Duration, places: impl Iterator<Item = Place>) -> Behind {
        let mut positions = BTreeMap::<i64, Vec<Place>>::new();
        for place in places {
            positions.entry(place.endpoint.0).or_default().push(place);
        }
        let unread = positions.keys().copied().collect();
        Behind { reach, began, positions, found: Vec::new(), unread }
    }
}

impl Webhooks<'_> {
    /// Reads the queue behind the positions of a search, one app after the other, so that an app whose queue takes too long does not hide
    /// the others. Returns the last error; the next look repeats the apps that failed.
    pub async fn look_behind(self, look: &mut Behind) -> Result<(), Error> {
        let mut result = Ok(());
        for (app, places) in &look.positions {
            match answered(self.read_behind(look.reach, places)).await {
                Ok(found) => {
                    look.unread.remove(app);
                    look.found.extend(found);
                }
                Err(error) => result = Err(error),
            }
        }
        result
    }

    async fn read_behind(self, reach: Reach, places: &[Place]) -> Result<Vec<Place>, Error> {
        let mut transaction = self.0.begin().await?;
        let now = force_index_scans(&mut transaction).await?;
        columns! { place in places =>
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
            reach.since(now)
        )
        .fetch_all(&mut *transaction)
        .await?;
        transaction.rollback().await?;
        let place = |app, id, due_from, claimed_from| Place { endpoint: (app, id), due_from, claimed_from };
        Ok(rows.into_iter().map(|row| place(row.app_id, row.id, row.due_from, row.claimed_from)).collect())
    }
}
