//! Tests every row of the verdict tables for FCM and the OAuth server.

use std::time::Duration;

use domain::event::DeliveryJob;
use domain::outcome::{Blame, TargetDeath};
use domain::{Answer, Outcome, UserNumber};
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::RETRY_AFTER;
use mobile_push::fcm::answers::{OAUTH_TABLE, TABLE};
use serde_json::json;
use stand_ins::fcm::{FcmStandIn, refusal};
use stand_ins::http::{Reaction, Rule, json as json_answer, status};
use worker::verdict::row;

use crate::fixture::{ANDROID, NOW, PushWorld, RETRY, assert_sent, content};

const GONE_HERE: Outcome = Outcome::TargetGone(TargetDeath { since: None, here_only: true });
const QUOTA: Outcome = Outcome::Retry { after: Some(Duration::from_secs(60)), limit: None };
const PAUSE: Outcome = Outcome::PauseProvider;
const FAILED: Outcome = Outcome::Failed;
const TOKEN: &[&str] = &["message.token"];

type Case = (&'static str, u16, &'static str, &'static [&'static str], Outcome, &'static str);

/// At least one case for each row of [`TABLE`]: the row, the response, the outcome and the recorded code.
#[rustfmt::skip]
const CASES: &[Case] = &[
    ("400 INVALID_ARGUMENT message.token", 400, "INVALID_ARGUMENT", TOKEN, Outcome::GONE, "400 INVALID_ARGUMENT message.token"),
    ("400", 400, "INVALID_ARGUMENT", &["message.android.ttl"], FAILED, "400 INVALID_ARGUMENT"),
    ("400", 400, "INVALID_ARGUMENT", &[], FAILED, "400 INVALID_ARGUMENT"),
    ("400", 400, "", &[], FAILED, "400 INVALID_ARGUMENT"),
    ("401 THIRD_PARTY_AUTH_ERROR", 401, "THIRD_PARTY_AUTH_ERROR", &[], PAUSE, "401 THIRD_PARTY_AUTH_ERROR"),
    ("403 SENDER_ID_MISMATCH", 403, "SENDER_ID_MISMATCH", &[], GONE_HERE, "403 SENDER_ID_MISMATCH"),
    ("403", 403, "", &[], PAUSE, "403 PERMISSION_DENIED"),
    ("404 UNREGISTERED", 404, "UNREGISTERED", &[], Outcome::GONE, "404 UNREGISTERED"),
    ("404", 404, "", &[], PAUSE, "404 NOT_FOUND"),
    ("429", 429, "QUOTA_EXCEEDED", &[], QUOTA, "429 QUOTA_EXCEEDED"),
    ("500", 500, "INTERNAL", &[], RETRY, "500 INTERNAL"),
    ("503", 503, "UNAVAILABLE", &[], RETRY, "503 UNAVAILABLE"),
    ("4xx", 409, "UNSPECIFIED_ERROR", &[], FAILED, "409 UNSPECIFIED_ERROR"),
    ("5xx", 504, "", &[], RETRY, "504 INTERNAL"),
];

#[tokio::test]
async fn every_row_of_the_table_has_its_outcome() {
    let pusher = PushWorld::fcm().await;
    for (pattern, code, own, fields, outcome, recorded) in CASES {
        pusher.server.script(Rule::answer(refusal(*code, own, fields)));
        let answer = pusher.send(ANDROID).await;
        assert_eq!((&answer.outcome, answer.code.as_str()), (outcome, *recorded), "{answer:?}");
        let (_, code_of_row) = recorded.split_once(' ').unwrap();
        let decides = row(TABLE, *code, code_of_row).unwrap();
        assert_eq!(decides.0, *pattern, "first matching row for {recorded}");
        assert!(pusher.server.outbox().captures().is_empty());
    }
    // The bodies of these responses are not in Google's format.
    for (code, outcome) in [(307, FAILED), (401, PAUSE)] {
        pusher.server.script(Rule::answer(status(code)).times(2));
        let answer = pusher.send(ANDROID).await;
        assert_eq!((answer.outcome, answer.code), (outcome, code.to_string()));
        while pusher.server.rules_left() > 0 {
            pusher.send(ANDROID).await;
        }
    }
    for (pattern, verdict) in TABLE {
        let is_there = CASES.iter().any(|case| case.0 == *pattern) || matches!(*pattern, "3xx" | "401");
        assert!(is_there, "no case for {pattern} ({verdict:?})");
    }
    assert_sent(&pusher.send(ANDROID).await);
}

#[tokio::test]
async fn a_success_without_the_name_of_a_message_is_not_success() {
    let pusher = PushWorld::fcm().await;
    let login_page = Response::new(Bytes::from_static(b"<html>Sign in to the network</html>"));
    for response in
        [login_page, status(200), json_answer(200, &json!({"name": ""})), json_answer(200, &json!([]))]
    {
        pusher.server.script(Rule::answer(response));
        let answer = pusher.send(ANDROID).await;
        assert_eq!((&answer.outcome, answer.code.as_str()), (&Outcome::Unknown, "no_name"), "{answer:?}");
    }
    assert_sent(&pusher.send(ANDROID).await);
}

