//! What was done to the system.

use std::collections::BTreeMap;

use sabotage::CrashPoint;

use crate::faults::others::Other;
use crate::scene::Fault;

/// All that was done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Struck {
    pub(crate) faults: Vec<Fault>,
    /// Kills by whom they hit: roles, `postgres`, `nats`.
    pub(crate) kills: BTreeMap<&'static str, usize>,
    /// How often a process killed itself, by crash point.
    pub(crate) crashes: BTreeMap<CrashPoint, usize>,
    /// The other blows; pauses that were not cut short.
    pub(crate) others: BTreeMap<Other, usize>,
    /// Who gave up waiting for a server at its start, and was started again.
    pub(crate) gave_up: Vec<String>,
}

impl Struck {
    pub(crate) fn number_of_kills(&self) -> usize {
        self.kills.values().sum()
    }

    pub(super) fn note(&mut self, other: Other) {
        *self.others.entry(other).or_default() += 1;
    }
}
