//! Crash points: places in the code at which a process can kill itself, for tests of the delivery guarantees.
//!
//! Each crash point lies between two steps of the code. Only the test suite enables the feature `armed`. Without this feature,
//! the compiler removes all crash points. With this feature, a process reads three environment variables: [`CRASH_AT`],
//! [`CRASHES`] and [`POISON`].

#[cfg(feature = "armed")]
mod armed;
mod named;

use crate::named::named;

/// Environment variable with a crash point and a number. `after_claim:17` kills the process at the 17th time that it reaches
/// `after_claim`.
pub const CRASH_AT: &str = "SABOTAGE_CRASH_AT";
/// Environment variable with the path of a file. A dying process appends the name of its crash point and its process id to it.
pub const CRASHES: &str = "SABOTAGE_CRASHES";

/// Environment variable with a marker. A process dies when it handles a text that contains the marker.
pub const POISON: &str = "SABOTAGE_POISON";
/// Name in the file of crashes of a death by [`POISON`].
pub const POISONED: &str = "poisoned";

named! {
    /// A place between two steps. If the process crashes there, the first step is done and the second is not.
    CrashPoint {
        /// Gateway: the log has confirmed a send, but the caller has not received a response yet.
        AfterPublish = "after_publish",
        /// Dispatcher: the plans of a group of chunks are committed, but none of their messages is published yet.
        AfterFreeze = "after_freeze",
        /// Worker: a delivery is claimed, but the provider is not called yet.
        AfterClaim = "after_claim",
        /// Worker: the provider has accepted the message, but the outcome is not recorded yet.
        AfterYes = "after_yes",
        /// Worker: the outcome of an attempt (of any kind) is known, but not recorded yet.
        BeforeSettle = "before_settle",
        /// Worker: the outcome is recorded, but not published yet.
        AfterSettle = "after_settle",
        /// Worker: the outcome is published, but the job is not acknowledged yet.
        BeforeAck = "before_ack",
        /// Inbox projection: `COMMIT` has been sent to PostgreSQL, but its result has not arrived yet.
        InCommit = "in_commit",
    }
}

/// Marks a crash point. Kills the process if [`CRASH_AT`] names `point` and the number of times that it has now been reached.
#[inline(always)]
pub fn reach(point: CrashPoint) {
    if is_due(point) {
        die(point);
    }
}

/// Kills the process if `text` contains the marker that [`POISON`] names.
#[cfg(feature = "armed")]
pub fn handle(text: &str) {
    armed::handle(text);
}

/// Does nothing.
#[cfg(not(feature = "armed"))]
#[inline(always)]
pub const fn handle(_: &str) {}

/// Counts how often the process has reached `point`. Returns true if the process must die now.
#[cfg(feature = "armed")]
#[must_use]
pub fn is_due(point: CrashPoint) -> bool {
    armed::is_due(point)
}

/// Kills the process with SIGKILL.
#[cfg(feature = "armed")]
pub fn die(point: CrashPoint) {
    armed::die(point);
}

/// Returns false.
#[cfg(not(feature = "armed"))]
#[inline(always)]
#[must_use]
pub const fn is_due(_: CrashPoint) -> bool {
    false
}

/// Does nothing.
#[cfg(not(feature = "armed"))]
#[inline(always)]
pub const fn die(_: CrashPoint) {}
