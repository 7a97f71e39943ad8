//! Meaning of the answers of APNs.
//!
//! <https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns>

use std::time::Duration;

use domain::outcome::RetryLimit;
use domain::{Answer, Outcome, Timestamp};
use serde::Deserialize;
use worker::Verdict;
use worker::exchange::Reply;
use worker::verdict::Hints;

use crate::answers::{Row, ServiceReply, judge};

/// The code of an answer to a provider token that is too old.
pub(super) const EXPIRED: &str = "403 ExpiredProviderToken";

/// Too many pushes to one device.
const TOO_MANY: &str = "TooManyRequests";

/// A renewed token was refused too: clocks differ, and perhaps not for long.
const ONCE: RetryLimit = RetryLimit { retries: 1, over: Duration::from_secs(300) };

/// Answers and their classes; the first row that fits counts.
pub const TABLE: &[Row] = &[
    // The token is of the other environment or another app, or was never one: other providers may differ.
    ("400", "BadDeviceToken", Verdict::TargetGoneHere),
    ("400", "DeviceTokenNotForTopic", Verdict::TargetGoneHere),
    // The connection was silent for too long.
    ("400", "IdleTimeout", Verdict::Retry),
    ("400", "*", Verdict::Failed),
    ("403", "ExpiredProviderToken", Verdict::RetryWithin(ONCE)),
    ("403", "InvalidProviderToken", Verdict::PauseProvider),
    ("403", "MissingProviderToken", Verdict::PauseProvider),
    ("403", "UnrelatedKeyIdInToken", Verdict::PauseProvider),
    ("403", "BadEnvironmentKeyIdInToken", Verdict::PauseProvider),
    ("403", "BadCertificate", Verdict::PauseProvider),
    ("403", "BadCertificateEnvironment", Verdict::PauseProvider),
    ("403", "Forbidden", Verdict::PauseProvider),
    ("403", "*", Verdict::PauseProvider),
    ("404", "*", Verdict::Failed),
    ("405", "*", Verdict::Failed),
    ("410", "Unregistered", Verdict::TargetGone),
    ("410", "ExpiredToken", Verdict::TargetGone),
    ("410", "*", Verdict::TargetGone),
    ("413", "*", Verdict::Failed),
    ("429", "TooManyProviderTokenUpdates", Verdict::PauseProvider),
    ("429", "*", Verdict::Retry),
    ("500", "*", Verdict::Retry),
    ("503", "*", Verdict::Retry),
    ("401", "*", Verdict::PauseProvider),
    ("3xx", "*", Verdict::Failed),
    ("4xx", "*", Verdict::Failed),
    ("5xx", "*", Verdict::Retry),
];

/// The body of a refusal.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    reason: String,
    /// Milliseconds since 1970: when APNs found that the token is not valid any more.
    timestamp: Option<i64>,
}

pub(super) fn answer(reply: &Reply, token: &str) -> Answer {
    if reply.status == 200 {
        let id = reply.headers.get("apns-id").and_then(|id| id.to_str().ok());
        let provider_id = id.map(|id| id.chars().take(100).collect());
        return Answer::new(Outcome::Sent { provider_id }, "200", "");
    }
    // Something between us and Apple may answer in its own way: then the status decides.
    let refusal: Refusal = serde_json::from_slice(&reply.body).unwrap_or_default();
    let gone_since = refusal.timestamp.map(Timestamp::from_millis);
    let hints = Hints { provider_id: None, retry_after: reply.retry_after, gone_since };
    let said = ServiceReply { status: reply.status, code: &refusal.reason, words: &refusal.reason, hints };
    let answer = judge(TABLE, said, token);
    // Apple counts by device: another one may be reached now.
    if refusal.reason == TOO_MANY { answer.sparing_provider() } else { answer }
}
