//! Deliberate damage, for the tests that prove the promise: *crash points*, at which a process kills itself, and
//! *mutants*, each of which breaks one rule that the promise rests on.
//!
//! Both stand in the code where they belong, so that they cannot drift from it. Without the feature `armed`, which the
//! test suite alone turns on, they are constants that the compiler removes. With it, a process does what its
//! environment says: [`CRASH_AT`], [`MUTANT`] and [`CRASHES`].

#[cfg(feature = "armed")]
mod armed;
mod named;

use crate::named::named;

/// Variable that names a crash point and the passage to die at, from 1: `after_claim:17`.
pub const CRASH_AT: &str = "SABOTAGE_CRASH_AT";
/// Variable that names the mutant to be.
pub const MUTANT: &str = "SABOTAGE_MUTANT";
/// Variable that names the file to which a dying process appends the name of its crash point and its process id.
pub const CRASHES: &str = "SABOTAGE_CRASHES";

named! {
    /// A place between two steps, where a crash leaves the first done and the second not.
    CrashPoint {
        /// The gateway: the log has confirmed a send, its caller has no answer.
        AfterPublish = "after_publish",
        /// The dispatcher: a plan is committed, nothing of it is published.
        AfterFreeze = "after_freeze",
        /// A worker: a delivery is claimed, its provider not called.
        AfterClaim = "after_claim",
        /// A worker: the provider has taken it, and nobody else knows.
        AfterYes = "after_yes",
        /// A worker: an answer, whichever, is about to be settled.
        BeforeSettle = "before_settle",
        /// A worker: it is settled, and no outcome is told.
        AfterSettle = "after_settle",
        /// A worker: the outcome is told, the job not acknowledged.
        BeforeAck = "before_ack",
        /// The inbox projection: its commit is on its way to the database.
        InCommit = "in_commit",
    }
}

named! {
    /// A rule that is broken.
    Mutant {
        /// The projection moves its checkpoint wherever that stands.
        UnfencedCheckpoint = "unfenced_checkpoint",
        /// A worker acknowledges a job before it settles it.
        AckBeforeSettle = "ack_before_settle",
        /// The same delivery gets another id whenever it is planned.
        RandomDeliveryIds = "random_delivery_ids",
        /// Whoever has an answer settles, whosever the claim is.
        UntokenedSettle = "untokened_settle",
        /// A chunk that comes again is decided again.
        PlanNotFrozen = "plan_not_frozen",
        /// A retry is published under the id of the first attempt.
        TimerUnderOldId = "timer_under_old_id",
        /// The gateway answers 202 before the log has confirmed the send.
        AnswerBeforeAck = "answer_before_ack",
    }
}

/// Dies here, where the environment says so.
#[inline(always)]
pub fn reach(point: CrashPoint) {
    if is_due(point) {
        die(point);
    }
}

/// Counts a passage of `point`. True where the process is to die at this one.
#[cfg(feature = "armed")]
#[must_use]
pub fn is_due(point: CrashPoint) -> bool {
    armed::is_due(point)
}

/// Whether the process is this mutant.
#[cfg(feature = "armed")]
#[must_use]
pub fn is(mutant: Mutant) -> bool {
    armed::is(mutant)
}

/// Ends the process as kill -9 does.
#[cfg(feature = "armed")]
pub fn die(point: CrashPoint) {
    armed::die(point);
}

/// Never.
#[cfg(not(feature = "armed"))]
#[inline(always)]
#[must_use]
pub const fn is_due(_: CrashPoint) -> bool {
    false
}

/// Never.
#[cfg(not(feature = "armed"))]
#[inline(always)]
#[must_use]
pub const fn is(_: Mutant) -> bool {
    false
}

/// Does nothing.
#[cfg(not(feature = "armed"))]
#[inline(always)]
pub const fn die(_: CrashPoint) {}
