//! Results of all rounds of one measurement.

use serde::Serialize;

/// One value per round.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Series(Vec<f64>);

impl Series {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push((value * 1_000.0).round() / 1_000.0);
    }

    /// Median. If the number of values is even, the larger of the two middle values.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// Median of the ratios to `other`, one per round. A moment in which the machine is slow affects both values of a round.
    pub(crate) fn of(&self, other: &Series) -> f64 {
        let mut ratios = Series::default();
        for (own, others) in self.0.iter().zip(&other.0) {
            ratios.push(own / others);
        }
        ratios.median()
    }
}
