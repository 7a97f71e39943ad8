//! Places at which a process can kill itself, for tests of the delivery guarantees. Without the feature `armed`, which only the test suite
//! enables, the compiler removes them.

#[cfg(feature = "armed")]
mod armed;
mod named;

use crate::named::named;

/// Environment variable: `after_claim:17` kills the process when it reaches `after_claim` for the 17th time.
pub const CRASH_AT: &str = "SABOTAGE_CRASH_AT";
/// Environment variable: file to which a dying process appends its crash point and process id.
pub const CRASHES: &str = "SABOTAGE_CRASHES";

/// Environment variable: a process dies when it handles a text that contains the variable's value.
pub const POISON: &str = "SABOTAGE_POISON";
pub const POISONED: &str = "poisoned";

named! {
    /// A place between two steps, of which the first is done and the second is not.
    CrashPoint {
        /// The log has confirmed a send, but the gateway has not responded yet.
        AfterPublish = "after_publish",
        /// The plans of a group of chunks are committed, but none of their messages is published yet.
        AfterFreeze = "after_freeze",
        AfterClaim = "after_claim",
        /// The provider has accepted the message, but the outcome is not recorded yet.
        AfterYes = "after_yes",
        BeforeSettle = "before_settle",
        AfterSettle = "after_settle",
        /// The outcome of an attempt is published, but the job is not acknowledged yet.
        BeforeAck = "before_ack",
        /// The inbox projection has sent `COMMIT`, but its result has not arrived yet.
        InCommit = "in_commit",
    }
}

/// Kills the process if [`CRASH_AT`] says so.
#[inline(always)]
pub fn reach(point: CrashPoint) {
    if is_due(point) {
        die(point);
    }
}

#[cfg(feature = "armed")]
pub fn handle(text: &str) {
    armed::handle(text);
}

#[cfg(not(feature = "armed"))]
#[inline(always)]
pub const fn handle(_: &str) {}

/// Counts the times that `point` was reached; true if the process must die now.
#[cfg(feature = "armed")]
#[must_use]
pub fn is_due(point: CrashPoint) -> bool {
    armed::is_due(point)
}

/// Sends SIGKILL to the process.
#[cfg(feature = "armed")]
pub fn die(point: CrashPoint) {
    armed::die(point);
}

#[cfg(not(feature = "armed"))]
#[inline(always)]
#[must_use]
pub const fn is_due(_: CrashPoint) -> bool {
    false
}

#[cfg(not(feature = "armed"))]
#[inline(always)]
pub const fn die(_: CrashPoint) {}
