//! Waiting until no work is left.

use std::time::{Duration, Instant};

use suite::Backlog;
use testkit::eventually;

use crate::system::System;

/// Time limit. With the short leases and retry times of the crash run, all work finishes within it.
pub(crate) const WITHIN: Duration = Duration::from_secs(120);
/// Multiple of the time limit after which the run no longer waits. Until then it does wait, because a send is lost only if its work
/// never ends.
const PATIENCE: u32 = 3;
const REPORTED_EVERY: Duration = Duration::from_secs(10);
/// Maximum number of examples of each kind of remaining work.
const EXAMPLES: i64 = 5;

/// Result of waiting until no work is left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) took: Duration,
    /// Remaining work, if it did not end in this time.
    pub(crate) left: Option<String>,
}

/// Waits until no work remains, and returns the time that this took.
///
/// # Panics
/// Work remains after 180 s, or a process ends. The message lists the remaining work.
pub(crate) async fn wait_until(system: &mut System) -> Duration {
    let Waiting { took, left } = wait(system, WITHIN).await;
    left.map_or(took, |left| panic!("{left}"))
}

/// Waits until no work remains, for up to three times the limit, which the caller compares with the result.
///
/// # Panics
/// A process ends.
pub(crate) async fn wait(system: &mut System, limit: Duration) -> Waiting {
    let bound = PATIENCE * limit;
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
    let waiting = tokio::time::timeout(bound, eventually(2 * bound, "the system is idle", idle)).await;
    if waiting.is_ok() {
        return Waiting { took: began.elapsed(), left: None };
    }
    let left = last.map_or("unknown, a server does not answer".to_owned(), |last| last.to_string());
    let left = format!("work remains after {bound:?}: {left}\n{}", examples(system).await);
    Waiting { took: began.elapsed(), left: Some(left) }
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
