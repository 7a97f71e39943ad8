//! Classes of providers' answers. Each channel has a table that maps statuses and codes to classes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::excerpt::excerpt;
use domain::outcome::{RetryLimit, TargetDeath};
use domain::{Outcome, Timestamp, UserNumber};

/// Length in bytes.
const LONGEST_MESSAGE: usize = 500;
/// Length in bytes. A shorter text can occur in any message by chance.
const SHORTEST_HIDDEN: usize = 4;
const WINDOW: usize = 100;
/// Users refused before the provider counts as being at fault.
const FEWEST: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Sent,
    /// Normal schedule, but not before the time that the provider requests.
    Retry,
    /// Retry after the time that the provider requests, or after this time if it requests none.
    RetryAfter(Duration),
    RetryWithin(RetryLimit),
    Failed,
    TargetGone,
    /// Another provider may reach the target.
    TargetGoneHere,
    /// The credential or the account has a problem.
    PauseProvider,
    /// It is unknown whether the provider accepted the message.
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerDetails {
    pub provider_id: Option<String>,
    pub retry_after: Option<Duration>,
    /// Time since which the target is dead, if the provider states it.
    pub gone_since: Option<Timestamp>,
}

impl Verdict {
    #[must_use]
    pub fn outcome(self, hints: AnswerDetails) -> Outcome {
        let AnswerDetails { provider_id, retry_after, gone_since: since } = hints;
        let retry = |after, limit| Outcome::Retry { after, limit };
        match self {
            Verdict::Sent => Outcome::Sent { provider_id },
            Verdict::Retry => retry(retry_after, None),
            Verdict::RetryAfter(usual) => retry(Some(retry_after.unwrap_or(usual)), None),
            Verdict::RetryWithin(limit) => retry(retry_after, Some(limit)),
            Verdict::Failed => Outcome::Failed,
            Verdict::TargetGone => Outcome::TargetGone(TargetDeath { since, here_only: false }),
            Verdict::TargetGoneHere => Outcome::TargetGone(TargetDeath { since, here_only: true }),
            Verdict::PauseProvider => Outcome::PauseProvider,
            Verdict::Unknown => Outcome::Unknown,
        }
    }
}

/// `x` stands for any digit.
#[must_use]
pub fn fits(pattern: &str, code: &str) -> bool {
    let alike = |(wanted, found): (u8, u8)| wanted == found || (wanted == b'x' && found.is_ascii_digit());
    pattern.len() == code.len() && pattern.bytes().zip(code.bytes()).all(alike)
}

/// A pattern is an HTTP status (`5xx`), which matches any code of the provider, or a status and a code (`422 406`).
#[must_use]
pub fn row<T>(
    table: &'static [(&'static str, T)],
    status: u16,
    code: &str,
) -> Option<&'static (&'static str, T)> {
    let status = status.to_string();
    table.iter().find(|(pattern, _)| match pattern.split_once(' ') {
        Some((of_status, of_code)) => fits(of_status, &status) && fits(of_code, code),
        None => fits(pattern, &status),
    })
}

/// Shortens the message and removes control characters and the `hidden` texts, which identify the recipient.
#[must_use]
pub fn presentable(text: &str, hidden: &[&str]) -> String {
    let mut shown = text.to_owned();
    for secret in hidden.iter().filter(|secret| secret.len() >= SHORTEST_HIDDEN) {
        shown = without(&shown, secret);
    }
    shown.retain(|character| !character.is_control());
    excerpt(shown, LONGEST_MESSAGE)
}

fn without(text: &str, secret: &str) -> String {
    let (lower, secret) = (text.to_ascii_lowercase(), secret.to_ascii_lowercase());
    let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
    for (start, found) in lower.match_indices(&secret) {
        shown.push_str(text.get(end..start).unwrap_or_default());
        shown.push_str("[recipient]");
        end = start + found.len();
    }
    shown.push_str(text.get(end..).unwrap_or_default());
    shown
}

/// Users of recent calls. A provider that recently refused the targets of many of them is at fault, otherwise the target. The flag is true
/// if the latest call for the user was refused for an ambiguous reason.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<VecDeque<(UserNumber, bool)>>);

impl Refusals {
    /// Returns true if the call was refused and the provider is probably at fault: among the last 100 users, at least 5 and more than a
    /// fifth were refused. Each user counts once, regardless of the number of targets.
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
    fn an_x_stands_for_one_digit() {
        assert!(fits("5xx", "503") && fits("422 300", "422 300") && fits("xxx", "404"));
        assert!(!fits("5xx", "50") && !fits("5xx", "5031") && !fits("5xx", "5ab") && !fits("503", "504"));
    }

    #[test]
    fn the_first_row_that_matches_status_and_code_decides() {
        const TABLE: &[(&str, u8)] = &[("4xx 10", 1), ("422 406", 2), ("4xx", 3)];
        let found = |status, code| row(TABLE, status, code).map(|(_, number)| *number);
        assert_eq!(
            [(422, "10"), (422, "406"), (422, ""), (400, "406"), (500, "10")]
                .map(|(status, code)| found(status, code)),
            [Some(1), Some(2), Some(3), Some(3), None]
        );
    }

    #[test]
    fn text_that_identifies_the_recipient_is_not_recorded() {
        let shown = presentable("To ADA@example.com,\r\nada@example.com: no", &["ada@example.com", "to"]);
        assert_eq!(shown, "To [recipient],[recipient]: no");
        assert_eq!(presentable(&"x".repeat(600), &[]).len(), LONGEST_MESSAGE);
    }

    #[test]
    fn a_wait_that_the_provider_asks_for_replaces_the_usual_one() {
        let [usual, asked] = [60, 7].map(Duration::from_secs);
        let hints = AnswerDetails { retry_after: Some(asked), ..AnswerDetails::default() };
        let waits = |after| Outcome::Retry { after: Some(after), limit: None };
        assert_eq!(Verdict::RetryAfter(usual).outcome(AnswerDetails::default()), waits(usual));
        assert_eq!(Verdict::RetryAfter(usual).outcome(hints), waits(asked));
    }

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
