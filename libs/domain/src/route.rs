//! Which of an app's providers makes an attempt.

use serde::{Deserialize, Serialize};

use crate::{Outcome, Timestamp};

/// What earlier attempts leave of the choice. Another provider is asked only after a certain no.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Route {
    /// The only provider that may be called: an earlier call of it may have been taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    /// That call may be repeated for no other reason than that this provider takes calls under one id for one message. Once
    /// it does not any more, it must not be called either.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keyed: bool,
    /// Providers that said no for reasons of their own, and are passed over while another is left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
}

/// A provider that serves the target, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its identifier.
    pub identifier: &'a str,
    /// When its breaker lets a call through; None: now.
    pub closed_until: Option<Timestamp>,
}

/// Who makes the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The candidate at this place.
    Call(usize),
    /// All that may be asked are to be left alone until then.
    Wait(Timestamp),
    /// There is nobody.
    Nobody,
    /// The only one that may be asked is not there.
    Gone,
}

/// What follows for the next attempt's route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextRoute {
    /// The verdict on the outcome decides; another attempt takes this route.
    Usual(Route),
    /// Another provider is asked, at once.
    Failover(Route),
}

impl Route {
    /// Whether every provider may be called.
    #[must_use]
    pub fn is_open(&self) -> bool {
        *self == Route::default()
    }

    /// Lets every provider be called again that was not passed over: no earlier call was taken, for certain.
    pub fn unbind(&mut self) {
        (self.only, self.keyed) = (None, false);
    }

