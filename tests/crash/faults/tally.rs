//! Count of the faults that were injected.

use std::collections::BTreeMap;

use sabotage::CrashPoint;

use crate::faults::disturbance::Disturbance;
use crate::scene::Fault;

/// Faults of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) faults: Vec<Fault>,
    /// Kills by role, `postgres` or `nats`.
    pub(crate) kills: BTreeMap<&'static str, usize>,
    /// Deaths by crash point.
    pub(crate) crashes: BTreeMap<CrashPoint, usize>,
    /// Disturbances; of pauses, those that were not cut short.
    pub(crate) disturbances: BTreeMap<Disturbance, usize>,
    /// Processes that gave up waiting for a server at their start, and were restarted.
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
