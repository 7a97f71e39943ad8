use std::time::Duration;

use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Returns None after `limit`, even if a probe hangs. The pause between two calls grows from 2 ms to 100 ms.
pub async fn within<T>(limit: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> Option<T> {
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
