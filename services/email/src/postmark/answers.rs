use std::time::Duration;

use domain::{Answer, Outcome};
use serde::Deserialize;
use worker::verdict::{self, AnswerDetails, Verdict, presentable};

/// Verdicts by HTTP status and Postmark's `ErrorCode`. The first matching row applies. `x` matches any digit. A row
/// without an `ErrorCode` matches any code.
pub const TABLE: &[(&str, Verdict)] = &[
    ("200 0", Verdict::Sent),
    // The server token is invalid.
    ("4xx 10", Verdict::PauseProvider),
    ("401", Verdict::PauseProvider),
    ("403", Verdict::PauseProvider),
    // 100 is maintenance, 429 is the rate limit.
    ("4xx 100", Verdict::Retry),
    ("5xx 100", Verdict::Retry),
    ("4xx 429", Verdict::Retry),
    // An address, the JSON or the type of an attachment is invalid.
    ("422 300", Verdict::Failed),
    ("422 402", Verdict::Failed),
    ("422 403", Verdict::Failed),
    ("422 409", Verdict::Failed),
    ("422 411", Verdict::Failed),
    // Sender: unknown or unconfirmed. Account: no credit, not approved yet, or not allowed to send at all or from this
    // address. Message stream: missing, or not meant for sending.
    ("422 400", Verdict::PauseProvider),
    ("422 401", Verdict::PauseProvider),
    ("422 405", Verdict::PauseProvider),
    ("422 412", Verdict::PauseProvider),
    ("422 413", Verdict::PauseProvider),
    ("422 422", Verdict::PauseProvider),
    ("422 1235", Verdict::PauseProvider),
    ("422 1236", Verdict::PauseProvider),
    ("422 1480", Verdict::PauseProvider),
    // The recipient bounced, complained or was suppressed at the provider.
    ("422 406", Verdict::TargetGone),
    ("408", Verdict::Retry),
    ("413", Verdict::Failed),
    ("429", Verdict::Retry),
    // The API never answers with these statuses. If such a status arrives, `baseUrl` is wrong, and every email would
    // fail. Redirects are not followed.
    ("3xx", Verdict::PauseProvider),
    ("404", Verdict::PauseProvider),
    ("4xx", Verdict::Failed),
    // According to Postmark's documentation, this status means that the API is unavailable.
    ("503", Verdict::Retry),
    // The API or a proxy failed during the call; the email may have been accepted.
    ("5xx", Verdict::Unknown),
];

#[derive(Clone, Debug)]
pub struct PostmarkReply {
    status: u16,
    retry_after: Option<Duration>,
    /// None if the body is not in the API's format.
    body: Option<Body>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Body {
    error_code: u32,
    message: String,
    #[serde(rename = "MessageID")]
    message_id: Option<String>,
    name: String,
}

impl PostmarkReply {
    #[must_use]
    pub fn read(status: u16, retry_after: Option<Duration>, body: &[u8]) -> PostmarkReply {
        PostmarkReply { status, retry_after, body: serde_json::from_slice(body).ok() }
    }

    /// HTTP status and `ErrorCode`, such as `422 406`; only the status if there is no code.
    #[must_use]
    pub fn codes(&self) -> String {
        match (self.status, &self.body) {
            (status @ 200..300, Some(Body { error_code: 0, .. })) => format!("{status} 0"),
            (status, None | Some(Body { error_code: 0, .. })) => status.to_string(),
            (status, Some(Body { error_code, .. })) => format!("{status} {error_code}"),
        }
    }

    /// Name of the Postmark server; empty if the answer contains no name.
    pub(super) fn name(&self) -> &str {
        self.body.as_ref().map_or("", |body| &body.name)
    }

    fn message(&self) -> &str {
        self.body.as_ref().map_or("", |body| &body.message)
    }
}

/// Converts Postmark's reply to the answer of the attempt. The first address in `recipients` is the delivery's
/// recipient. All these addresses are removed from Postmark's message.
#[must_use]
pub fn answer(reply: &PostmarkReply, recipients: &[String]) -> Answer {
    let Some((_, verdict)) = row(reply) else {
        // The answer is not in the API's format, so it does not show whether the email was accepted.
        return Answer::new(Outcome::Unknown, reply.codes(), "the answer does not come from the API");
    };
    let verdict = match verdict {
        Verdict::Sent if is_inactive(reply, recipients) => Verdict::TargetGone,
        verdict => *verdict,
    };
    let provider_id = reply.body.as_ref().and_then(|body| body.message_id.clone());
    let hints = AnswerDetails { provider_id, retry_after: reply.retry_after, ..AnswerDetails::default() };
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    Answer::new(verdict.outcome(hints), reply.codes(), presentable(reply.message(), &recipients))
}

#[must_use]
pub fn row(reply: &PostmarkReply) -> Option<&'static (&'static str, Verdict)> {
    let codes = reply.codes();
    let code = codes.split_once(' ').map_or("", |(_, code)| code);
    verdict::row(TABLE, reply.status, code)
}

/// Returns true if Postmark accepted the email only for cc or bcc recipients, because the address of the delivery's
/// recipient is inactive at Postmark.
fn is_inactive(reply: &PostmarkReply, recipients: &[String]) -> bool {
    let lower = reply.message().to_ascii_lowercase();
    let Some((_, named)) = lower.split_once("inactive addresses:") else { return false };
    let mut named = named.split([',', ' ', ';']).map(|word| word.trim_end_matches('.'));
    recipients.first().is_some_and(|to| named.any(|word| word == to.to_ascii_lowercase()))
}
