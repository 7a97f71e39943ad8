use serde::{Deserialize, Serialize};

use crate::{Outcome, Timestamp};

/// Restrictions that earlier attempts place on the choice of the provider. After a call, another provider may be called only if
/// the called provider definitely refused the message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Route {
    /// Set if this provider may have accepted an earlier call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    /// True if `only` may be called again only because it de-duplicates by idempotency key. If it stops de-duplicating, no provider may be
    /// called.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keyed: bool,
    /// Providers that refused the message because of a problem with the account, or because the target is dead for them only.
    /// They are called only if no other provider is left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    pub identifier: &'a str,
    /// Time before which the provider's breaker allows no call.
    pub closed_until: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Call(usize),
    /// End of the time in which the breakers of all eligible providers are open.
    Wait(Timestamp),
    NoProvider,
    /// The only eligible provider no longer serves the target.
    OnlyProviderMissing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextRoute {
    /// The retry policy decides the next step; an attempt uses this route.
    Usual(Route),
    Failover(Route),
}

impl Route {
    #[must_use]
    pub fn is_open(&self) -> bool {
        *self == Route::default()
    }

    /// Removes the restriction to one provider. Callers must be certain that no provider accepted an earlier call.
    pub fn unbind(&mut self) {
        (self.only, self.keyed) = (None, false);
    }

