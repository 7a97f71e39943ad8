//! Health of a provider, or of a host to which targets point, such as a browser's push service.

use std::time::Duration;

use crate::breaker::{Breaker, FIRST_REST};
use crate::outcome::Blame;
use crate::{Answer, Outcome, Timestamp, UserNumber};

/// Users whose trial failed, remembered during one outage.
const MOST_SUSPECTS: usize = 64;
/// Maximum time for which a suspect waits in addition to the breaker's rest.
const LONGEST_SUSPICION: Duration = Duration::from_secs(300);
/// Maximum pause before the next trial if the target of the last trial may have caused that trial's failure.
const LONGEST_DOUBT: Duration = Duration::from_secs(30);
/// Maximum time for which a call waits while another user's trial is in flight.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time for which the provider counts as working after an answer that showed it alive.
const PROOF: Duration = Duration::from_secs(600);

/// One worker's view of the health of a provider or host. Targets of one user cannot stop the deliveries of other users.
///
/// A failure that a target may have caused counts once per user until an answer shows the provider alive. Such failures open the breaker
/// only if they affect [`RUN`](crate::breaker::RUN) users. After a failed trial for one user, trials for other users may start sooner than
/// the next trial for that user.
#[derive(Clone, Debug, Default)]
pub struct Health {
    breaker: Breaker,
    /// Cleared by an answer that shows the provider alive.
    counted: Vec<UserNumber>,
    suspects: Vec<Suspect>,
    trial: Option<Trial>,
    answered_at: Option<Timestamp>,
    failure: Option<Failure>,
}

/// Answer of a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    user: UserNumber,
    failures: u32,
    until: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    user: UserNumber,
    since: Timestamp,
}

impl Health {
    #[must_use]
    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Latest failure since an answer that showed the provider alive.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    #[must_use]
    pub fn closed_until(&self, now: Timestamp, user: UserNumber) -> Option<Timestamp> {
        if matches!(self.breaker, Breaker::Closed { .. }) {
            return None;
        }
        let own = self.suspect(user).map(|suspect| suspect.until);
        let common = self.breaker.closed_until(now).filter(|_| !self.may_try_beside(now, user));
        common.max(own).filter(|until| *until > now)
    }

    /// During an outage the call is a trial.
    pub fn enter(&mut self, now: Timestamp, user: UserNumber) -> bool {
        if self.closed_until(now, user).is_some() {
            return false;
        }
        if !matches!(self.breaker, Breaker::Closed { .. }) {
            self.breaker.enter(now);
            self.trial = Some(Trial { user, since: now });
        }
        true
    }

    /// Reverts [`enter`](Self::enter) for a call that was not made, or whose answer shows nothing about the provider's health.
    pub fn leave(&mut self, now: Timestamp, user: UserNumber) {
        if self.is_trial_of(user) {
            self.trial = None;
            self.breaker.leave(now);
        }
    }

    pub fn report(&mut self, answer: &Answer, now: Timestamp, user: UserNumber) {
        if answer.blame == Blame::None {
            return self.leave(now, user);
        }
        let outcome = &answer.outcome;
        if is_sign_of_life(outcome) {
            self.answered_at = Some(now);
            self.breaker.report(outcome, now);
            if matches!(self.breaker, Breaker::Closed { .. }) {
                let answered_at = self.answered_at;
                let breaker = self.breaker.clone();
                *self = Health { breaker, answered_at, ..Health::default() };
            }
            return;
        }
        self.failure = Some(Failure { code: answer.code.clone(), message: answer.message.clone() });
        let is_certain = match answer.blame {
            Blame::Provider => true,
            Blame::Usual => *outcome == Outcome::PauseProvider,
            Blame::User | Blame::None => false,
        };
        match self.breaker {
            Breaker::Closed { .. } => self.count(outcome, is_certain, now, user),
            Breaker::HalfOpen { .. } if self.is_trial_of(user) => {
                self.fail_trial(outcome, is_certain, now, user);
            }
            // Ignore the failure: the call started before the breaker opened, or another trial has replaced this one.
            Breaker::Open { .. } | Breaker::HalfOpen { .. } => {}
        }
    }

    #[must_use]
    pub fn is_proven(&self, now: Timestamp) -> bool {
        self.answered_at.is_some_and(|at| now < at + PROOF)
    }

    fn count(&mut self, outcome: &Outcome, is_certain: bool, now: Timestamp, user: UserNumber) {
        if is_certain {
            self.breaker.report(outcome, now);
        } else if !self.counted.contains(&user) {
            self.counted.push(user);
            self.breaker.report(&as_single_failure(outcome), now);
        }
        if let Some(until) = self.breaker.closed_until(now) {
            self.counted.clear();
            self.suspects = vec![Suspect { user, failures: 1, until: until + FIRST_REST }];
        }
    }

