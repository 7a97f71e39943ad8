//! Progress of a replay, for display.

/// Phases of a replay, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Rows of a backup are copied.
    Copying,
    /// Events of the log are replayed.
    Replaying,
    /// Inboxes are compared.
    Comparing,
    /// The new tables replace the live ones.
    Switching,
}

/// Progress report of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A phase starts. Contains its number of rows or events; 0 if that is unknown.
    Begins(Phase, u64),
    /// More rows or events are done. Contains their number.
    Done(u64),
}

/// Callback that receives progress reports.
pub type StepCallback<'a> = &'a (dyn Fn(Step) + Sync);
