#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Copying,
    Replaying,
    Comparing,
    Switching,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Phase, and its number of rows or events; 0 if that is unknown.
    Begins(Phase, u64),
    /// Number of rows or events done since the previous report.
    Done(u64),
}

pub type StepCallback<'a> = &'a (dyn Fn(Step) + Sync);