    /// Chooses among those that serve the target. Where all of them are passed over, which a change of providers can
    /// bring about, the choice begins anew.
    #[must_use]
    pub fn choose(&self, candidates: &[Candidate<'_>]) -> Choice {
        let named = |place: &usize| self.only.as_deref() == Some(candidates[*place].identifier);
        let eligible: Vec<usize> = match self.only {
            Some(_) => (0..candidates.len()).filter(named).collect(),
            None => self.eligible(candidates),
        };
        let free = eligible.iter().find(|place| candidates[**place].closed_until.is_none());
        match free {
            Some(place) => Choice::Call(*place),
            None => match eligible.iter().filter_map(|place| candidates[*place].closed_until).min() {
                Some(until) => Choice::Wait(until),
                None if self.only.is_some() => Choice::Gone,
                None => Choice::Nobody,
            },
        }
    }

    fn eligible(&self, candidates: &[Candidate<'_>]) -> Vec<usize> {
        let is_left = |place: &usize| !self.passes_over(candidates[*place].identifier);
        let left: Vec<usize> = (0..candidates.len()).filter(is_left).collect();
        if left.is_empty() { (0..candidates.len()).collect() } else { left }
    }

    fn passes_over(&self, identifier: &str) -> bool {
        self.passed_over.iter().any(|passed| passed == identifier)
    }

    /// Where the delivery goes after `called` gave this outcome, out of `serving`, which reach the target.
    ///
    /// - Unknown: the same provider again, and no other from then on.
    /// - Trouble with its account: the next one at once, unless an earlier call may have been taken; after the last one
    ///   all over again, by the schedule.
    /// - Dead for it alone: the next one at once; after the last one, dead.
    #[must_use]
    pub fn after(&self, outcome: &Outcome, called: &str, serving: &[&str]) -> NextRoute {
        let mut passed_over = self.passed_over.clone();
        if !self.passes_over(called) {
            passed_over.push(called.to_owned());
        }
        let next = Route { only: None, keyed: false, passed_over };
        let is_another_left = serving.iter().any(|identifier| !next.passes_over(identifier));
        match outcome {
            Outcome::Unknown => NextRoute::Usual(Route { only: Some(called.to_owned()), ..self.clone() }),
            Outcome::Repeat { .. } => {
                NextRoute::Usual(Route { only: Some(called.to_owned()), keyed: true, ..self.clone() })
            }
            Outcome::PauseProvider if self.only.is_none() => match is_another_left {
                true => NextRoute::Failover(next),
                false => NextRoute::Usual(Route::default()),
            },
            // It never had the message, so a call before this one was not taken either.
            Outcome::TargetGone(gone) if gone.here_only && is_another_left => NextRoute::Failover(next),
            _ => NextRoute::Usual(self.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gone;

    const LATER: Timestamp = Timestamp::from_millis(5_000);
    const MUCH_LATER: Timestamp = Timestamp::from_millis(9_000);
    const HERE: Outcome = Outcome::TargetGone(Gone { since: None, here_only: true });

    fn candidates(of: &[(&'static str, Option<Timestamp>)]) -> Vec<Candidate<'static>> {
        of.iter().map(|&(identifier, closed_until)| Candidate { identifier, closed_until }).collect()
    }

    fn route(only: Option<&str>, passed_over: &[&str]) -> Route {
        let passed_over = passed_over.iter().map(|name| (*name).to_owned()).collect();
        Route { only: only.map(str::to_owned), passed_over, ..Route::default() }
    }

    #[test]
    fn the_first_that_is_open_and_not_passed_over_is_called() {
        let all = candidates(&[("a", None), ("b", None), ("c", None)]);
        assert_eq!(Route::default().choose(&all), Choice::Call(0));
        assert_eq!(route(None, &["a"]).choose(&all), Choice::Call(1));
        assert_eq!(route(None, &["a", "b", "c"]).choose(&all), Choice::Call(0), "all over again");
        let resting = candidates(&[("a", Some(LATER)), ("b", None)]);
        assert_eq!(Route::default().choose(&resting), Choice::Call(1));
    }

    #[test]
    fn while_all_rest_the_first_to_be_back_is_waited_for() {
        let resting = candidates(&[("a", Some(MUCH_LATER)), ("b", Some(LATER)), ("c", None)]);
        assert_eq!(route(None, &["c"]).choose(&resting), Choice::Wait(LATER));
        assert_eq!(route(None, &["b", "c"]).choose(&resting), Choice::Wait(MUCH_LATER));
        assert_eq!(Route::default().choose(&[]), Choice::Nobody);
    }

    #[test]
    fn nobody_stands_in_for_the_only_one() {
        let all = candidates(&[("a", None), ("b", Some(LATER))]);
        assert_eq!(route(Some("b"), &[]).choose(&all), Choice::Wait(LATER));
        assert_eq!(route(Some("a"), &["a"]).choose(&all), Choice::Call(0));
        assert_eq!(route(Some("c"), &[]).choose(&all), Choice::Gone);
        assert_eq!(route(Some("c"), &[]).choose(&[]), Choice::Gone);
    }

    #[test]
    fn an_unknown_outcome_pins_the_provider_until_the_end() {
        let pinned = route(Some("a"), &[]);
        let keyed = Route { keyed: true, ..pinned.clone() };
        for (open, pinned) in [(Outcome::Unknown, pinned), (Outcome::REPEAT, keyed)] {
            assert_eq!(Route::default().after(&open, "a", &["a", "b"]), NextRoute::Usual(pinned.clone()));
            for certain in [Outcome::RETRY, Outcome::PauseProvider, Outcome::Unknown] {
                assert_eq!(pinned.after(&certain, "a", &["a", "b"]), NextRoute::Usual(pinned.clone()));
            }
            assert_eq!(pinned.after(&HERE, "a", &["a", "b"]), NextRoute::Failover(route(None, &["a"])));
        }
    }

    #[test]
    fn a_certain_no_of_the_provider_itself_leads_to_the_next_and_then_to_the_first_again() {
        let pause = Outcome::PauseProvider;
        let second = Route::default().after(&pause, "a", &["a", "b"]);
        assert_eq!(second, NextRoute::Failover(route(None, &["a"])));
        assert_eq!(route(None, &["a"]).after(&pause, "b", &["a", "b"]), NextRoute::Usual(Route::default()));
        assert_eq!(Route::default().after(&pause, "a", &["a"]), NextRoute::Usual(Route::default()));
    }

    #[test]
    fn dead_for_one_is_dead_only_after_the_last() {
        let gone = Outcome::GONE;
        assert_eq!(Route::default().after(&gone, "a", &["a", "b"]), NextRoute::Usual(Route::default()));
        let second = route(None, &["a"]);
        assert_eq!(Route::default().after(&HERE, "a", &["a", "b"]), NextRoute::Failover(second.clone()));
        assert_eq!(second.after(&HERE, "b", &["a", "b"]), NextRoute::Usual(second));
    }

    #[test]
    fn failing_over_ends_after_as_many_attempts_as_there_are_providers() {
        let serving = ["a", "b", "c", "d"];
        let all = candidates(&serving.map(|identifier| (identifier, None)));
        let (mut route, mut called) = (Route::default(), Vec::new());
        loop {
            let Choice::Call(place) = route.choose(&all) else { panic!("nobody") };
            called.push(serving[place]);
            match route.after(&Outcome::PauseProvider, serving[place], &serving) {
                NextRoute::Failover(next) => route = next,
                NextRoute::Usual(next) => break assert!(next.is_open()),
            }
        }
        assert_eq!(called, serving);
    }
}
