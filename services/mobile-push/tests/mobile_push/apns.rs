//! Tests of the connection to APNs and of its credentials.

use std::sync::Arc;

use domain::{DeliveryId, Outcome};
use futures_util::future::join_all;
use serde_json::json;
use stand_ins::apns::{ApnsSettings, refusal};
use stand_ins::http::{Reaction, Rule};
use stand_ins::tls::Authority;
use uuid::Uuid;
use worker::Outbound;

use crate::fixture::{NOW, PHONE, PushWorld, RETRY, assert_sent, content, minutes, probe};

#[tokio::test]
async fn a_push_carries_the_delivery_as_its_id() {
    let pusher = PushWorld::apns().await;
    let answer = pusher.send(PHONE).await;
    let id = Uuid::from_u128(7).to_string();
    assert_eq!(answer.outcome, Outcome::Sent { provider_id: Some(id.clone()) });
    let capture = pusher.server.outbox().captures().remove(0);
    assert_eq!(capture.to, [format!("apns:{PHONE}")]);
    assert_eq!(capture.summary.headers["apns-id"], [id]);
    assert_eq!(capture.summary.subject.as_deref(), Some("Your parcel"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_pushes_of_a_provider_share_one_connection() {
    let settings = ApnsSettings { max_concurrent_streams: Some(50), ..ApnsSettings::default() };
    let pusher = Arc::new(PushWorld::apns_with(settings).await);
    // Send one push first: while the first connection is being opened, the HTTP client may open a second one.
    assert_sent(&pusher.send(PHONE).await);
    let sends = (0..400).map(|number: u128| {
        let pusher = Arc::clone(&pusher);
        tokio::spawn(async move {
            let mut job = pusher.job(PHONE, content());
            job.delivery_id = DeliveryId(Uuid::from_u128(number + 1_000));
            pusher.send_job(&job, NOW).await
        })
    });
    for answer in join_all(sends).await {
        assert_sent(&answer.unwrap());
    }
    assert_eq!(pusher.server.outbox().captures().len(), 401);
    assert_eq!(pusher.server.server().connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_goaway_a_new_connection_is_used_without_loss_or_repetition() {
    let pusher = Arc::new(PushWorld::apns().await);
    assert_sent(&pusher.send(PHONE).await);
    let sends: Vec<_> = (0..300)
        .map(|number: u128| {
            if number % 100 == 50 {
                pusher.server.server().go_away();
            }
            let pusher = Arc::clone(&pusher);
            tokio::spawn(async move {
                let mut job = pusher.job(PHONE, content());
                job.delivery_id = DeliveryId(Uuid::from_u128(number + 1_000));
                let answer = pusher.send_job(&job, NOW).await;
                match answer.outcome {
                    // The request was written while the server was closing the connection, so the server did not report
                    // it as unprocessed.
                    Outcome::Unknown => pusher.send_job(&job, NOW).await,
                    _ => answer,
                }
            })
        })
        .collect();
    for answer in join_all(sends).await {
        assert_sent(&answer.unwrap());
    }
    let captures = pusher.server.outbox().captures();
    let ids: std::collections::HashSet<_> =
        captures.iter().map(|capture| capture.summary.headers["apns-id"].clone()).collect();
    assert_eq!((captures.len(), ids.len()), (301, 301));
    let connections = pusher.server.server().connections();
    assert!((2..=6).contains(&connections), "{connections} connections");
}

#[tokio::test]
async fn a_cut_connection_is_unknown_and_the_next_push_goes_over_a_new_one() {
    let pusher = PushWorld::apns().await;
    assert_sent(&pusher.send(PHONE).await);
    for (reaction, taken) in [(Reaction::CutBefore, 1), (Reaction::CutAfter, 2)] {
        pusher.server.script(Rule::new(reaction));
        let answer = pusher.send(PHONE).await;
        assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Unknown, "connection_lost"));
        assert_eq!(pusher.server.outbox().captures().len(), taken);
    }
    assert_sent(&pusher.send(PHONE).await);
    assert_eq!(pusher.server.server().connections(), 3);
}

#[tokio::test]
async fn an_unreachable_server_is_called_again() {
    let mut pusher = PushWorld::apns().await;
    let free = local_servers::port::free().unwrap();
    pusher.provider.settings["baseUrl"] = json!(format!("http://127.0.0.1:{free}"));
    let answer = pusher.send(PHONE).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (RETRY, "connect"), "{}", answer.message);
    assert!(!answer.message.contains(PHONE));
}

#[tokio::test]
async fn a_provider_token_is_used_for_forty_minutes() {
    let pusher = PushWorld::apns().await;
    for (age, connections) in [(0, 1), (19, 1), (39, 1), (41, 1), (80, 1), (82, 1), (600, 1)] {
        let now = NOW + minutes(age);
        pusher.server.set_clock(now);
        // The stand-in refuses a token that is older than an hour, and a new token within 20 minutes of the last one.
        assert_sent(&pusher.send_at(PHONE, now).await);
        assert_eq!(pusher.server.server().connections(), connections);
    }
}

#[tokio::test]
async fn an_expired_provider_token_is_renewed_and_the_push_repeated_at_once() {
    let pusher = PushWorld::apns().await;
    assert_sent(&pusher.send(PHONE).await);
    let expired = || Rule::answer(refusal(403, "ExpiredProviderToken", None));
    let later = NOW + minutes(25);
    pusher.server.set_clock(later);
    pusher.server.script(expired());
    assert_sent(&pusher.send_at(PHONE, later).await);
    assert_eq!(pusher.server.outbox().captures().len(), 2);

    // It is too soon for another new token, so the push is not repeated at once. The delivery is retried once, later.
    pusher.server.script(expired());
    let answer = pusher.send_at(PHONE, later + minutes(1)).await;
    assert!(matches!(answer.outcome, Outcome::Retry { limit: Some(_), .. }), "{answer:?}");
    assert_eq!(pusher.server.server().requests(), 4);
}

#[tokio::test]
async fn concurrent_pushes_renew_a_provider_token_once() {
    let pusher = PushWorld::apns().await;
    assert_sent(&pusher.send(PHONE).await);
    let later = NOW + minutes(30);
    pusher.server.set_clock(later);
    pusher.server.script(Rule::answer(refusal(403, "ExpiredProviderToken", None)).times(20));
    // If two pushes renewed the token, the stand-in would refuse the second token.
    for answer in join_all((0..20).map(|_| pusher.send_at(PHONE, later))).await {
        assert_ne!(answer.code, "429 TooManyProviderTokenUpdates");
    }
    assert_sent(&pusher.send_at(PHONE, later).await);
}

#[tokio::test]
async fn a_certificate_replaces_tokens() {
    let authority = Authority::new().unwrap();
    let tls = Some(authority.server_for_clients(&["h2"]));
    let settings = ApnsSettings { tls, by_certificate: true, ..ApnsSettings::default() };
    let mut pusher = PushWorld::apns_with(settings).await;
    let topic = pusher.provider.settings["topic"].clone();
    let client = authority.client();
    pusher.provider.settings = json!({
        "environment": "production", "baseUrl": pusher.server.server().url(), "topic": topic,
        "certificate": client.certificate, "key": client.key, "caCertificate": authority.pem(),
    });
    assert_sent(&pusher.send(PHONE).await);
    let headers = &pusher.server.outbox().captures()[0].summary.headers;
    assert!(!headers.contains_key("authorization"));

    pusher.provider.version += 1;
    pusher.provider.settings["caCertificate"] = json!(null);
    let answer = pusher.send(PHONE).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (RETRY, "connect"), "the authority is not trusted");
}

#[tokio::test]
async fn a_probe_verifies_the_credential_and_reaches_no_device() {
    let pusher = PushWorld::apns().await;
    let outbound = Outbound::new(true);
    let mut provider = pusher.provider.clone();
    pusher.server.set_clock(service_kit::clock::now());
    let proved = probe(outbound, &provider).await.unwrap();
    assert!(proved.contains("com.example.demo"), "{proved}");
    provider.settings["keyId"] = json!("OTHERKEY01");
    let refused = probe(outbound, &provider).await.unwrap_err();
    assert_eq!(
        (refused.outcome, refused.code.as_str()),
        (Outcome::PauseProvider, "403 InvalidProviderToken")
    );
    let other = PushWorld::apns().await.provider.settings["key"].clone();
    provider.settings["keyId"] = pusher.provider.settings["keyId"].clone();
    provider.settings["key"] = other;
    assert_eq!(probe(outbound, &provider).await.unwrap_err().code, "403 InvalidProviderToken");
    provider.settings["topic"] = json!("com.example.other");
    provider.settings["key"] = pusher.provider.settings["key"].clone();
    assert_eq!(probe(outbound, &provider).await.unwrap_err().code, "400 TopicDisallowed");
    assert!(pusher.server.outbox().captures().is_empty());
    assert!(probe(Outbound::new(false), &pusher.provider).await.is_err(), "the address is private");
}

#[tokio::test]
async fn a_token_that_could_change_the_path_is_refused() {
    let pusher = PushWorld::apns().await;
    for token in ["", "../x", "a/b", "a?b", "a b", "%2e", &"a".repeat(500)] {
        let answer = pusher.send(token).await;
        assert_eq!((&answer.outcome, answer.code.as_str()), (&Outcome::GONE, "token"), "{token}");
    }
    assert_eq!(pusher.server.server().requests(), 0);
}