    fn fail_trial(&mut self, outcome: &Outcome, is_certain: bool, now: Timestamp, user: UserNumber) {
        self.trial = None;
        if is_certain {
            self.breaker.report(outcome, now);
        } else {
            let asked = match outcome {
                Outcome::Retry { after, .. } | Outcome::Repeat { after } => after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            // A second failed trial for the same user proves nothing new, so a trial for another user may start at once.
            let pause = if self.suspect(user).is_some() {
                Duration::ZERO
            } else {
                asked.clamp(FIRST_REST, LONGEST_DOUBT)
            };
            self.breaker.rest_for(pause, now);
        }
        self.suspect_more(now, user);
    }

    fn suspect_more(&mut self, now: Timestamp, user: UserNumber) {
        let failures = self.suspect(user).map_or(0, |suspect| suspect.failures) + 1;
        let pause = FIRST_REST.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_SUSPICION);
        let from = self.breaker.closed_until(now).unwrap_or(now);
        self.suspects.retain(|suspect| suspect.user != user);
        if self.suspects.len() >= MOST_SUSPECTS {
            self.suspects.remove(0);
        }
        self.suspects.push(Suspect { user, failures, until: from + pause });
    }

    fn may_try_beside(&self, now: Timestamp, user: UserNumber) -> bool {
        matches!(self.breaker, Breaker::HalfOpen { .. })
            && self.trial.is_none_or(|trial| {
                trial.user != user && (self.suspect(trial.user).is_some() || now >= trial.since + PATIENCE)
            })
    }

    fn suspect(&self, user: UserNumber) -> Option<&Suspect> {
        self.suspects.iter().find(|suspect| suspect.user == user)
    }

    fn is_trial_of(&self, user: UserNumber) -> bool {
        self.trial.is_some_and(|trial| trial.user == user)
    }
}

fn is_sign_of_life(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Sent { .. }
        | Outcome::Failed
        | Outcome::TargetGone(_)
        | Outcome::Retry { limit: Some(_), .. } => true,
        Outcome::Retry { limit: None, .. }
        | Outcome::PauseProvider
        | Outcome::Unknown
        | Outcome::Repeat { .. } => false,
    }
}

