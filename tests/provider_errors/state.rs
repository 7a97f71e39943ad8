//! State of a delivery in the ledger, and the state that the table requires.

use std::time::Duration;

use domain::Channel;

use crate::table::{Class, Note, Row};
use crate::world::{Subject, USUAL, World};

/// An attempt in the ledger. If the provider sent a report later, outcome and code are those of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) provider: Option<String>,
    pub(crate) outcome: String,
    pub(crate) code: String,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    pub(crate) attempts: Vec<Attempt>,
    /// Code with which the target is suppressed.
    pub(crate) suppressed: Option<String>,
    /// Time from the last answer to the next attempt.
    pub(crate) next: Option<Duration>,
}

/// `Retry-After` that the stand-ins send.
pub(crate) const ASKED: Duration = Duration::from_secs(240);
/// Tolerance for the time of the next attempt: a fifth of the usual delay, for jitter and a slow machine.
const SPREAD: Duration = Duration::from_secs(20);

impl State {
    #[track_caller]
    pub(crate) fn assert_ended(&self, status: &str, reason: Option<&str>, suppressed: Option<&str>) {
        assert_eq!((self.status.as_str(), self.reason.as_deref()), (status, reason), "{self:?}");
        assert_eq!(self.suppressed.as_deref(), suppressed, "{self:?}");
        assert_eq!(self.next, None, "{self:?}");
    }

    /// Asserts that another attempt follows after `wait`, and that nothing is suppressed.
    #[track_caller]
    fn assert_retried_after(&self, wait: (Duration, Duration)) {
        assert_eq!((self.status.as_str(), self.reason.as_deref()), ("retrying", None), "{self:?}");
        assert_eq!(self.suppressed, None, "{self:?}");
        let next = self.next.unwrap_or_else(|| panic!("no timer: {self:?}"));
        assert!(wait.0 <= next && next <= wait.1, "not within {wait:?}: {self:?}");
    }

    #[track_caller]
    fn assert_attempts(&self, expected: &[(&str, Class, &str)]) {
        let expected = expected.iter().map(|(provider, class, code)| Attempt {
            provider: Some((*provider).to_owned()),
            outcome: outcome(*class).to_owned(),
            code: (*code).to_owned(),
        });
        assert_eq!(self.attempts, expected.collect::<Vec<_>>());
    }
}

/// Checks a row by following a delivery to its final status. The provider `first` gives the answer of the row and then accepts;
/// the provider `second` always accepts. The ledger must record `code` for the answer of the row, and `taken` for an acceptance.
pub(crate) async fn check_row(world: &World, subject: &Subject, row: &Row, code: &str, taken: &str) {
    let state = world.state_after(subject, 1).await;
    state.assert_attempts(&[("first", row.class, code)]);
    match (row.class, row.note) {
        (Class::Sent, _) => state.assert_ended("sent", None, None),
        (Class::Failed, _) => state.assert_ended("failed", Some("provider_refused"), None),
        (Class::Gone, Note::HereOnly) | (Class::Pause, _) => {
            // An answer leads to an immediate failover, a later report to a retry after the usual delay.
            let wait = if subject.report.is_some() { usual_wait() } else { (Duration::ZERO, SPREAD) };
            state.assert_retried_after(wait);
            follow_second_attempt(world, subject, row, code, ("second", taken)).await;
        }
        (Class::Gone, _) => state.assert_ended("failed", Some("target_gone"), Some(code)),
        (Class::Unknown, _) if world.channel == Channel::Sms => {
            state.assert_ended("unknown", Some("outcome_unknown"), None);
        }
        (Class::Retry, Note::Limit(_)) => limited(world, subject, row, code, state).await,
        (Class::Retry | Class::Unknown, note) => {
            state.assert_retried_after(match note {
                Note::NotBefore(wait) => (wait, wait + SPREAD),
                Note::AsAsked => (ASKED, ASKED + SPREAD),
                _ => usual_wait(),
            });
            follow_second_attempt(world, subject, row, code, ("first", taken)).await;
        }
    }
}

fn usual_wait() -> (Duration, Duration) {
    (USUAL * 4 / 5, USUAL * 6 / 5 + SPREAD)
}

/// Checks that the second attempt calls this provider, which accepts the message.
async fn follow_second_attempt(
    world: &World,
    subject: &Subject,
    row: &Row,
    code: &str,
    (provider, taken): (&str, &str),
) {
    world.make_next_attempt(subject).await;
    let state = world.state_after(subject, 2).await;
    state.assert_attempts(&[("first", row.class, code), (provider, Class::Sent, taken)]);
    state.assert_ended("sent", None, None);
}

/// Checks that the same provider is called as often as the limit allows, and that the delivery then fails without suppressing the
/// target.
async fn limited(world: &World, subject: &Subject, row: &Row, code: &str, first: State) {
    let Note::Limit(limit) = row.note else { panic!("no limit: {row:?}") };
    let (mut state, step) = (first, limit.over / limit.retries);
    for attempt in 1..=limit.retries {
        state.assert_retried_after((step, step + SPREAD));
        world.make_next_attempt(subject).await;
        state = world.state_after(subject, attempt + 1).await;
    }
    state.assert_attempts(&vec![("first", row.class, code); state.attempts.len()]);
    assert_eq!(state.attempts.len(), usize::try_from(row.times()).unwrap());
    state.assert_ended("failed", Some("retries_exhausted"), None);
}

fn outcome(class: Class) -> &'static str {
    match class {
        Class::Sent => "sent",
        Class::Retry => "retry",
        Class::Failed => "failed",
        Class::Gone => "target_gone",
        Class::Pause => "pause_provider",
        Class::Unknown => "unknown",
    }
}