/// At least one case for each row of [`OAUTH_TABLE`]: the row, the response and the outcome.
#[rustfmt::skip]
const OAUTH_CASES: &[(&str, u16, &str, Outcome)] = &[
    ("400", 400, "invalid_grant", PAUSE),
    ("401", 401, "invalid_client", PAUSE),
    ("403", 403, "access_denied", PAUSE),
    ("429", 429, "rate_limit_exceeded", RETRY),
    ("3xx", 302, "", PAUSE),
    ("4xx", 404, "", PAUSE),
    ("5xx", 503, "backend_error", RETRY),
];

#[tokio::test]
async fn every_answer_of_the_oauth_server_has_its_outcome() {
    let pusher = PushWorld::fcm().await;
    for (pattern, code, error, outcome) in OAUTH_CASES {
        let says = json!({"error": error, "error_description": "Not now."});
        pusher.server.script_oauth(Rule::answer(json_answer(*code, &says)));
        let answer = pusher.send(ANDROID).await;
        let recorded = format!("oauth {code} {error}");
        assert_eq!((&answer.outcome, answer.code.as_str()), (outcome, recorded.trim_end()), "{answer:?}");
        assert_eq!(row(OAUTH_TABLE, *code, error).unwrap().0, *pattern);
    }
    for (pattern, _) in OAUTH_TABLE {
        assert!(OAUTH_CASES.iter().any(|case| case.0 == *pattern), "no case for {pattern}");
    }
    // The call for a token sends no message, so the delivery is retried even if the outcome of the call is unknown.
    pusher.server.script_oauth(Rule::new(Reaction::CutBefore));
    let answer = pusher.send(ANDROID).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (RETRY, "oauth connection_lost"));
    pusher.server.script_oauth(Rule::answer(json_answer(200, &json!({"token_type": "Bearer"}))));
    assert_eq!(pusher.send(ANDROID).await.outcome, RETRY);
    assert_sent(&pusher.send(ANDROID).await);
}

#[tokio::test]
async fn the_wait_that_google_requests_is_honoured() {
    let pusher = PushWorld::fcm().await;
    for (code, own) in [(429, "QUOTA_EXCEEDED"), (503, "UNAVAILABLE")] {
        let mut answer = refusal(code, own, &[]);
        answer.headers_mut().insert(RETRY_AFTER, "120".parse().unwrap());
        pusher.server.script(Rule::answer(answer));
        let after = Some(Duration::from_secs(120));
        assert_eq!(pusher.send(ANDROID).await.outcome, Outcome::Retry { after, limit: None });
    }
}

#[tokio::test]
async fn a_token_can_name_the_error_of_the_stand_in() {
    let pusher = PushWorld::fcm().await;
    for (token, outcome) in
        [("UNREGISTERED", Outcome::GONE), ("SENDER_ID_MISMATCH", GONE_HERE), ("QUOTA_EXCEEDED", QUOTA)]
    {
        assert_eq!(pusher.send(token).await.outcome, outcome, "{token}");
    }
    assert_eq!(pusher.send("no token").await.outcome, Outcome::GONE);
}

#[tokio::test]
async fn too_many_tokens_of_another_sender_pause_the_provider() {
    let pusher = PushWorld::fcm().await;
    for user in 0..20 {
        assert_sent(&send_to(&pusher, user, ANDROID).await);
    }
    // Five of 25 users are exactly a fifth, which is not too many. Six of 26 users are more than a fifth.
    for user in 20..25 {
        assert_eq!(send_to(&pusher, user, "SENDER_ID_MISMATCH").await.outcome, GONE_HERE);
    }
    let answer = send_to(&pusher, 25, "SENDER_ID_MISMATCH").await;
    assert_eq!((answer.outcome, answer.code.as_str()), (PAUSE, "403 SENDER_ID_MISMATCH"));
    assert_eq!(answer.blame, Blame::User);
}

#[tokio::test]
async fn tokens_of_another_project_that_one_user_stores_never_pause_the_provider() {
    let pusher = PushWorld::fcm().await;
    for _ in 0..50 {
        assert_eq!(pusher.send("SENDER_ID_MISMATCH").await.outcome, GONE_HERE);
    }
}

/// `THIRD_PARTY_AUTH_ERROR` is FCM's answer for tokens of browsers and iPhones if the project has no key for them.
#[tokio::test]
async fn an_error_caused_by_a_token_does_not_count_against_the_provider() {
    let pusher = PushWorld::fcm().await;
    for (status, own, blame) in [
        (401, "THIRD_PARTY_AUTH_ERROR", Blame::None),
        (403, "", Blame::User),
        (404, "", Blame::User),
        (503, "UNAVAILABLE", Blame::Usual),
    ] {
        pusher.server.script(Rule::answer(refusal(status, own, &[])));
        assert_eq!(pusher.send(ANDROID).await.blame, blame, "{status} {own}");
    }
}

async fn send_to(pusher: &PushWorld<FcmStandIn>, user: i64, token: &str) -> Answer {
    let job = DeliveryJob { user: UserNumber(user), ..pusher.job(token, content()) };
    pusher.send_job(&job, NOW).await
}
