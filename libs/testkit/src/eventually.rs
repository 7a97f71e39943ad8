//! Waiting for a condition, with a time limit.

use std::time::Duration;

use local_servers::waiting::within;

/// Calls `probe` until it returns `Some`, and returns that value. The pause between two calls grows from 2 ms to 100 ms.
///
/// # Panics
/// Panics after `limit`, even if a probe hangs. The message contains `what`.
#[allow(clippy::panic, reason = "this is how a test fails")]
pub async fn eventually<T>(limit: Duration, what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    match within(limit, async || probe().await).await {
        Some(found) => found,
        None => panic!("not within {limit:?}: {what}"),
    }
}
