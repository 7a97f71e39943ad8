//! Random decisions. Each depends only on the seed and on the subject of the decision, so a run with the same seed makes the same
//! decisions.

use std::hash::{DefaultHasher, Hash, Hasher};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Returns a number below `end`.
    pub(crate) fn below(self, end: usize, about: impl Hash) -> usize {
        let mut hasher = DefaultHasher::new();
        (self.0, about).hash(&mut hasher);
        usize::try_from(hasher.finish() % end as u64).unwrap()
    }

    /// Returns true in `share` of a hundred cases.
    pub(crate) fn percent(self, share: usize, about: impl Hash) -> bool {
        self.below(100, about) < share
    }
}
