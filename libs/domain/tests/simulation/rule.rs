//! What must hold, whatever went wrong.

/// A part of the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A confirmed send ends for every recipient and channel, with a reason where it did not go out.
    NothingLost,
    /// An inbox has an item of a send once, if the send was planned for it, and never else.
    InboxOnce,
    /// A repeat with the same key is answered with the same id.
    SameAnswer,
    /// Whatever reaches a provider for a recipient and channel of a send has the same id and target.
    SameIdentity,
    /// A provider takes a message a second time only where nobody could know of the first.
    SecondAcceptExcused,
    /// A text message is never taken twice.
    TextOnce,
    /// A checkpoint never goes back.
    CheckpointGrows,
    /// Counters are what a recount says.
    CountersRight,
    /// A replay of the log into an empty inbox comes to the same.
    ReplayEqual,
    /// Retries keep to their schedule, and nothing is parked before its end.
    ScheduleKept,
    /// A provider that is left alone is not called, but for one trial.
    BreakerKept,
    /// No target is called by a claim that was made after its suppression.
    SuppressionKept,
    /// Nothing is called by a claim that was made after its request was cancelled.
    CancellationKept,
    /// Nothing reaches an erased person by a claim that was made after the erasure, and the inbox has nothing of them.
    ErasureKept,
    /// What was answered 200 to a person, the inbox shows.
    CommandKept,
    /// What has ended with an answer stays so.
    EndKept,
    /// The end of every delivery is told.
    EndTold,
    /// Without faults everything comes to rest.
    ComesToRest,
}

/// A rule that was broken.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) what: String,
}
