//! How many targets were refused lately for a reason that is theirs or the provider's: only their number tells which.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The sends that are looked back on.
const WINDOW: usize = 100;
/// Fewer prove nothing about the provider.
const FEWEST: usize = 5;

/// The last sends, and which of them were refused so.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<VecDeque<bool>>);

impl Refusals {
    /// Notes a send, and says whether it is one refusal too many: the fifth or a later one, and more than a fifth of the
    /// last hundred sends.
    pub fn too_many_with(&self, is_refused: bool) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == WINDOW {
            last.pop_front();
        }
        last.push_back(is_refused);
        let refused = last.iter().filter(|refused| **refused).count();
        is_refused && refused >= FEWEST && refused * 5 > last.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_fifth_of_the_last_sends_is_too_many() {
        let sends = Refusals::default();
        assert!((0..80).all(|_| !sends.too_many_with(false)));
        assert!((0..20).all(|_| !sends.too_many_with(true)), "a fifth");
        assert!(sends.too_many_with(true), "more than a fifth of the last hundred");
        assert!(!sends.too_many_with(false), "what was sent is no refusal");
    }

    #[test]
    fn a_few_prove_nothing() {
        let sends = Refusals::default();
        let judged: Vec<bool> = (0..6).map(|_| sends.too_many_with(true)).collect();
        assert_eq!(judged, [false, false, false, false, true, true]);
    }
}
