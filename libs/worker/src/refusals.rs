//! Finds out who is at fault if a provider refuses a target for an ambiguous reason: the target or the provider. The provider
//! is at fault if it recently refused the targets of many users.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use domain::UserNumber;

/// Number of most recent users that are considered.
const WINDOW: usize = 100;
/// Minimum number of users with refused targets that can prove a problem of the provider.
const FEWEST: usize = 5;

/// The most recent users. The flag is true if the latest call for the user was refused for an ambiguous reason.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<VecDeque<(UserNumber, bool)>>);

impl Refusals {
    /// Records a call for a user. Returns true if the call was refused and the provider is probably at fault: among the last
    /// 100 users, at least 5 and more than a fifth were refused. Each user counts once, regardless of the number of targets.
    pub fn too_many_with(&self, user: UserNumber, is_refused: bool) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|(known, _)| *known != user);
        if last.len() == WINDOW {
            last.pop_front();
        }
        last.push_back((user, is_refused));
        let refused = last.iter().filter(|(_, is_refused)| *is_refused).count();
        is_refused && refused >= FEWEST && refused * 5 > last.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_fifth_of_the_last_users_is_too_many() {
        let sends = Refusals::default();
        let mut users = (0..).map(UserNumber);
        let mut note = |is_refused| sends.too_many_with(users.next().unwrap_or(UserNumber(0)), is_refused);
        assert!((0..80).all(|_| !note(false)));
        assert!((0..20).all(|_| !note(true)), "refusals for a fifth of the users do not prove a problem");
        assert!(note(true), "refusals for more than a fifth of the users prove a problem");
        assert!(!note(false), "a sent message is not a refusal");
    }

    #[test]
    fn a_few_prove_nothing() {
        let sends = Refusals::default();
        let judged: Vec<bool> = (0..6).map(|number| sends.too_many_with(UserNumber(number), true)).collect();
        assert_eq!(judged, [false, false, false, false, true, true]);
    }

    #[test]
    fn refused_targets_of_one_user_are_never_too_many() {
        let sends = Refusals::default();
        assert!((0..1_000).all(|_| !sends.too_many_with(UserNumber(7), true)));
    }
}
