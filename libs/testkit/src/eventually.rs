//! Waiting for a condition, with a limit.

use std::time::Duration;

use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

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

/// As [`eventually`], but `None` once `limit` has passed.
pub(crate) async fn within<T>(limit: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    loop {
        match tokio::time::timeout_at(end, probe()).await {
            Ok(Some(found)) => return Some(found),
            Ok(None) if Instant::now() + pause < end => tokio::time::sleep(pause).await,
            Ok(None) | Err(_) => return None,
        }
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}
