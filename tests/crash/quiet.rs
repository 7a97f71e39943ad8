//! Waiting until nothing is left to do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::{Channel, Lane, StreamName};
use testkit::eventually;

use crate::checkpoints::{self, Place};
use crate::system::System;

/// In the crash configuration everybody has come back to everything by then.
pub(crate) const WITHIN: Duration = Duration::from_secs(60);
/// Between two words of how far it is.
const TELL_EVERY: Duration = Duration::from_secs(10);
const OPEN: &str = "deliveries that have not ended";
/// Of what hangs, so many are named.
const NAMED: i64 = 5;

/// A look at every place, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    /// What is still to be done, by place; nothing of a place where nothing is.
    left: Vec<String>,
    /// How many messages all streams ever had, some of them counted for each who follows.
    written: u64,
}

/// Returns when nothing is left, with the time that it took.
///
/// # Panics
/// When something is left after 60 s, which is named; or a part has ended.
pub(crate) async fn wait_until(system: &mut System) -> Duration {
    match within(system, WITHIN).await {
        Ok(took) => took,
        Err(left) => panic!("{left}"),
    }
}

/// As [`wait_until`], with a limit of the caller's: what is left then is the error.
///
/// # Panics
/// A part has ended.
pub(crate) async fn within(system: &mut System, limit: Duration) -> Result<Duration, String> {
    let began = Instant::now();
    let mut last: Option<Look> = None;
    let mut next_told = TELL_EVERY;
    let quiet = async || {
        system.assert_running();
        let look = look(system).await?;
        // What went from one place to another between two looks was written meanwhile.
        let is_quiet = look.left.is_empty() && last.as_ref() == Some(&look);
        if began.elapsed() >= next_told {
            println!("{:>6.1} s: left are {}", began.elapsed().as_secs_f64(), look.left.join("; "));
            next_told += TELL_EVERY;
        }
        last = Some(look);
        is_quiet.then_some(())
    };
    // A little longer than what is waited for, so that what is left can be told.
    let waiting = tokio::time::timeout(limit, eventually(2 * limit, "it is quiet", quiet)).await;
    if waiting.is_ok() {
        return Ok(began.elapsed());
    }
    let left = last.map_or("nobody knows what, no server answers".to_owned(), |last| last.left.join("; "));
    Err(format!("after {limit:?} there is something left: {left}\n{}", named(system).await))
}

/// None where a server does not answer.
async fn look(system: &System) -> Option<Look> {
    let (mut left, mut written) = (Vec::new(), 0);
    let mut note = |what: String, number: i64| {
        if number != 0 {
            left.push(format!("{number} {what}"));
        }
    };
    for &lane in Lane::ALL {
        let stream = StreamName::Send(lane);
        written += system.log.state(stream).await.ok()?.last_seq;
        note(format!("messages of {stream}"), unacknowledged(system, stream, "dispatcher").await?);
        for channel in [Channel::Email, Channel::WebPush, Channel::MobilePush, Channel::Sms] {
            let stream = StreamName::Job(channel, lane);
            written += system.log.state(stream).await.ok()?.last_seq;
            note(format!("messages of {stream}"), unacknowledged(system, stream, channel.as_str()).await?);
        }
    }
    let at: BTreeMap<Place, i64> = checkpoints::current(&system.database)
        .await
        .ok()?
        .into_iter()
        .map(|sample| (sample.place, sample.seq))
        .collect();
    for (place, stream) in checkpoints::places(system.scene.partitions) {
        let last = system.log.state(stream).await.ok()?.last_seq;
        written += last;
        let passed = at.get(&place).copied().unwrap_or_default();
        note(
            format!("events of {stream} that {} has not passed", place.0),
            i64::try_from(last).unwrap() - passed,
        );
    }
    let (timers, deliveries, webhooks) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM timer),
                (SELECT count(*) FROM delivery WHERE status IN ('queued', 'sending', 'retrying')),
                (SELECT count(*) FROM webhook_message WHERE status = 'pending')",
    )
    .fetch_one(&system.database)
    .await
    .ok()?;
    note("timers".to_owned(), timers);
    note(OPEN.to_owned(), deliveries);
    note("webhooks that are not told".to_owned(), webhooks);
    Some(Look { left, written })
}

async fn unacknowledged(system: &System, stream: StreamName, durable: &str) -> Option<i64> {
    let progress = system.log.consumer_progress(stream, durable).await.ok()??;
    i64::try_from(progress.pending + progress.ack_pending).ok()
}

/// Some of what hangs.
async fn named(system: &System) -> String {
    let hanging = sqlx::query_scalar::<_, String>(
        "(SELECT format('delivery %s by %s: %s, attempt %s, lease until %s', id, channel, status, attempt, lease_until)
            FROM delivery WHERE status IN ('queued', 'sending', 'retrying') LIMIT $1)
         UNION ALL
         (SELECT format('timer %s of send %s for %s, due %s', id, send_id, stream, due_at)
            FROM timer ORDER BY due_at LIMIT $1)
         UNION ALL
         (SELECT format('webhook %s of %s: attempt %s, last answer %s, next at %s', id, subject, attempts, last_answer, next_at)
            FROM webhook_message WHERE status = 'pending' ORDER BY number LIMIT $1)",
    )
    .bind(NAMED)
    .fetch_all(&system.database)
    .await;
    hanging.map_or_else(|error| error.to_string(), |hanging| hanging.join("\n"))
}
