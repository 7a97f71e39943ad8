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

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or_default()
    }

    pub(crate) fn lowest(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn highest(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    /// Median. If the number of values is even, the larger of the two middle values.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// Divides each round's value by the value of `other` in the same round, and returns the median of these ratios. If the
    /// machine is slow for a moment, this affects both values of the round.
    pub(crate) fn of(&self, other: &Series) -> f64 {
        let mut ratios = Series::default();
        for (own, others) in self.0.iter().zip(&other.0) {
            ratios.push(own / others);
        }
        ratios.median()
    }
}
