//! Ways to build it wrong.

/// One thing done otherwise than in the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The gateway answers 202 before the log has the send.
    AnswerBeforeLog,
    /// A repeat is a new send.
    KeyForgotten,
    /// A chunk is decided anew whenever it is planned.
    PlanNotFrozen,
    /// A send that another has begun with is acknowledged by whoever was about to keep it for its time.
    BegunSendAcknowledged,
    /// The dispatcher acknowledges before it has published.
    AckBeforeActing,
    /// Deliveries that were cancelled before they were ordered are left out of what is published.
    CancelledNotOrdered,
    /// The worker acknowledges before the answer is written.
    AckBeforeSettling,
    /// The worker acknowledges before the outcome is told.
    AckBeforeTelling,
    /// An answer that comes after the end is told only by the one who has it.
    LateAnswerToldOnce,
    /// Whoever comes writes the answer.
    SettleWithoutToken,
    /// A call that must not be repeated is not marked.
    CallNotMarked,
    /// What may have been taken is asked of any provider.
    RepeatedAnywhere,
    /// The provider gets a new id with each call.
    RandomIds,
    /// A timer's message is published under the id of the first job.
    TimerUnderOldId,
    /// A timer stays after it was published.
    TimerKept,
    /// Timers are published before they are due.
    TimerTooEarly,
    /// A retry is due at once.
    RetryAtOnce,
    /// The breaker is not asked.
    BreakerIgnored,
    /// A claim does not look for suppressions.
    SuppressionIgnored,
    /// A claim does not look whether the request is cancelled.
    CancellationIgnored,
    /// A claim does not look whether the person was erased.
    ErasureIgnored,
    /// The inbox learns of erasures from its log alone.
    ErasedNotLoaded,
    /// Cancelling ends what has ended.
    CancelEnded,
    /// The checkpoint is written without a comparison.
    CheckpointNotCompared,
    /// An inbox takes an item of a send again.
    ItemNotUnique,
    /// Counters move by what an event says, not by what was written.
    CountersByEvents,
    /// Changes are projected with the time at which that is done.
    ClockInProjection,
    /// A command is answered before the inbox shows it.
    AnswerBeforeInbox,
}
