//! Meaning of a push service's answers: the table and its look-up.

use std::time::Duration;

use domain::outcome::RetryLimit;
use domain::{Answer, Outcome};
use worker::outbound::NotPublic;

/// The class of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushVerdict {
    /// The push service took the message.
    Sent,
    /// Again, on the usual schedule, and not before the time that it asks for.
    Retry,
    /// Refused for good.
    Failed,
    /// Refused for good, and the subscription is dead.
    TargetGone,
    /// Trouble with the app's key or its token, where more than a few subscriptions have it; the subscription is kept.
    PauseProvider,
}

/// Statuses and their classes; the first row that fits counts. `x` stands for any digit. Beyond RFC 8030 (sections 5 and
/// 7.3) and RFC 8292 (section 4.2) they follow what the push services of today's browsers say.
pub const TABLE: &[(&str, PushVerdict)] = &[
    ("200", PushVerdict::Sent),
    ("201", PushVerdict::Sent),
    ("202", PushVerdict::Sent),
    ("400", PushVerdict::Failed),
    ("401", PushVerdict::PauseProvider),
    ("403", PushVerdict::PauseProvider),
    ("404", PushVerdict::TargetGone),
    ("410", PushVerdict::TargetGone),
    ("413", PushVerdict::Failed),
    ("429", PushVerdict::Retry),
    ("2xx", PushVerdict::Sent),
    // Never followed: the subscription says where its messages go.
    ("3xx", PushVerdict::Failed),
    ("4xx", PushVerdict::Failed),
    ("5xx", PushVerdict::Retry),
];

/// A host that a subscription names may have no address for a while, or ever: its deliveries fail after half an hour.
const UNRESOLVED: RetryLimit = RetryLimit { retries: 3, over: Duration::from_secs(30 * 60) };

/// Characters kept of what a push service said.
const MESSAGE_LENGTH: usize = 500;

/// Reply of a push service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Time that it asks to wait.
    pub retry_after: Option<Duration>,
    /// Its name for the message.
    pub id: Option<String>,
    /// The beginning of the body.
    pub text: String,
}

/// Why a push service said nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The name of the host has no address now.
    Unresolved(String),
    /// There was no connection, so the message went nowhere.
    Connect(String),
    /// The push service is at an address that must not be called.
    Forbidden(NotPublic),
    /// The connection broke once the message was on its way.
    Lost(String),
    /// Nothing was said in time.
    TimedOut,
}

/// The answer to a message for `endpoint`.
#[must_use]
pub fn answer(result: &Result<Reply, Failure>, endpoint: &str) -> Answer {
    match result {
        Ok(reply) => {
            let outcome = outcome(reply);
            let answer = Answer::new(outcome, reply.status.to_string(), presentable(&reply.text, endpoint));
            // A subscription that was made for another key is refused as a wrong key is.
            if answer.outcome == Outcome::PauseProvider { answer.blaming_user() } else { answer }
        }
        Err(Failure::Connect(cause)) => {
            Answer::new(Outcome::RETRY, "connect", presentable(cause, endpoint)).blaming_provider()
        }
        Err(Failure::Unresolved(cause)) => {
            let outcome = Outcome::Retry { after: None, limit: Some(UNRESOLVED) };
            Answer::new(outcome, "unresolved", presentable(cause, endpoint)).sparing_provider()
        }
        // The subscription names the host.
        Err(Failure::Forbidden(refused)) => Answer::new(Outcome::Failed, "not_public", refused.to_string()),
        // It may have been taken. Sent again, it has the same topic and replaces what is not delivered yet.
        Err(Failure::Lost(cause)) => {
            Answer::new(Outcome::Unknown, "connection_lost", presentable(cause, endpoint))
        }
        Err(Failure::TimedOut) => Answer::new(Outcome::Unknown, "timeout", "no answer in time"),
    }
}

/// The row that decides: the first of [`TABLE`] that fits.
#[must_use]
pub fn row(status: u16) -> Option<&'static (&'static str, PushVerdict)> {
    let status = status.to_string();
    let fits = |pattern: &str| {
        pattern.len() == status.len()
            && pattern.bytes().zip(status.bytes()).all(|(pattern, digit)| pattern == b'x' || pattern == digit)
    };
    TABLE.iter().find(|(pattern, _)| fits(pattern))
}

fn outcome(reply: &Reply) -> Outcome {
    match row(reply.status).map_or(PushVerdict::Retry, |(_, verdict)| *verdict) {
        PushVerdict::Sent => Outcome::Sent { provider_id: reply.id.clone() },
        PushVerdict::Retry => Outcome::Retry { after: reply.retry_after, limit: None },
        PushVerdict::Failed => Outcome::Failed,
        PushVerdict::TargetGone => Outcome::GONE,
        PushVerdict::PauseProvider => Outcome::PauseProvider,
    }
}

/// Bounded, on one line, and without the endpoint, whose knowledge is enough to write to the browser.
fn presentable(text: &str, endpoint: &str) -> String {
    let path =
        endpoint.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    let mut text = text.replace(endpoint, "[endpoint]");
    // The part that names the browser, of which what is short hides nothing.
    if path.len() >= 8 {
        text = text.replace(path, "[endpoint]");
    }
    text.chars().filter(|character| !character.is_control()).take(MESSAGE_LENGTH).collect()
}
