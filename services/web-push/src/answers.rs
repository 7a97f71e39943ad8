use std::time::Duration;

use domain::excerpt::excerpt;
use domain::outcome::RetryLimit;
use domain::{Answer, Outcome};
use worker::Verdict;
use worker::outbound::ForbiddenHost;
use worker::verdict::{self, AnswerDetails};

/// The first matching row applies; `x` matches any digit. The rows follow RFC 8030 (sections 5 and 7.3), RFC 8292 (section 4.2) and the
/// documentation of the browsers' push services.
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
    // Redirects are not followed, because a message must go only to the endpoint of its subscription.
    ("3xx", Verdict::Failed),
    ("4xx", Verdict::Failed),
    ("5xx", Verdict::Retry),
];

/// Limit on retries if a host name has no address. The cause may be temporary or permanent, so the delivery fails after half an hour.
const UNRESOLVED: RetryLimit = RetryLimit { retries: 3, over: Duration::from_secs(30 * 60) };

const MESSAGE_LENGTH: usize = 500;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub retry_after: Option<Duration>,
    pub id: Option<String>,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Unresolved(String),
    /// The connection could not be established, so nothing was sent.
    Connect(String),
    Forbidden(ForbiddenHost),
    /// The connection broke during or after sending. The push service may have accepted the message.
    Lost(String),
    /// The push service may have accepted the message.
    TimedOut,
}

/// Removes `endpoint` from the recorded texts.
#[must_use]
pub fn answer(result: &Result<Reply, Failure>, endpoint: &str) -> Answer {
    match result {
        Ok(reply) => {
            let outcome = outcome(reply);
            let answer = Answer::new(outcome, reply.status.to_string(), presentable(&reply.text, endpoint));
            // Push services give this response for a bad key, but also for a user's subscription that was made with
            // another key.
            if answer.outcome == Outcome::PauseProvider { answer.blaming_user() } else { answer }
        }
        Err(Failure::Connect(cause)) => {
            Answer::new(Outcome::RETRY, "connect", presentable(cause, endpoint)).blaming_provider()
        }
        Err(Failure::Unresolved(cause)) => {
            let outcome = Outcome::Retry { after: None, limit: Some(UNRESOLVED) };
            Answer::new(outcome, "unresolved", presentable(cause, endpoint)).sparing_provider()
        }
        // The host comes from the subscription, so the failure does not count against the provider.
        Err(Failure::Forbidden(refused)) => Answer::new(Outcome::Failed, "not_public", refused.to_string()),
        // The push service may have accepted the message. A retry has the same topic, so it replaces a copy that was
        // not delivered yet.
        Err(Failure::Lost(cause)) => {
            Answer::new(Outcome::Unknown, "connection_lost", presentable(cause, endpoint))
        }
        Err(Failure::TimedOut) => Answer::new(Outcome::Unknown, "timeout", "no answer in time"),
    }
}

#[must_use]
pub fn row(status: u16) -> Option<&'static (&'static str, Verdict)> {
    verdict::row(TABLE, status, "")
}

fn outcome(reply: &Reply) -> Outcome {
    let verdict = row(reply.status).map_or(Verdict::Retry, |(_, verdict)| *verdict);
    verdict.outcome(AnswerDetails {
        provider_id: reply.id.clone(),
        retry_after: reply.retry_after,
        gone_since: None,
    })
}

/// Removes the endpoint: anyone who knows it could send to the browser.
fn presentable(text: &str, endpoint: &str) -> String {
    let path =
        endpoint.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    let mut text = text.replace(endpoint, "[endpoint]");
    // Remove the endpoint's path as well, because it identifies the browser. A path under 8 bytes is too short to be
    // secret.
    if path.len() >= 8 {
        text = text.replace(path, "[endpoint]");
    }
    text.retain(|character| !character.is_control());
    excerpt(text, MESSAGE_LENGTH)
}