    /// Chooses among the providers that serve the target. If all of them are in `passed_over`, which can happen after a change of
    /// providers, all become eligible again.
    #[must_use]
    pub fn choose(&self, candidates: &[Candidate<'_>]) -> Choice {
        let named = |place: &usize| self.only.as_deref() == Some(candidates[*place].identifier);
        let eligible: Vec<usize> = match self.only {
            Some(_) => (0..candidates.len()).filter(named).collect(),
            None => self.eligible(candidates),
        };
        let ready = eligible.iter().find(|place| candidates[**place].closed_until.is_none());
        match ready {
            Some(place) => Choice::Call(*place),
            None => match eligible.iter().filter_map(|place| candidates[*place].closed_until).min() {
                Some(until) => Choice::Wait(until),
                None if self.only.is_some() => Choice::OnlyProviderMissing,
                None => Choice::NoProvider,
            },
        }
    }

    fn eligible(&self, candidates: &[Candidate<'_>]) -> Vec<usize> {
        let is_left = |place: &usize| !self.skips(candidates[*place].identifier);
        let left: Vec<usize> = (0..candidates.len()).filter(is_left).collect();
        if left.is_empty() { (0..candidates.len()).collect() } else { left }
    }

    fn skips(&self, identifier: &str) -> bool {
        self.passed_over.iter().any(|passed| passed == identifier)
    }

    /// Returns the route of the next attempt after a call to provider `called` with this outcome. `serving` lists the providers
    /// that serve the target.
    ///
    /// - If the outcome is unknown, only the same provider may be called from now on.
    /// - If the account has a problem, the next provider is called at once. After the last provider, all providers may be called
    ///   again on the usual schedule. If a provider may have accepted an earlier call, the route does not change.
    /// - If the target is dead for this provider only, the next provider is called at once. After the last provider, the target
    ///   counts as dead.
    #[must_use]
    pub fn next_route(&self, outcome: &Outcome, called: &str, serving: &[&str]) -> NextRoute {
        let mut passed_over = self.passed_over.clone();
        if !self.skips(called) {
            passed_over.push(called.to_owned());
        }
        let next = Route { only: None, keyed: false, passed_over };
        let is_another_left = serving.iter().any(|identifier| !next.skips(identifier));
        match outcome {
            Outcome::Unknown => NextRoute::Usual(Route { only: Some(called.to_owned()), ..self.clone() }),
            Outcome::Repeat { .. } => {
                NextRoute::Usual(Route { only: Some(called.to_owned()), keyed: true, ..self.clone() })
            }
            Outcome::PauseProvider if self.only.is_none() => {
                if is_another_left {
                    NextRoute::Failover(next)
                } else {
                    NextRoute::Usual(Route::default())
                }
            }
            // This provider cannot reach the target, so it did not accept an earlier call either. Another provider may be
            // called.
            Outcome::TargetGone(gone) if gone.here_only && is_another_left => NextRoute::Failover(next),
            _ => NextRoute::Usual(self.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TargetDeath;

    const LATER: Timestamp = Timestamp::from_millis(5_000);
    const MUCH_LATER: Timestamp = Timestamp::from_millis(9_000);
    const HERE: Outcome = Outcome::TargetGone(TargetDeath { since: None, here_only: true });

    fn candidates(of: &[(&'static str, Option<Timestamp>)]) -> Vec<Candidate<'static>> {
        of.iter().map(|&(identifier, closed_until)| Candidate { identifier, closed_until }).collect()
    }

    fn route(only: Option<&str>, passed_over: &[&str]) -> Route {
        let passed_over = passed_over.iter().map(|name| (*name).to_owned()).collect();
        Route { only: only.map(str::to_owned), passed_over, ..Route::default() }
    }

    #[test]
    fn the_first_available_provider_that_is_not_passed_over_is_called() {
        let all = candidates(&[("a", None), ("b", None), ("c", None)]);
        assert_eq!(Route::default().choose(&all), Choice::Call(0));
        assert_eq!(route(None, &["a"]).choose(&all), Choice::Call(1));
        assert_eq!(route(None, &["a", "b", "c"]).choose(&all), Choice::Call(0), "all are passed over");
        let resting = candidates(&[("a", Some(LATER)), ("b", None)]);
        assert_eq!(Route::default().choose(&resting), Choice::Call(1));
    }

    #[test]
    fn while_all_breakers_are_open_the_choice_waits_for_the_first_to_close() {
        let resting = candidates(&[("a", Some(MUCH_LATER)), ("b", Some(LATER)), ("c", None)]);
        assert_eq!(route(None, &["c"]).choose(&resting), Choice::Wait(LATER));
        assert_eq!(route(None, &["b", "c"]).choose(&resting), Choice::Wait(MUCH_LATER));
        assert_eq!(Route::default().choose(&[]), Choice::NoProvider);
    }

    #[test]
    fn no_provider_replaces_the_only_one() {
        let all = candidates(&[("a", None), ("b", Some(LATER))]);
        assert_eq!(route(Some("b"), &[]).choose(&all), Choice::Wait(LATER));
        assert_eq!(route(Some("a"), &["a"]).choose(&all), Choice::Call(0));
        assert_eq!(route(Some("c"), &[]).choose(&all), Choice::OnlyProviderMissing);
        assert_eq!(route(Some("c"), &[]).choose(&[]), Choice::OnlyProviderMissing);
    }

    #[test]
    fn an_unknown_outcome_pins_the_provider_until_the_end() {
        let pinned = route(Some("a"), &[]);
        let keyed = Route { keyed: true, ..pinned.clone() };
        for (open, pinned) in [(Outcome::Unknown, pinned), (Outcome::REPEAT, keyed)] {
            assert_eq!(
                Route::default().next_route(&open, "a", &["a", "b"]),
                NextRoute::Usual(pinned.clone())
            );
            for certain in [Outcome::RETRY, Outcome::PauseProvider, Outcome::Unknown] {
                assert_eq!(pinned.next_route(&certain, "a", &["a", "b"]), NextRoute::Usual(pinned.clone()));
            }
            assert_eq!(pinned.next_route(&HERE, "a", &["a", "b"]), NextRoute::Failover(route(None, &["a"])));
        }
    }

    #[test]
    fn an_account_problem_leads_to_the_next_provider_and_after_the_last_to_the_first() {
        let pause = Outcome::PauseProvider;
        let second = Route::default().next_route(&pause, "a", &["a", "b"]);
        assert_eq!(second, NextRoute::Failover(route(None, &["a"])));
        assert_eq!(
            route(None, &["a"]).next_route(&pause, "b", &["a", "b"]),
            NextRoute::Usual(Route::default())
        );
        assert_eq!(Route::default().next_route(&pause, "a", &["a"]), NextRoute::Usual(Route::default()));
    }

    #[test]
    fn a_target_is_dead_only_after_the_last_provider() {
        let gone = Outcome::GONE;
        assert_eq!(Route::default().next_route(&gone, "a", &["a", "b"]), NextRoute::Usual(Route::default()));
        let second = route(None, &["a"]);
        assert_eq!(Route::default().next_route(&HERE, "a", &["a", "b"]), NextRoute::Failover(second.clone()));
        assert_eq!(second.next_route(&HERE, "b", &["a", "b"]), NextRoute::Usual(second));
    }

    #[test]
    fn failing_over_ends_after_as_many_attempts_as_there_are_providers() {
        let serving = ["a", "b", "c", "d"];
        let all = candidates(&serving.map(|identifier| (identifier, None)));
        let mut route = Route::default();
        let mut called = Vec::new();
        loop {
            let Choice::Call(place) = route.choose(&all) else { panic!("no provider left") };
            called.push(serving[place]);
            match route.next_route(&Outcome::PauseProvider, serving[place], &serving) {
                NextRoute::Failover(next) => route = next,
                NextRoute::Usual(next) => break assert!(next.is_open()),
            }
        }
        assert_eq!(called, serving);
    }
}
