//! Count of the faults that were injected.

use std::collections::BTreeMap;

use sabotage::CrashPoint;

use crate::faults::disturbance::Disturbance;
use crate::scene::Fault;

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) faults: Vec<Fault>,
    /// Kills by victim: a role, `postgres` or `nats`.
    pub(crate) kills: BTreeMap<&'static str, usize>,
    /// Deaths by crash point.
    pub(crate) crashes: BTreeMap<CrashPoint, usize>,
    /// Number of processes that died when they handled the poison.
    pub(crate) poisoned: usize,
    /// Disturbances. A pause counts only if the process was not killed before its end.
    pub(crate) disturbances: BTreeMap<Disturbance, usize>,
    /// Processes that were started while a server was unavailable, gave up waiting for it and were restarted.
    pub(crate) gave_up: Vec<String>,
}

impl Tally {
    pub(crate) fn number_of_kills(&self) -> usize {
        self.kills.values().sum()
    }

    pub(super) fn add(&mut self, disturbance: Disturbance) {
        *self.disturbances.entry(disturbance).or_default() += 1;
    }
}
