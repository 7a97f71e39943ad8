//! The edge where time, new ids and randomness come in; everything below takes them as arguments.

use std::time::SystemTime;

use domain::Timestamp;
use uuid::Uuid;

/// The present time, by this machine's clock. Leases and timers go by PostgreSQL's instead.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub fn now() -> Timestamp {
    Timestamp::from(chrono::DateTime::<chrono::Utc>::from(SystemTime::now()))
}

/// A new id, later ones sorting after earlier ones (UUIDv7, RFC 9562 §5.7).
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the one place that makes ids of the clock")]
pub fn new_id() -> Uuid {
    Uuid::now_v7()
}

/// A random number in 0..1, for spreading what would otherwise come at once.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the one place that draws random numbers")]
pub fn random() -> f64 {
    rand::random()
}
