//! How far a round has come.

use std::time::Duration;

use domain::{Channel, Lane, StreamName};
use testkit::eventually;
use uuid::Uuid;

use crate::system::System;

/// Longer than the longest rest of a provider, which is five minutes: the last deliveries of a round may wait for the trial of one
/// that failed several trials by chance.
const STALLED_AFTER: Duration = Duration::from_secs(360);

/// What is still to be done, by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Left {
    recipients: i64,
    deliveries: i64,
    timers: i64,
    jobs: u64,
}

impl System {
    /// Waits until this many deliveries of the requests have ended.
    pub(crate) async fn until_ended(&mut self, requests: &[Uuid], deliveries: usize) {
        let mut last = 0;
        while last < deliveries {
            let what = format!("more than {last} of {deliveries} deliveries have ended");
            last = eventually(STALLED_AFTER, &what, async || {
                let ended = self.ended(requests).await;
                (ended > last).then_some(ended)
            })
            .await;
            self.assert_running();
        }
    }

    async fn ended(&self, requests: &[Uuid]) -> usize {
        let ended: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM delivery
             WHERE send_id = ANY($1) AND status NOT IN ('queued', 'sending', 'retrying')",
        )
        .bind(requests)
        .fetch_one(&self.database)
        .await
        .unwrap();
        usize::try_from(ended).unwrap()
    }

    /// Waits until nothing is left to do of requests with so many recipients together.
    ///
    /// # Panics
    /// When nothing moves for a while and something is left; or a service has ended.
    pub(crate) async fn until_quiet(&mut self, requests: &[Uuid], recipients: usize) {
        let mut last = None;
        loop {
            let moved = eventually(STALLED_AFTER, &format!("less is left than {last:?}"), async || {
                let left = self.left(requests, recipients).await;
                (last.as_ref() != Some(&left)).then_some(left)
            })
            .await;
            self.assert_running();
            if moved == Left::default() {
                return;
            }
            last = Some(moved);
        }
    }

    async fn left(&self, requests: &[Uuid], recipients: usize) -> Left {
        let mut jobs = 0;
        for channel in [Channel::Email, Channel::WebPush, Channel::MobilePush, Channel::Sms] {
            for &lane in Lane::ALL {
                let stream = StreamName::Job(channel, lane);
                let progress = self.log.consumer_progress(stream, channel.as_str()).await.unwrap();
                jobs += progress.map_or(0, |progress| progress.pending + progress.ack_pending);
            }
        }
        let (planned, deliveries, timers): (i64, i64, i64) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM planned_recipient WHERE send_id = ANY($1)),
               (SELECT count(*) FROM delivery WHERE status IN ('queued', 'sending', 'retrying')),
               (SELECT count(*) FROM timer)",
        )
        .bind(requests)
        .fetch_one(&self.database)
        .await
        .unwrap();
        Left { recipients: i64::try_from(recipients).unwrap() - planned, deliveries, timers, jobs }
    }
}
