//! Measurement of the speed of the whole system: the first sends of the load, made without faults and as fast as the clients can.

use std::time::{Duration, Instant};

use domain::Channel;
use futures_util::{StreamExt, stream};
use suite::pace;

use crate::workload::Workload;

/// Maximum number of measured sends.
pub(super) const SENDS: usize = 400;
const INTERVAL: Duration = Duration::from_millis(50);
/// Shares of pairs that have ended at the start and at the end of the measurement, in percent. The first pairs also wait for
/// connections to open; the last ones wait for their scheduled time or for a retry.
const FROM: usize = 10;
const TO: usize = 80;
/// Maximum duration. On a machine that takes longer, the rate of this time counts.
const LIMIT: Duration = Duration::from_secs(60);

impl Workload {
    /// Makes the measured sends, and returns the number of sends per second that reach their final status. The journal records
    /// these sends like all others.
    pub(crate) async fn measure(&self) -> f64 {
        let sends = 0..self.size.measured;
        let pairs: usize = sends.clone().map(|number| self.number_of_pairs(number)).sum();
        let sending =
            stream::iter(sends).for_each_concurrent(self.size.clients, |number| self.send_one(number, None));
        let ((), pairs_per_second) = tokio::join!(sending, self.pairs_per_second(pairs));
        pairs_per_second * self.size.measured as f64 / pairs.max(1) as f64
    }

    /// Number of inbox items and deliveries that a send creates.
    fn number_of_pairs(&self, number: usize) -> usize {
        let notice = self.notice(number);
        let of_user = |user: &usize| {
            let targets = self.targets(*user);
            let of_channel = |channel: &Channel| match channel {
                Channel::InApp => 1,
                _ => targets.get(channel).map_or(0, |targets| targets.len()),
            };
            notice.channels.iter().map(of_channel).sum::<usize>()
        };
        notice.recipients.iter().map(of_user).sum()
    }

    async fn pairs_per_second(&self, pairs: usize) -> f64 {
        let began = Instant::now();
        let (mut from, mut pace) = (None, pace(INTERVAL));
        loop {
            pace.tick().await;
            let (ended, now) = (self.ended_pairs().await, Instant::now());
            if ended >= pairs * TO / 100 || now - began >= LIMIT {
                let (first, since) = from.unwrap_or((0, began));
                return (ended - first) as f64 / (now - since).as_secs_f64();
            }
            if from.is_none() && ended >= pairs * FROM / 100 {
                from = Some((ended, now));
            }
        }
    }

    async fn ended_pairs(&self) -> usize {
        let ended: i64 = sqlx::query_scalar(
            "SELECT (SELECT count(*) FROM inbox_item)
                  + (SELECT count(*) FROM delivery WHERE status NOT IN ('queued', 'sending', 'retrying'))",
        )
        .fetch_one(&self.database)
        .await
        .unwrap();
        usize::try_from(ended).unwrap()
    }
}
