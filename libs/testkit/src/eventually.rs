use std::time::Duration;

use local_servers::waiting::within;

/// Calls `probe` until it returns `Some`, with pauses of 2 ms to 100 ms.
///
/// # Panics
/// Panics after `limit`, even if a probe hangs.
#[allow(clippy::panic, reason = "this is how a test fails")]
pub async fn eventually<T>(limit: Duration, what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    match within(limit, async || probe().await).await {
        Some(found) => found,
        None => panic!("not within {limit:?}: {what}"),
    }
}
