//! Waiting until nothing is left to do.

use std::time::Duration;

use domain::{Channel, Lane, StreamName};
use event_log::EventLog;
use testkit::eventually;

use crate::system::{PARTITIONS, System};

/// Longer than a lease and an ack_wait together, which are all that somebody may have to wait for.
const STALLED_AFTER: Duration = Duration::from_secs(40);

/// What is still to be done, by place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Left {
    sends: u64,
    jobs: u64,
    inbox_events: u64,
    timers: i64,
    deliveries: i64,
}

/// Returns when nothing is left.
///
/// # Panics
/// When nothing moves for a while and something is left; or a part has ended.
pub(crate) async fn wait_until(system: &mut System) {
    let mut last = None;
    loop {
        let moved = eventually(STALLED_AFTER, &format!("less is left than {last:?}"), async || {
            let left = left(system).await?;
            (last.as_ref() != Some(&left)).then_some(left)
        })
        .await;
        system.assert_running();
        if moved == (Left { sends: 0, jobs: 0, inbox_events: 0, timers: 0, deliveries: 0 }) {
            return;
        }
        last = Some(moved);
    }
}

/// None where the log is just starting again.
async fn left(system: &System) -> Option<Left> {
    let (mut sends, mut jobs, mut inbox_events) = (0, 0, 0);
    for &lane in Lane::ALL {
        sends += unacknowledged(&system.log, StreamName::Send(lane), "dispatcher").await?;
        jobs += unacknowledged(&system.log, StreamName::Job(Channel::Email, lane), "email").await?;
    }
    for number in 0..PARTITIONS {
        let stream = StreamName::Inbox(number);
        let projected: i64 =
            sqlx::query_scalar("SELECT coalesce(max(seq), 0) FROM checkpoint WHERE stream = $1")
                .bind(stream.to_string())
                .fetch_one(&system.database)
                .await
                .unwrap();
        inbox_events += system.log.state(stream).await.ok()?.last_seq - u64::try_from(projected).unwrap();
    }
    let (timers, deliveries) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM timer),
                (SELECT count(*) FROM delivery WHERE status IN ('queued', 'sending', 'retrying'))",
    )
    .fetch_one(&system.database)
    .await
    .unwrap();
    Some(Left { sends, jobs, inbox_events, timers, deliveries })
}

async fn unacknowledged(log: &EventLog, stream: StreamName, durable: &str) -> Option<u64> {
    let progress = log.consumer_progress(stream, durable).await.ok()??;
    Some(progress.pending + progress.ack_pending)
}
