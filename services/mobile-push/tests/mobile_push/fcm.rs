//! Tests of requests to FCM and of its credentials.

use std::sync::Arc;
use std::time::Duration;

use domain::Outcome;
use futures_util::future::join_all;
use serde_json::json;
use stand_ins::http::{Reaction, Rule, status};
use worker::Outbound;

use crate::fixture::{ANDROID, NOW, PushWorld, RETRY, assert_sent, minutes, probe, sender_within};

#[tokio::test]
async fn an_accepted_message_records_googles_id() {
    let pusher = PushWorld::fcm().await;
    let answer = pusher.send(ANDROID).await;
    let name = "projects/demo-project/messages/1".to_owned();
    assert_eq!(answer.outcome, Outcome::Sent { provider_id: Some(name) });
    let capture = pusher.server.outbox().captures().remove(0);
    assert_eq!(capture.to, [format!("fcm:{ANDROID}")]);
    assert_eq!(capture.summary.text.as_deref(), Some("It is on its way."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_attempts_share_one_access_token() {
    let pusher = Arc::new(PushWorld::fcm().await);
    let sends = (0..100).map(|_| {
        let pusher = Arc::clone(&pusher);
        tokio::spawn(async move { pusher.send(ANDROID).await })
    });
    for answer in join_all(sends).await {
        assert_sent(&answer.unwrap());
    }
    assert_eq!(pusher.server.granted(), 1);
}

#[tokio::test]
async fn an_access_token_is_replaced_before_it_expires() {
    let pusher = PushWorld::fcm().await;
    for (age, granted) in [(0, 1), (54, 1), (56, 2), (100, 2), (112, 3), (500, 4)] {
        let now = NOW + minutes(age);
        pusher.server.set_clock(now);
        assert_sent(&pusher.send_at(ANDROID, now).await);
        assert_eq!(pusher.server.granted(), granted, "after {age} minutes");
    }
}

#[tokio::test]
async fn while_the_oauth_server_is_unavailable_the_old_token_is_used_until_it_expires() {
    let pusher = PushWorld::fcm().await;
    assert_sent(&pusher.send(ANDROID).await);
    pusher.server.script_oauth(Rule::answer(status(503)).times(2));
    for (age, taken) in [(56, true), (60, false), (60, true)] {
        let now = NOW + minutes(age);
        pusher.server.set_clock(now);
        let answer = pusher.send_at(ANDROID, now).await;
        assert_eq!(matches!(answer.outcome, Outcome::Sent { .. }), taken, "after {age} minutes: {answer:?}");
    }
}

#[tokio::test]
async fn attempts_that_wait_for_a_token_share_its_failure() {
    let pusher = PushWorld::fcm().await;
    pusher.server.script_oauth(Rule::answer(status(503)));
    // The first attempt fetches a token, and the other attempts wait for it.
    let answers = join_all((0..20).map(|_| pusher.send(ANDROID))).await;
    let failed = answers.iter().filter(|answer| answer.code == "oauth 503").count();
    assert_eq!((failed, pusher.server.granted()), (20, 0));
    assert_sent(&pusher.send(ANDROID).await);
}

#[tokio::test]
async fn a_revoked_access_token_is_replaced_and_the_message_repeated_at_once() {
    let pusher = PushWorld::fcm().await;
    assert_sent(&pusher.send(ANDROID).await);
    pusher.server.revoke();
    for answer in join_all((0..10).map(|_| pusher.send(ANDROID))).await {
        assert_sent(&answer);
    }
    assert_eq!((pusher.server.granted(), pusher.server.outbox().captures().len()), (2, 11));
}

#[tokio::test]
async fn a_lost_connection_is_unknown() {
    let pusher = PushWorld::fcm().await;
    assert_sent(&pusher.send(ANDROID).await);
    for (reaction, taken) in [(Reaction::CutBefore, 1), (Reaction::CutAfter, 2)] {
        pusher.server.script(Rule::new(reaction));
        let answer = pusher.send(ANDROID).await;
        assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Unknown, "connection_lost"));
        assert_eq!(pusher.server.outbox().captures().len(), taken);
    }
}

/// An attempt waits at several places, and each wait alone may take 15 seconds. The time limit of the attempt
/// must end any of these waits.
#[tokio::test]
async fn an_attempt_ends_within_its_limit_whether_it_waits_for_a_token_or_for_fcm() {
    let mut pusher = PushWorld::fcm().await;
    pusher.sender = sender_within(Duration::from_millis(500));
    pusher.server.script_oauth(Rule::new(Reaction::Stall));
    // The second attempt waits until the first one times out, and then has no time left for its own call.
    for answer in join_all([pusher.send(ANDROID), pusher.send(ANDROID)]).await {
        assert_eq!(answer.outcome, RETRY, "{answer:?}");
        assert!(answer.code.starts_with("oauth "), "{answer:?}");
    }
    let mut pusher = PushWorld::fcm().await;
    pusher.sender = sender_within(Duration::from_secs(3));
    assert_sent(&pusher.send(ANDROID).await);
    pusher.server.script(Rule::new(Reaction::Stall));
    let answer = pusher.send(ANDROID).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Unknown, "timeout"));
    pusher.server.revoke();
    pusher.server.script_oauth(Rule::new(Reaction::Stall));
    let answer = pusher.send(ANDROID).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (RETRY, "oauth timeout"), "the message was not sent");
    pusher.sender = sender_within(Duration::ZERO);
    assert_eq!(pusher.send(ANDROID).await.outcome, RETRY, "no call starts without time left");
}

#[tokio::test]
async fn another_oauth_server_can_be_configured() {
    let mut pusher = PushWorld::fcm().await;
    let url = pusher.provider.settings["serviceAccount"]["token_uri"].clone();
    pusher.provider.settings["serviceAccount"]["token_uri"] = json!("http://127.0.0.1:1/token");
    pusher.provider.settings["tokenUrl"] = url;
    assert_sent(&pusher.send(ANDROID).await);
}

#[tokio::test]
async fn a_probe_verifies_the_service_account_and_reaches_no_device() {
    let pusher = PushWorld::fcm().await;
    pusher.server.set_clock(service_kit::clock::now());
    let (outbound, mut provider) = (Outbound::new(true), pusher.provider.clone());
    let proved = probe(outbound, &provider).await.unwrap();
    assert!(proved.contains("demo-project"), "{proved}");
    let other = PushWorld::fcm().await.provider.settings["serviceAccount"]["private_key"].clone();
    let own = std::mem::replace(&mut provider.settings["serviceAccount"]["private_key"], other);
    let refused = probe(outbound, &provider).await.unwrap_err();
    assert_eq!((refused.outcome, refused.code.as_str()), (Outcome::PauseProvider, "oauth 400 invalid_grant"));
    provider.settings["serviceAccount"]["private_key"] = own;
    provider.settings["serviceAccount"]["project_id"] = json!("another-project");
    assert_eq!(probe(outbound, &provider).await.unwrap_err().code, "403 PERMISSION_DENIED");
    assert!(pusher.server.outbox().captures().is_empty());
}

#[tokio::test]
async fn a_message_that_expires_soon_has_a_short_time_to_live() {
    let pusher = PushWorld::fcm().await;
    let mut job = pusher.job(ANDROID, crate::fixture::content());
    job.expires_at = Some(NOW + Duration::from_secs(90));
    assert_sent(&pusher.send_job(&job, NOW).await);
    assert_eq!(crate::fixture::last(pusher.server.outbox())["message"]["android"]["ttl"], "90s");
}
