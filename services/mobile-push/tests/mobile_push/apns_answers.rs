//! Tests every row of the verdict table for APNs.

use std::time::Duration;

use domain::outcome::{RetryLimit, TargetDeath};
use domain::{Outcome, Timestamp};
use hyper::header::RETRY_AFTER;
use mobile_push::apns::answers::TABLE;
use stand_ins::apns::refusal;
use stand_ins::http::{Rule, status};
use worker::verdict::row;

use crate::fixture::{NOW, PHONE, PushWorld, RETRY, assert_sent};

const GONE_HERE: Outcome = Outcome::TargetGone(TargetDeath { since: None, here_only: true });
const ONCE: Outcome =
    Outcome::Retry { after: None, limit: Some(RetryLimit { retries: 1, over: Duration::from_secs(300) }) };
const PAUSE: Outcome = Outcome::PauseProvider;
const FAILED: Outcome = Outcome::Failed;

/// At least one case for each row of [`TABLE`]: the row, the status and reason of the response, and the outcome.
#[rustfmt::skip]
const CASES: &[(&str, u16, &str, Outcome)] = &[
    ("400 BadDeviceToken", 400, "BadDeviceToken", GONE_HERE),
    ("400 DeviceTokenNotForTopic", 400, "DeviceTokenNotForTopic", GONE_HERE),
    ("400 IdleTimeout", 400, "IdleTimeout", RETRY),
    ("400", 400, "BadCollapseId", FAILED),
    ("400", 400, "BadExpirationDate", FAILED),
    ("400", 400, "BadMessageId", FAILED),
    ("400", 400, "BadPriority", FAILED),
    ("400", 400, "BadTopic", FAILED),
    ("400", 400, "DuplicateHeaders", FAILED),
    ("400", 400, "InvalidPushType", FAILED),
    ("400", 400, "MissingDeviceToken", FAILED),
    ("400", 400, "MissingTopic", FAILED),
    ("400", 400, "PayloadEmpty", FAILED),
    ("400", 400, "TopicDisallowed", FAILED),
    ("400", 400, "SomethingNew", FAILED),
    ("403 ExpiredProviderToken", 403, "ExpiredProviderToken", ONCE),
    ("403 InvalidProviderToken", 403, "InvalidProviderToken", PAUSE),
    ("403 MissingProviderToken", 403, "MissingProviderToken", PAUSE),
    ("403 UnrelatedKeyIdInToken", 403, "UnrelatedKeyIdInToken", PAUSE),
    ("403 BadEnvironmentKeyIdInToken", 403, "BadEnvironmentKeyIdInToken", PAUSE),
    ("403 BadCertificate", 403, "BadCertificate", PAUSE),
    ("403 BadCertificateEnvironment", 403, "BadCertificateEnvironment", PAUSE),
    ("403 Forbidden", 403, "Forbidden", PAUSE),
    ("403", 403, "SomethingNew", PAUSE),
    ("404", 404, "BadPath", FAILED),
    ("405", 405, "MethodNotAllowed", FAILED),
    ("410 Unregistered", 410, "Unregistered", Outcome::GONE),
    ("410 ExpiredToken", 410, "ExpiredToken", Outcome::GONE),
    ("410", 410, "SomethingNew", Outcome::GONE),
    ("413", 413, "PayloadTooLarge", FAILED),
    ("429 TooManyProviderTokenUpdates", 429, "TooManyProviderTokenUpdates", PAUSE),
    ("429", 429, "TooManyRequests", RETRY),
    ("500", 500, "InternalServerError", RETRY),
    ("503", 503, "ServiceUnavailable", RETRY),
    ("503", 503, "Shutdown", RETRY),
    ("401", 401, "", PAUSE),
    ("3xx", 307, "", FAILED),
    ("4xx", 418, "", FAILED),
    ("5xx", 502, "", RETRY),
];

#[tokio::test]
async fn every_row_of_the_table_has_its_outcome() {
    let pusher = PushWorld::apns().await;
    for (pattern, code, reason, outcome) in CASES {
        let answer = if reason.is_empty() { status(*code) } else { refusal(*code, reason, None) };
        pusher.server.script(Rule::answer(answer));
        let answer = pusher.send(PHONE).await;
        let recorded = format!("{code} {reason}");
        assert_eq!((&answer.outcome, answer.code.as_str()), (outcome, recorded.trim_end()), "{answer:?}");
        let decides = row(TABLE, *code, reason).unwrap();
        assert_eq!(decides.0, *pattern, "first matching row for {recorded}");
        assert!(pusher.server.outbox().captures().is_empty());
    }
    for (pattern, verdict) in TABLE {
        let is_there = CASES.iter().any(|case| case.0 == *pattern);
        assert!(is_there, "no case for {pattern} ({verdict:?})");
    }
    assert_sent(&pusher.send(PHONE).await);
    assert_eq!(pusher.server.server().connections(), 1, "a refusal does not end the connection");
}

#[tokio::test]
async fn a_dead_token_is_dead_since_the_time_in_apples_answer() {
    let pusher = PushWorld::apns().await;
    let since = Timestamp::from_millis(1_454_948_015_990);
    for reason in ["Unregistered", "ExpiredToken"] {
        pusher.server.script(Rule::answer(refusal(410, reason, Some(since))));
        let gone = Outcome::TargetGone(TargetDeath { since: Some(since), here_only: false });
        assert_eq!(pusher.send(PHONE).await.outcome, gone);
    }
    // If the device token is the name of a reason, the stand-in refuses the push with this reason. This is for manual tests.
    assert_eq!(
        pusher.send("Unregistered").await.outcome,
        Outcome::TargetGone(TargetDeath { since: Some(NOW), here_only: false })
    );
    assert_eq!(pusher.send("BadDeviceToken").await.outcome, GONE_HERE);
    assert_eq!(pusher.send("abc").await.outcome, GONE_HERE, "Apple's tokens have 32 bytes");
}

#[tokio::test]
async fn a_requested_wait_is_honoured() {
    let pusher = PushWorld::apns().await;
    for code in [429, 503] {
        let mut answer = refusal(code, "TooManyRequests", None);
        answer.headers_mut().insert(RETRY_AFTER, "120".parse().unwrap());
        pusher.server.script(Rule::answer(answer));
        let after = Some(Duration::from_secs(120));
        assert_eq!(pusher.send(PHONE).await.outcome, Outcome::Retry { after, limit: None });
    }
}

#[tokio::test]
async fn the_recorded_text_does_not_contain_the_token() {
    let pusher = PushWorld::apns().await;
    pusher.server.script(Rule::answer(refusal(400, &format!("Odd {PHONE}\r\n{}", "x".repeat(900)), None)));
    let answer = pusher.send(PHONE).await;
    assert!(answer.message.starts_with("Odd [recipient]xxx"), "{answer:?}");
    assert!(answer.message.len() <= 500 && answer.message.ends_with("xxx…"), "{answer:?}");
    assert!(!answer.code.contains(PHONE));
}
