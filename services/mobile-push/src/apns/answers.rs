//! Verdicts on the responses of APNs.
//!
//! <https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns>

use std::time::Duration;

use domain::outcome::RetryLimit;
use domain::{Answer, Outcome, Timestamp};
use serde::Deserialize;
use worker::Verdict;
use worker::exchange::Reply;
use worker::verdict::AnswerDetails;

use crate::answers::{ServiceReply, classify};

pub(super) const EXPIRED: &str = "403 ExpiredProviderToken";

/// `reason` in a 429 response to too many pushes to one device.
const TOO_MANY: &str = "TooManyRequests";

/// Limit on retries if APNs still reports the provider token as expired after its renewal: the clocks differ, which may soon be corrected.
const ONCE: RetryLimit = RetryLimit { retries: 1, over: Duration::from_secs(300) };

/// The first matching row applies.
pub const TABLE: &[(&str, Verdict)] = &[
    // The device token is invalid, or belongs to the other environment or to another app. It may still be valid for
    // another provider.
    ("400 BadDeviceToken", Verdict::TargetGoneHere),
    ("400 DeviceTokenNotForTopic", Verdict::TargetGoneHere),
    // The connection was idle for too long.
    ("400 IdleTimeout", Verdict::Retry),
    ("400", Verdict::Failed),
    ("403 ExpiredProviderToken", Verdict::RetryWithin(ONCE)),
    ("403 InvalidProviderToken", Verdict::PauseProvider),
    ("403 MissingProviderToken", Verdict::PauseProvider),
    ("403 UnrelatedKeyIdInToken", Verdict::PauseProvider),
    ("403 BadEnvironmentKeyIdInToken", Verdict::PauseProvider),
    ("403 BadCertificate", Verdict::PauseProvider),
    ("403 BadCertificateEnvironment", Verdict::PauseProvider),
    ("403 Forbidden", Verdict::PauseProvider),
    ("403", Verdict::PauseProvider),
    ("404", Verdict::Failed),
    ("405", Verdict::Failed),
    ("410 Unregistered", Verdict::TargetGone),
    ("410 ExpiredToken", Verdict::TargetGone),
    ("410", Verdict::TargetGone),
    ("413", Verdict::Failed),
    ("429 TooManyProviderTokenUpdates", Verdict::PauseProvider),
    ("429", Verdict::Retry),
    ("500", Verdict::Retry),
    ("503", Verdict::Retry),
    ("401", Verdict::PauseProvider),
    ("3xx", Verdict::Failed),
    ("4xx", Verdict::Failed),
    ("5xx", Verdict::Retry),
];

#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    reason: String,
    /// Time at which APNs found the token invalid, in milliseconds since 1970.
    timestamp: Option<i64>,
}

pub(super) fn answer(reply: &Reply, token: &str) -> Answer {
    if reply.status == 200 {
        let id = reply.headers.get("apns-id").and_then(|id| id.to_str().ok());
        let provider_id = id.map(|id| id.chars().take(100).collect());
        return Answer::new(Outcome::Sent { provider_id }, "200", "");
    }
    // A proxy between Tidings and Apple may respond in another format. Without a reason, the status alone decides the
    // verdict.
    let refusal: Refusal = serde_json::from_slice(&reply.body).unwrap_or_default();
    let gone_since = refusal.timestamp.map(Timestamp::from_millis);
    let hints = AnswerDetails { provider_id: None, retry_after: reply.retry_after, gone_since };
    let service_reply =
        ServiceReply { status: reply.status, code: &refusal.reason, words: &refusal.reason, hints };
    let answer = classify(TABLE, service_reply, token);
    // Apple limits the rate per device, so pushes to other devices may succeed.
    if refusal.reason == TOO_MANY { answer.sparing_provider() } else { answer }
}
