//! Waiting until no work is left.

use std::time::{Duration, Instant};

use suite::Backlog;
use testkit::eventually;

use crate::system::System;

/// Time limit. With the short leases and retry times of the crash run, all work finishes within it.
pub(crate) const WITHIN: Duration = Duration::from_secs(60);
const REPORTED_EVERY: Duration = Duration::from_secs(10);
/// Maximum number of examples of each kind of remaining work.
const EXAMPLES: i64 = 5;

/// Waits until no work remains, and returns the time that this took.
///
/// # Panics
/// Work remains after 60 s, or a process ends. The message lists the remaining work.
pub(crate) async fn wait_until(system: &mut System) -> Duration {
    match within(system, WITHIN).await {
        Ok(took) => took,
        Err(left) => panic!("{left}"),
    }
}

/// Like [`wait_until`], but with the given time limit. The error lists the remaining work.
///
/// # Panics
/// A process ends.
pub(crate) async fn within(system: &mut System, limit: Duration) -> Result<Duration, String> {
    let began = Instant::now();
    let mut last: Option<Backlog> = None;
    let mut next_report = REPORTED_EVERY;
    let idle = async || {
        system.assert_all_running();
        let backlog = Backlog::read(system).await?;
        let is_idle = backlog.is_idle_since(last.as_ref());
        if began.elapsed() >= next_report {
            println!("{:>6.1} s: remaining: {backlog}", began.elapsed().as_secs_f64());
            next_report += REPORTED_EVERY;
        }
        last = Some(backlog);
        is_idle.then_some(())
    };
    // The timeout ends the wait before `eventually` panics, so that the error can list the remaining work.
    let waiting = tokio::time::timeout(limit, eventually(2 * limit, "the system is idle", idle)).await;
    if waiting.is_ok() {
        return Ok(began.elapsed());
    }
    let left = last.map_or("unknown, a server does not answer".to_owned(), |last| last.to_string());
    Err(format!("work remains after {limit:?}: {left}\n{}", examples(system).await))
}

/// Lists some of the remaining work.
async fn examples(system: &System) -> String {
    let examples = sqlx::query_scalar::<_, String>(
        "(SELECT format('delivery %s by %s: %s, attempt %s, lease until %s', id, channel, status, attempt, lease_until)
            FROM delivery WHERE status IN ('queued', 'sending', 'retrying') LIMIT $1)
         UNION ALL
         (SELECT format('timer %s of send %s for %s, due %s', id, send_id, stream, due_at)
            FROM timer ORDER BY due_at LIMIT $1)
         UNION ALL
         (SELECT format('webhook %s of %s: attempt %s, last answer %s, next at %s', id, subject, attempts, last_answer, next_at)
            FROM webhook_message WHERE status = 'pending' ORDER BY number LIMIT $1)",
    )
    .bind(EXAMPLES)
    .fetch_all(&system.database)
    .await;
    examples.map_or_else(|error| error.to_string(), |examples| examples.join("\n"))
}
