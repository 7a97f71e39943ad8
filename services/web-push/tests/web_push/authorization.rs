use std::time::Duration;

use credentials::vapid;
use domain::Outcome;
use domain::content::PushContent;
use serde_json::json;
use service_kit::clock;
use worker::{Call, Outbound, Probe};

use crate::fixture::{World, assert_sent, push_service};

#[tokio::test]
async fn a_token_is_used_for_hours_and_renewed_before_it_expires() {
    let second = push_service().await;
    let origin = second.url();
    let mut world = World::with(|config| config.web_push.hosts.push(origin.parse().unwrap())).await;
    let (store, master_key) = (&world.context.store, &world.context.master_key);
    vapid::create(store, master_key, world.app).await.unwrap();
    let key = store.control().vapid_public_key(world.app).await.unwrap().unwrap();
    // The stand-in checks signature, audience, lifetime and contact of every token. For this browser it also checks the
    // key.
    let browser = world.push_service.subscribe(Some(&key)).unwrap();
    world.store(&browser, "ada", |_| {}).await;
    let job = world.job(browser.endpoint(), PushContent::default()).await;
    let hours =
        |hours: u64| Call { now: clock::now() + Duration::from_secs(hours * 3_600), ..world.call(&job) };
    for now in [0, 0, 5, 7, 7] {
        assert_sent(&world.attempt(&hours(now)).await);
    }
    let tokens: Vec<_> = world.header("authorization").into_iter().rev().collect();
    assert_eq!(tokens[0], tokens[1]);
    assert_eq!(tokens[0], tokens[2]);
    assert_ne!(tokens[0], tokens[3]);
    assert_eq!(tokens[3], tokens[4]);

    let elsewhere = second.subscribe(Some(&key)).unwrap();
    let subscription = world.push_service.subscribe(None).unwrap();
    world.store(&subscription, "ada", |stored| stored.endpoint = elsewhere.endpoint().to_owned()).await;
    let answer = world.send(&elsewhere).await;
    assert_eq!(
        answer.code, "400",
        "the push service accepts the token, but the message is for another browser: {answer:?}"
    );
    world.provider.settings = json!({"subject": "https://shop.example/contact"});
    world.provider.version += 1;
    assert_sent(&world.send(&browser).await);
    assert_eq!(world.push_service.outbox().captures()[0].from, "https://shop.example/contact");
}

#[tokio::test]
async fn a_browser_that_subscribed_with_another_key_keeps_its_subscription() {
    let world = World::start().await;
    let browser = world.push_service.subscribe(Some("another key")).unwrap();
    world.store(&browser, "ada", |_| {}).await;
    let answer = world.send(&browser).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Failed, "403"));
    assert!(answer.message.contains("for another key"), "{}", answer.message);
}

#[tokio::test]
async fn without_a_key_pair_no_push_service_is_called() {
    let world = World::with(|_| {}).await;
    let browser = world.browser().await;
    let answer = world.send(&browser).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::PauseProvider, "vapid_key"));
    assert!(answer.message.contains("tidings migrate"), "{}", answer.message);
    // As soon as the app has a key pair, the sender uses it.
    vapid::create(&world.context.store, &world.context.master_key, world.app).await.unwrap();
    assert_sent(&world.send(&browser).await);
    assert_eq!(world.push_service.server().requests(), 1);
}

#[tokio::test]
async fn a_probe_signs_and_verifies_and_states_what_it_did_not_check() {
    let mut world = World::with(|_| {}).await;
    let probe = async |world: &World| {
        let installation = Some((&world.context.store, &world.context.master_key));
        let (provider, outbound) = (&world.provider, Outbound::new(false));
        worker::probe(web_push::KINDS, &Probe { provider, outbound, now: clock::now(), installation }).await
    };
    assert_eq!(probe(&world).await.unwrap_err().code, "vapid_key");
    vapid::create(&world.context.store, &world.context.master_key, world.app).await.unwrap();
    let key = world.context.store.control().vapid_public_key(world.app).await.unwrap().unwrap();
    let proved = probe(&world).await.unwrap();
    assert!(proved.contains(&key) && proved.contains("no push service was called"), "{proved}");
    world.provider.settings = json!({"subject": "nobody"});
    assert_eq!(probe(&world).await.unwrap_err().code, "settings");
    assert_eq!(world.push_service.server().connections(), 0);
}
