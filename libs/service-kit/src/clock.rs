//! The only code that reads the clock, creates ids from the time, and draws random numbers for jitter.

use std::time::SystemTime;

use domain::Timestamp;
use uuid::Uuid;

/// This machine's clock. Leases and timers use PostgreSQL's instead.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the only place that reads the clock")]
pub fn now() -> Timestamp {
    Timestamp::from(chrono::DateTime::<chrono::Utc>::from(SystemTime::now()))
}

/// Sorts after earlier ids (UUIDv7, RFC 9562 §5.7).
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the only place that creates ids from the clock")]
pub fn new_id() -> Uuid {
    Uuid::now_v7()
}

/// Number in 0..1, for jitter.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the only place that draws random numbers")]
pub fn random() -> f64 {
    rand::random()
}