/// The breaker then counts a problem with the account as one failure instead of opening at once.
fn as_single_failure(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::PauseProvider => Outcome::RETRY,
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breaker::RUN;
    use crate::outcome::RetryLimit;
    use proptest::prelude::*;

    const MALLORY: UserNumber = UserNumber(0);
    const BOB: UserNumber = UserNumber(1);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0) + Duration::from_secs(seconds)
    }

    fn answer(outcome: Outcome, blame: Blame) -> Answer {
        Answer { blame, ..Answer::new(outcome, "", "") }
    }

    fn sent() -> Answer {
        answer(Outcome::Sent { provider_id: None }, Blame::Usual)
    }

    /// Returns the health during an outage that users other than Mallory and Bob caused.
    fn in_an_outage() -> Health {
        let mut health = Health::default();
        for number in 0..RUN {
            health.report(&answer(Outcome::RETRY, Blame::Usual), at(0), UserNumber(100 + i64::from(number)));
        }
        health
    }

    #[test]
    fn failures_of_one_users_targets_never_stop_another_user() {
        let mut health = Health::default();
        for second in 0..10_000 {
            health.report(&answer(Outcome::Unknown, Blame::Usual), at(second), MALLORY);
            health.report(&answer(Outcome::PauseProvider, Blame::User), at(second), MALLORY);
            assert_eq!(health.closed_until(at(second), BOB), None);
        }
    }

    #[test]
    fn failures_of_many_users_or_of_the_provider_itself_stop_all_users() {
        assert_eq!(in_an_outage().closed_until(at(0), BOB), Some(at(5)));
        let mut health = Health::default();
        for _ in 0..RUN {
            health.report(&answer(Outcome::RETRY, Blame::Provider), at(0), MALLORY);
        }
        assert_eq!(health.closed_until(at(0), BOB), Some(at(5)));
        let mut health = Health::default();
        health.report(&answer(Outcome::PauseProvider, Blame::Usual), at(0), MALLORY);
        assert_eq!(health.closed_until(at(0), BOB), Some(at(5)));
    }

    #[test]
    fn failures_unrelated_to_the_provider_are_not_counted() {
        let mut health = Health::default();
        for number in 0..100 {
            health.report(&answer(Outcome::PauseProvider, Blame::None), at(0), UserNumber(number));
        }
        assert_eq!(health.closed_until(at(0), BOB), None);
    }

    #[test]
    fn the_user_whose_trial_failed_last_lets_the_others_try_first() {
        let mut health = in_an_outage();
        assert!(health.enter(at(5), MALLORY));
        assert!(!health.enter(at(5), BOB), "one trial at a time");
        health.report(&answer(Outcome::Unknown, Blame::Usual), at(6), MALLORY);
        assert!(health.closed_until(at(11), MALLORY).is_some());
        assert!(health.enter(at(11), BOB));
        health.report(&sent(), at(12), BOB);
        assert!(health.enter(at(12), MALLORY) && health.enter(at(12), BOB));
    }

    #[test]
    fn a_trial_of_a_user_who_failed_before_does_not_block_others() {
        let mut health = in_an_outage();
        assert!(health.enter(at(5), MALLORY));
        health.report(&answer(Outcome::Unknown, Blame::Usual), at(6), MALLORY);
        let next = health.closed_until(at(6), MALLORY).unwrap();
        assert!(health.enter(next, MALLORY));
        assert!(health.enter(next, BOB), "the trial of a suspect blocks another user");
        health.report(&answer(Outcome::Unknown, Blame::Usual), next, MALLORY);
        health.report(&sent(), next, BOB);
        assert_eq!(health.closed_until(next, MALLORY), None);
    }

    #[test]
    fn a_trial_that_hangs_blocks_others_for_20_seconds_at_most() {
        let mut health = in_an_outage();
        assert!(health.enter(at(5), MALLORY));
        assert!(!health.enter(at(20), BOB));
        assert!(health.enter(at(25), BOB));
        health.leave(at(26), MALLORY);
        assert!(!health.enter(at(26), UserNumber(7)), "Bob's trial is in flight");
    }

    #[test]
    fn an_outage_of_the_provider_itself_doubles_the_rests() {
        let mut health = in_an_outage();
        let mut now = at(5);
        for rest in [10, 20, 40] {
            assert!(health.enter(now, BOB), "{rest}");
            health.report(&answer(Outcome::RETRY, Blame::Provider), now, BOB);
            let others = health.closed_until(now, UserNumber(rest)).unwrap();
            assert_eq!(others, now + Duration::from_secs(u64::try_from(rest).unwrap()));
            now = health.closed_until(now, BOB).unwrap();
            assert!(now > others);
        }
    }

    /// Any answer that a target can provoke from its host or the provider.
    fn provoked() -> impl Strategy<Value = Answer> {
        let after = prop::option::of((0..100_000_u64).prop_map(Duration::from_secs));
        let limit = Just(Some(RetryLimit { retries: 3, over: Duration::from_secs(60) }));
        let outcomes = prop_oneof![
            Just(Outcome::Sent { provider_id: None }),
            Just(Outcome::Failed),
            Just(Outcome::GONE),
            Just(Outcome::Unknown),
            after.clone().prop_map(|after| Outcome::Retry { after, limit: None }),
            (after.clone(), limit).prop_map(|(after, limit)| Outcome::Retry { after, limit }),
            after.prop_map(|after| Outcome::Repeat { after }),
        ];
        prop_oneof![
            4 => (outcomes, prop::sample::select(vec![Blame::Usual, Blame::User, Blame::None]))
                .prop_map(|(outcome, blame)| answer(outcome, blame)),
            1 => prop::sample::select(vec![Blame::User, Blame::None])
                .prop_map(|blame| answer(Outcome::PauseProvider, blame)),
        ]
    }

    proptest! {
        /// Mallory's deliveries start at arbitrary times. Each gets its answer after an arbitrary delay, or never. At the end,
        /// Bob gets one delivery.
        #[test]
        fn another_users_delivery_is_tried_within_a_minute_whatever_one_user_stores(
            was_in_an_outage in any::<bool>(),
            deliveries in prop::collection::vec((0..30_u64, 0..60_u64, prop::option::of(provoked())), 0..200),
        ) {
            let mut health = if was_in_an_outage { in_an_outage() } else { Health::default() };
            let mut now = at(0);
            let mut under_way: Vec<(Timestamp, Option<Answer>)> = Vec::new();
            for (pause, takes, answer) in deliveries {
                now = now + Duration::from_secs(pause);
                under_way.retain(|(ends, answer)| {
                    if *ends > now {
                        return true;
                    }
                    match answer {
                        Some(answer) => health.report(answer, now, MALLORY),
                        None => health.leave(now, MALLORY),
                    }
                    false
                });
                if health.enter(now, MALLORY) {
                    under_way.push((now + Duration::from_secs(takes), answer));
                }
            }
            let begins = now;
            while !health.enter(now, BOB) {
                now = health.closed_until(now, BOB).unwrap();
                prop_assert!(now.since(begins) < Duration::from_secs(60), "{health:?}");
            }
        }
    }
}
