//! Waiting until nothing is left to do.

use std::time::Duration;

use domain::{Channel, Lane, StreamName};
use testkit::eventually;

use crate::system::{PARTITIONS, System};

/// Longer than a lease, an ack_wait and the longest sendAt together.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// Returns when nothing is left.
///
/// # Panics
/// When nothing moves for a while and something is left; or a service has ended.
pub(crate) async fn wait_until(system: &mut System) {
    let mut last = None;
    loop {
        let left = eventually(STALLED_AFTER, &format!("less is left than {last:?}"), async || {
            let left = left(system).await;
            (last.as_ref() != Some(&left)).then_some(left)
        })
        .await;
        system.assert_running();
        if left.iter().all(|(_, count)| *count == 0) {
            return;
        }
        last = Some(left);
    }
}

/// What is still to be done, by place.
async fn left(system: &System) -> Vec<(String, u64)> {
    let mut left = Vec::new();
    for &lane in Lane::ALL {
        let jobs = Channel::EXTERNAL.map(|channel| (StreamName::Job(channel, lane), channel.as_str()));
        for (stream, durable) in jobs.into_iter().chain([(StreamName::Send(lane), "dispatcher")]) {
            let progress = system.log.consumer_progress(stream, durable).await.unwrap();
            let progress = progress.map_or(0, |progress| progress.pending + progress.ack_pending);
            left.push((stream.to_string(), progress));
        }
    }
    for stream in (0..PARTITIONS).map(StreamName::Inbox) {
        let projected: i64 = sqlx::query_scalar(
            "SELECT coalesce(max(seq), 0) FROM checkpoint WHERE projection = 'inbox' AND stream = $1",
        )
        .bind(stream.to_string())
        .fetch_one(&system.database)
        .await
        .unwrap();
        let last = system.log.state(stream).await.unwrap().last_seq;
        left.push((stream.to_string(), last - u64::try_from(projected).unwrap()));
    }
    let (timers, deliveries): (i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM timer),
                (SELECT count(*) FROM delivery WHERE status IN ('queued', 'sending', 'retrying'))",
    )
    .fetch_one(&system.database)
    .await
    .unwrap();
    left.push(("timers".to_owned(), u64::try_from(timers).unwrap()));
    left.push(("deliveries".to_owned(), u64::try_from(deliveries).unwrap()));
    left
}
