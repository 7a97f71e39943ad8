//! How far a replay is, for whoever waits for it.

/// What a replay does, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Rows of a backup are copied.
    Copying,
    /// Events of the log are replayed.
    Replaying,
    /// Inboxes are compared.
    Comparing,
    /// The new tables take the place of the live ones.
    Switching,
}

/// News of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A phase begins, with so many rows or events; 0 where that is not known.
    Begins(Phase, u64),
    /// So many more of them are done.
    Done(u64),
}

/// Whoever is told.
pub type Told<'a> = &'a (dyn Fn(Step) + Sync);
