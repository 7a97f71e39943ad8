use std::time::Duration;

use domain::content::{Content, SmsContent};
use domain::event::DeliveryJob;
use domain::web_push::PushHost;
use domain::{Answer, Outcome};
use service_kit::clock;

use crate::fixture::{USER, World, assert_sent, hello};

#[track_caller]
fn assert_ends(answer: &Answer, outcome: &Outcome, code: &str) {
    assert_eq!((&answer.outcome, answer.code.as_str()), (outcome, code), "{answer:?}");
}

#[tokio::test]
async fn a_missing_subscription_fails_without_a_call_and_is_not_suppressed() {
    let world = World::start().await;
    let (store, app) = (&world.context.store, world.app);
    let browser = world.browser().await;
    let device = &browser.endpoint()[browser.endpoint().len() - 8..];
    assert_sent(&world.send(&browser).await);
    let calls = || world.push_service.server().requests();
    assert_eq!(calls(), 1);

    assert!(store.directory().unsubscribe(app, USER, device).await.unwrap());
    assert_ends(&world.send(&browser).await, &Outcome::Failed, "unsubscribed");
    // Another user signs in with the same browser. From then on the browser must not get messages for the first user.
    world.store(&browser, "bob", |_| {}).await;
    assert_ends(&world.send(&browser).await, &Outcome::Failed, "unsubscribed");
    let long_ago = clock::now() + Duration::ZERO;
    world.store(&browser, USER, |subscription| subscription.expires_at = Some(long_ago)).await;
    assert_ends(&world.send(&browser).await, &Outcome::Failed, "unsubscribed");
    assert_eq!(calls(), 1);

    let later = clock::now() + Duration::from_secs(3_600);
    world.store(&browser, USER, |subscription| subscription.expires_at = Some(later)).await;
    assert_sent(&world.send(&browser).await);
}

#[tokio::test]
async fn an_endpoint_is_checked_again_before_it_is_called() {
    let mut world = World::start().await;
    let browser = world.browser().await;
    let origin = world.push_service.url();
    for endpoint in [
        browser.endpoint().replace("http://", "https://"),
        browser.endpoint().replace("127.0.0.1", "localhost"),
        browser.endpoint().replace("127.0.0.1", "user@127.0.0.1"),
        format!("{origin}@evil.example/"),
        "https://evil.example/a".to_owned(),
        "https://fcm.googleapis.com:8443/a".to_owned(),
        "https://10.0.0.1/a".to_owned(),
        String::new(),
    ] {
        let job = world.job(&endpoint, hello()).await;
        assert_ends(&world.send_job(&job).await, &Outcome::Failed, "endpoint_refused");
    }
    assert_sent(&world.send(&browser).await);
    // The configuration no longer names the push service, so the sender must not call it.
    let mut config = service_kit::Config::clone(&world.context.config);
    config.web_push.hosts = PushHost::known();
    let mut context = world.context.clone();
    context.config = config.into();
    world.sender = web_push::WebPushSender::new(&context).unwrap();
    assert_ends(&world.send(&browser).await, &Outcome::Failed, "endpoint_refused");
    assert_eq!(world.push_service.server().connections(), 1);
}

#[tokio::test]
async fn a_private_address_is_called_only_if_allowed() {
    let world = World::with(|config| config.outbound.allow_private = false).await;
    credentials::vapid::create(&world.context.store, &world.context.master_key, world.app).await.unwrap();
    let browser = world.browser().await;
    let answer = world.send(&browser).await;
    assert_ends(&answer, &Outcome::Failed, "not_public");
    assert!(answer.message.contains("not a public address"), "{answer:?}");
    assert_eq!(world.push_service.server().connections(), 0);
}

#[tokio::test]
async fn a_name_of_a_private_address_is_treated_like_the_address() {
    let world = World::with(|config| {
        config.outbound.allow_private = false;
        config.web_push.hosts.push("localhost".parse().unwrap());
    })
    .await;
    credentials::vapid::create(&world.context.store, &world.context.master_key, world.app).await.unwrap();
    let browser = world.push_service.subscribe(None).unwrap();
    let named = "https://localhost/push/7";
    world.store(&browser, USER, |subscription| subscription.endpoint = named.to_owned()).await;
    let answer = world.send_job(&world.job(named, hello()).await).await;
    assert_ends(&answer, &Outcome::Failed, "not_public");
}

#[tokio::test]
async fn content_of_another_channel_fails() {
    let world = World::start().await;
    let browser = world.browser().await;
    let job = world.job(browser.endpoint(), hello()).await;
    let job = DeliveryJob { content: Content::Sms(SmsContent::default()), ..job };
    assert_ends(&world.send_job(&job).await, &Outcome::Failed, "content");
}
