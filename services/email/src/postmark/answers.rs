//! What the API's answer means: the table, and how it is read.

use std::time::Duration;

use domain::{Answer, Outcome};
use serde::Deserialize;
use worker::verdict::{Hints, Verdict, fits, presentable};

/// HTTP status and `ErrorCode`, and their classes; the first row that fits counts. `x` stands for any digit, and a
/// status alone for any code beside it.
pub const TABLE: &[(&str, Verdict)] = &[
    ("200 0", Verdict::Sent),
    // A bad token, whatever the status.
    ("4xx 10", Verdict::PauseProvider),
    ("401", Verdict::PauseProvider),
    ("403", Verdict::PauseProvider),
    // Maintenance; too many.
    ("4xx 100", Verdict::Retry),
    ("5xx 100", Verdict::Retry),
    ("4xx 429", Verdict::Retry),
    // The request: an address, the JSON, an attachment's type.
    ("422 300", Verdict::Failed),
    ("422 402", Verdict::Failed),
    ("422 403", Verdict::Failed),
    ("422 409", Verdict::Failed),
    ("422 411", Verdict::Failed),
    // The sender is not known or not confirmed; the account has no credit, waits for its approval, may not send, or not
    // from this address; the stream is not there or not for sending.
    ("422 400", Verdict::PauseProvider),
    ("422 401", Verdict::PauseProvider),
    ("422 405", Verdict::PauseProvider),
    ("422 412", Verdict::PauseProvider),
    ("422 413", Verdict::PauseProvider),
    ("422 422", Verdict::PauseProvider),
    ("422 1235", Verdict::PauseProvider),
    ("422 1236", Verdict::PauseProvider),
    ("422 1480", Verdict::PauseProvider),
    // Bounced, complained, or was suppressed there.
    ("422 406", Verdict::TargetGone),
    ("408", Verdict::Retry),
    ("413", Verdict::Failed),
    ("429", Verdict::Retry),
    // Nobody answers so but another server than the API: never followed, and every email would fail.
    ("3xx", Verdict::PauseProvider),
    ("404", Verdict::PauseProvider),
    ("4xx", Verdict::Failed),
    // Documented: the API is away.
    ("503", Verdict::Retry),
    // What failed while it served the call, or stands before the API, may have the email.
    ("5xx", Verdict::Unknown),
];

/// What the API answered.
#[derive(Clone, Debug)]
pub struct PostmarkReply {
    status: u16,
    retry_after: Option<Duration>,
    /// None where it is not the API's.
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
    /// Reads an answer.
    #[must_use]
    pub fn read(status: u16, retry_after: Option<Duration>, body: &[u8]) -> PostmarkReply {
        PostmarkReply { status, retry_after, body: serde_json::from_slice(body).ok() }
    }

    /// Status and code, such as `422 406`; the status alone where there is no code.
    #[must_use]
    pub fn codes(&self) -> String {
        match (self.status, &self.body) {
            (status @ 200..300, Some(Body { error_code: 0, .. })) => format!("{status} 0"),
            (status, None | Some(Body { error_code: 0, .. })) => status.to_string(),
            (status, Some(Body { error_code, .. })) => format!("{status} {error_code}"),
        }
    }

    /// The name of what was asked for.
    pub(super) fn name(&self) -> &str {
        self.body.as_ref().map_or("", |body| &body.name)
    }

    fn message(&self) -> &str {
        self.body.as_ref().map_or("", |body| &body.message)
    }
}

/// The answer to an email for these recipients, the one of the delivery first; none of their addresses is recorded.
#[must_use]
pub fn answer(said: &PostmarkReply, recipients: &[String]) -> Answer {
    let Some((_, verdict)) = row(said) else {
        // It may have been taken.
        return Answer::new(Outcome::Unknown, said.codes(), "the answer is not the API's");
    };
    let verdict = match verdict {
        Verdict::Sent if is_inactive(said, recipients) => Verdict::TargetGone,
        verdict => *verdict,
    };
    let provider_id = said.body.as_ref().and_then(|body| body.message_id.clone());
    let hints = Hints { provider_id, retry_after: said.retry_after, ..Hints::default() };
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    Answer::new(verdict.outcome(hints), said.codes(), presentable(said.message(), &recipients))
}

/// The row that decides: the first of [`TABLE`] that fits.
#[must_use]
pub fn row(said: &PostmarkReply) -> Option<&'static (&'static str, Verdict)> {
    let codes = said.codes();
    let (status, code) = codes.split_once(' ').unwrap_or((&codes, ""));
    TABLE.iter().find(|(pattern, _)| match pattern.split_once(' ') {
        Some((of_status, of_code)) => fits(of_status, status) && fits(of_code, code),
        None => fits(pattern, status),
    })
}

/// Whether the recipient of the delivery is among those that the API took the email for but will not send it to, as
/// happens where it takes it for others in cc or bcc.
fn is_inactive(said: &PostmarkReply, recipients: &[String]) -> bool {
    let lower = said.message().to_ascii_lowercase();
    let Some((_, named)) = lower.split_once("inactive addresses:") else { return false };
    let mut named = named.split([',', ' ', ';']).map(|word| word.trim_end_matches('.'));
    recipients.first().is_some_and(|to| named.any(|word| word == to.to_ascii_lowercase()))
}
