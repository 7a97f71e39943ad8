//! Verdicts on the responses of FCM and of Google's OAuth server.
//!
//! <https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode>

use std::time::Duration;

use domain::{Answer, Outcome};
use serde::Deserialize;
use serde_json::Value;
use worker::Verdict;
use worker::exchange::Reply;
use worker::verdict::{AnswerDetails, presentable};

use crate::answers::{ServiceReply, classify};

/// The device token belongs to another Firebase project.
pub(super) const MISMATCH: &str = "403 SENDER_ID_MISMATCH";
/// FCM would send the message on through APNs or web push, but the Firebase project has no valid key for that service.
const THIRD_PARTY: &str = "401 THIRD_PARTY_AUTH_ERROR";
/// FCM reports the device token as an invalid argument.
const WRONG_TOKEN: &str = "INVALID_ARGUMENT message.token";
/// Delay that Google recommends after a 429 without `Retry-After`.
const QUOTA: Duration = Duration::from_secs(60);

/// The first matching row applies.
pub const TABLE: &[(&str, Verdict)] = &[
    ("400 INVALID_ARGUMENT message.token", Verdict::TargetGone),
    ("400", Verdict::Failed),
    // The project lacks a valid APNs certificate or web push key.
    ("401 THIRD_PARTY_AUTH_ERROR", Verdict::PauseProvider),
    ("401", Verdict::PauseProvider),
    ("403 SENDER_ID_MISMATCH", Verdict::TargetGoneHere),
    ("403", Verdict::PauseProvider),
    ("404 UNREGISTERED", Verdict::TargetGone),
    // The project does not exist.
    ("404", Verdict::PauseProvider),
    ("429", Verdict::RetryAfter(QUOTA)),
    ("500", Verdict::Retry),
    ("503", Verdict::Retry),
    ("3xx", Verdict::Failed),
    ("4xx", Verdict::Failed),
    ("5xx", Verdict::Retry),
];

/// Responses of the OAuth server (RFC 6749 section 5.2). The first matching row applies.
pub const OAUTH_TABLE: &[(&str, Verdict)] = &[
    // The key was revoked, or the local clock is wrong.
    ("400", Verdict::PauseProvider),
    ("401", Verdict::PauseProvider),
    ("403", Verdict::PauseProvider),
    ("429", Verdict::Retry),
    ("3xx", Verdict::PauseProvider),
    ("4xx", Verdict::PauseProvider),
    ("5xx", Verdict::Retry),
];

#[derive(Default, Deserialize)]
#[serde(default)]
struct SuccessBody {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error: Refusal,
}

/// <https://cloud.google.com/apis/design/errors#error_model>
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    status: String,
    message: String,
    details: Vec<Detail>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Detail {
    error_code: Option<String>,
    field_violations: Vec<Violation>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Violation {
    field: String,
}

impl Refusal {
    /// Returns FCM's error code, or the general status if there is none; [`WRONG_TOKEN`] if the device token is invalid.
    fn code(&self) -> &str {
        let own = self.details.iter().find_map(|detail| detail.error_code.as_deref());
        let code = own.unwrap_or(&self.status);
        let mut violations = self.details.iter().flat_map(|detail| &detail.field_violations);
        if code == "INVALID_ARGUMENT" && violations.any(|violation| violation.field == "message.token") {
            WRONG_TOKEN
        } else {
            code
        }
    }
}

pub(super) fn answer(reply: &Reply, token: &str) -> Answer {
    if reply.status == 200 {
        let accepted: SuccessBody = serde_json::from_slice(&reply.body).unwrap_or_default();
        let Some(name) = accepted.name.filter(|name| !name.is_empty()) else {
            // Another server has answered, such as a proxy with a login page, perhaps instead of FCM.
            let words = presentable(&String::from_utf8_lossy(&reply.body), &[token]);
            return Answer::new(Outcome::Unknown, "no_name", words);
        };
        let provider_id = Some(name.chars().take(200).collect());
        return Answer::new(Outcome::Sent { provider_id }, "200", "");
    }
    // A proxy between Tidings and Google may respond in another format. Without an error code, the status alone decides
    // the verdict.
    let ErrorBody { error } = serde_json::from_slice(&reply.body).unwrap_or_default();
    let service_reply =
        ServiceReply { status: reply.status, code: error.code(), words: &error.message, hints: hints(reply) };
    let answer = classify(TABLE, service_reply, token);
    match (reply.status, answer.code.as_str()) {
        // The project has no key for browsers or for iPhones. Messages to other platforms may succeed.
        (401, THIRD_PARTY) => answer.sparing_provider(),
        // The cause is either the credential or the device token, which may belong to another project.
        (403 | 404, _) => answer.blaming_user(),
        _ => answer,
    }
}

pub(super) fn distrusts(answer: &Answer) -> bool {
    answer.code.starts_with("401") && !answer.code.ends_with("THIRD_PARTY_AUTH_ERROR")
}

/// Classifies a refusal to issue an access token: the message was not sent.
pub(super) fn of_oauth(reply: &Reply) -> Answer {
    let refusal: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let text = |name: &str| refusal.get(name).and_then(Value::as_str).unwrap_or_default();
    let (code, words) = (text("error"), text("error_description"));
    let service_reply = ServiceReply { status: reply.status, code, words, hints: hints(reply) };
    let answer = classify(OAUTH_TABLE, service_reply, "");
    Answer { code: format!("oauth {}", answer.code), ..answer }.blaming_provider()
}

fn hints(reply: &Reply) -> AnswerDetails {
    AnswerDetails { retry_after: reply.retry_after, ..AnswerDetails::default() }
}
