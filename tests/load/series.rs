//! The results of all rounds of one measurement.

use serde::Serialize;

/// One value per round.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Series(Vec<f64>);

impl Series {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push((value * 1_000.0).round() / 1_000.0);
    }

    /// The median; of two middle values, the larger.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// The median of the ratios to `other`, round by round: a slow moment of the machine slows both.
    pub(crate) fn of(&self, other: &Series) -> f64 {
        let mut ratios = Series::default();
        for (own, others) in self.0.iter().zip(&other.0) {
            ratios.push(own / others);
        }
        ratios.median()
    }
}
