//! Waiting for a condition, with a limit.

use std::time::Duration;

use local_servers::waiting::within;

/// Asks `probe` until it answers `Some`, and returns that. The pause between two questions grows from 2 ms to 100 ms.
///
/// # Panics
/// With `what` when `limit` has passed, also while a probe hangs.
#[allow(clippy::panic, reason = "this is how a test fails")]
pub async fn eventually<T>(limit: Duration, what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    match within(limit, async || probe().await).await {
        Some(found) => found,
        None => panic!("not within {limit:?}: {what}"),
    }
}
