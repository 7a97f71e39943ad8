//! Verdicts on the responses of push services.

use std::time::Duration;

use domain::outcome::RetryLimit;
use domain::{Answer, Outcome};
use worker::Verdict;
use worker::outbound::NotPublic;
use worker::verdict::{self, Hints};

/// HTTP statuses and their verdicts. The first matching row applies; `x` matches any digit. In addition to RFC 8030
/// (sections 5 and 7.3) and RFC 8292 (section 4.2), the rows follow the documentation of the browsers' push services.
pub const TABLE: &[(&str, Verdict)] = &[
    ("200", Verdict::Sent),
    ("201", Verdict::Sent),
    ("202", Verdict::Sent),
    ("400", Verdict::Failed),
    ("401", Verdict::PauseProvider),
    ("403", Verdict::PauseProvider),
    ("404", Verdict::TargetGone),
    ("410", Verdict::TargetGone),
    ("413", Verdict::Failed),
    ("429", Verdict::Retry),
    ("2xx", Verdict::Sent),
    // Redirects are never followed: a message goes only to the endpoint of its subscription.
    ("3xx", Verdict::Failed),
    ("4xx", Verdict::Failed),
    ("5xx", Verdict::Retry),
];

/// Limit for a host name without an address. The cause may be temporary or permanent, so deliveries fail after half an hour.
const UNRESOLVED: RetryLimit = RetryLimit { retries: 3, over: Duration::from_secs(30 * 60) };

/// Maximum characters recorded of a push service's response.
const MESSAGE_LENGTH: usize = 500;

/// Reply of a push service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Delay that the push service requests.
    pub retry_after: Option<Duration>,
    /// The push service's id of the message.
    pub id: Option<String>,
    /// First part of the body.
    pub text: String,
}

/// Reason why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The host name has no address at present.
    Unresolved(String),
    /// The connection could not be established: nothing was sent.
    Connect(String),
    /// The push service is at an address that must not be called.
    Forbidden(NotPublic),
    /// The connection broke while or after the message was sent; the push service may have accepted it.
    Lost(String),
    /// The call timed out; the push service may have accepted the message.
    TimedOut,
}

/// Converts the result of a call for `endpoint` to an answer.
#[must_use]
pub fn answer(result: &Result<Reply, Failure>, endpoint: &str) -> Answer {
    match result {
        Ok(reply) => {
            let outcome = outcome(reply);
            let answer = Answer::new(outcome, reply.status.to_string(), presentable(&reply.text, endpoint));
            // A subscription for another key gets the same response as a bad key, so the user may be the cause.
            if answer.outcome == Outcome::PauseProvider { answer.blaming_user() } else { answer }
        }
        Err(Failure::Connect(cause)) => {
            Answer::new(Outcome::RETRY, "connect", presentable(cause, endpoint)).blaming_provider()
        }
        Err(Failure::Unresolved(cause)) => {
            let outcome = Outcome::Retry { after: None, limit: Some(UNRESOLVED) };
            Answer::new(outcome, "unresolved", presentable(cause, endpoint)).sparing_provider()
        }
        // The host comes from the subscription, so the failure does not concern the provider.
        Err(Failure::Forbidden(refused)) => Answer::new(Outcome::Failed, "not_public", refused.to_string()),
        // The push service may have accepted the message. A repetition has the same topic, so it replaces an undelivered
        // first copy.
        Err(Failure::Lost(cause)) => {
            Answer::new(Outcome::Unknown, "connection_lost", presentable(cause, endpoint))
        }
        Err(Failure::TimedOut) => Answer::new(Outcome::Unknown, "timeout", "no answer in time"),
    }
}

/// First row of [`TABLE`] that matches `status`; None if no row matches.
#[must_use]
pub fn row(status: u16) -> Option<&'static (&'static str, Verdict)> {
    verdict::row(TABLE, status, "")
}

fn outcome(reply: &Reply) -> Outcome {
    let verdict = row(reply.status).map_or(Verdict::Retry, |(_, verdict)| *verdict);
    verdict.outcome(Hints { provider_id: reply.id.clone(), retry_after: reply.retry_after, gone_since: None })
}

/// Makes a text presentable: limited in length, on one line, and without the endpoint, because anyone who has the endpoint
/// can send to the browser.
fn presentable(text: &str, endpoint: &str) -> String {
    let path =
        endpoint.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    let mut text = text.replace(endpoint, "[endpoint]");
    // Remove the path as well, because it identifies the browser. A path under 8 bytes is too short to be secret.
    if path.len() >= 8 {
        text = text.replace(path, "[endpoint]");
    }
    text.chars().filter(|character| !character.is_control()).take(MESSAGE_LENGTH).collect()
}
