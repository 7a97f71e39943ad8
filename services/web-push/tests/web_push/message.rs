use std::time::Duration;

use credentials::link::{Link, Purpose};
use domain::content::PushContent;
use domain::event::DeliveryJob;
use domain::{Lane, Outcome};
use serde_json::{Value, json};
use service_kit::clock;
use web_push::MAX_PLAINTEXT;
use worker::Call;

use crate::fixture::{PUBLIC_URL, SEND, USER, World, assert_sent, hello};

fn content(content: &Value) -> PushContent {
    serde_json::from_value(content.clone()).unwrap()
}

#[tokio::test]
async fn the_browser_receives_the_content_of_the_send() {
    let world = World::start().await;
    let browser = world.browser().await;
    let said = json!({
        "title": "Grüße", "body": "Your parcel", "icon": "/i.png", "url": "https://shop.example/7", "data": {"n": [1]},
    });
    let job = world.job(browser.endpoint(), content(&said)).await;
    let answer = world.send_job(&job).await;
    assert_eq!(answer.outcome, Outcome::Sent { provider_id: Some("1".to_owned()) });
    assert_eq!(answer.code, "201");

    let capture = world.push_service.outbox().captures().remove(0);
    let message: Value = serde_json::from_slice(&browser.decrypt(&capture.raw).unwrap()).unwrap();
    let click_url = message["clickUrl"].as_str().unwrap();
    let expected = json!({
        "title": "Grüße", "body": "Your parcel", "icon": "/i.png", "url": "https://shop.example/7", "data": {"n": [1]},
        "deliveryId": job.delivery_id, "requestId": SEND, "clickUrl": click_url,
    });
    assert_eq!(message, expected);
    assert_eq!(
        (capture.from.as_str(), &capture.to[..]),
        ("mailto:push@example.com", &[job.target.clone()][..])
    );

    let token = click_url.strip_prefix(&format!("{PUBLIC_URL}/v3/push/click/")).unwrap();
    let link = Link { app: world.app, user: world.user(USER).await, purpose: Purpose::Click(SEND) };
    assert_eq!(world.context.links.verify(token).await.unwrap(), Some(link));
    let other = world.browser().await;
    assert!(other.decrypt(&capture.raw).is_err());
}

#[tokio::test]
async fn members_without_a_value_are_left_out() {
    let world = World::with(|config| config.gateway.public_url = None).await;
    credentials::vapid::create(&world.context.store, &world.context.master_key, world.app).await.unwrap();
    let browser = world.browser().await;
    let job = world.job(browser.endpoint(), hello()).await;
    assert_sent(&world.attempt(&Call { send_id: None, ..world.call(&job) }).await);
    assert_eq!(world.received()[0], json!({"title": "Hello", "deliveryId": job.delivery_id}));
}

#[tokio::test]
async fn a_message_may_fill_the_body_but_not_exceed_it() {
    let world = World::start().await;
    let browser = world.browser().await;
    assert_sent(&world.send(&browser).await);
    let empty = serde_json::to_vec(&world.received()[0]).unwrap().len() - "Hello".len();
    let titled = |length: usize| PushContent { title: Some("a".repeat(length)), ..PushContent::default() };
    let job = world.job(browser.endpoint(), titled(MAX_PLAINTEXT - empty)).await;
    assert_sent(&world.send_job(&job).await);
    assert_eq!(world.push_service.outbox().captures()[0].raw.len(), 4096);

    let job = world.job(browser.endpoint(), titled(MAX_PLAINTEXT - empty + 1)).await;
    let answer = world.send_job(&job).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Failed, "too_large"));
    assert!(answer.message.contains("3994 bytes"), "{}", answer.message);
    assert_eq!(world.push_service.server().requests(), 2);
}

#[tokio::test]
async fn a_body_that_is_too_long_is_cut_between_characters_as_on_phones() {
    let world = World::start().await;
    let browser = world.browser().await;
    let body = "Glückwunsch 👨‍👩‍👧‍👦\n".repeat(200);
    let long =
        PushContent { title: Some("Hello".to_owned()), body: Some(body.clone()), ..PushContent::default() };
    let job = world.job(browser.endpoint(), long).await;
    let answer = world.send_job(&job).await;
    assert_sent(&answer);
    assert!((4_050..=4_096).contains(&world.push_service.outbox().captures()[0].raw.len()));
    let received = world.received()[0]["body"].as_str().unwrap().to_owned();
    let kept = received.strip_suffix('…').unwrap();
    assert!(body.starts_with(kept));
    // No part of a family is left.
    assert_eq!(kept.matches('👨').count(), kept.matches('👦').count());
    let note = format!("Tidings cut the body from {} to {} bytes", body.len(), received.len());
    assert!(answer.message.starts_with(&note), "{}", answer.message);
}

/// Sends a message, and returns its TTL, urgency and topic.
async fn headers(world: &World, call: &Call<'_>) -> (String, String, String) {
    assert_sent(&world.attempt(call).await);
    let [ttl, urgency, topic] = ["ttl", "urgency", "topic"].map(|name| world.header(name).remove(0));
    (ttl, urgency, topic)
}

fn three(ttl: &str, urgency: &str, topic: &str) -> (String, String, String) {
    (ttl.to_owned(), urgency.to_owned(), topic.to_owned())
}

#[tokio::test]
async fn options_of_the_send_override_the_provider_which_overrides_the_lane() {
    let mut world = World::start().await;
    let browser = world.browser().await;
    let job = world.job(browser.endpoint(), hello()).await;
    let topic = job.delivery_id.0.simple().to_string();
    assert_eq!(headers(&world, &world.call(&job)).await, three("2419200", "high", &topic));
    let bulk = Call { lane: Lane::Bulk, ..world.call(&job) };
    assert_eq!(headers(&world, &bulk).await, three("2419200", "normal", &topic));

    world.provider.settings = json!({"subject": "https://shop.example", "ttl": 600, "urgency": "low"});
    world.provider.version += 1;
    assert_eq!(headers(&world, &world.call(&job)).await, three("600", "low", &topic));
    let call = world.call(&job);
    let until =
        |after: u64| DeliveryJob { expires_at: Some(call.now + Duration::from_secs(after)), ..job.clone() };
    for (after, ttl) in [(7, "7"), (3_600, "3600"), (90 * 86_400, "2419200")] {
        let job = until(after);
        assert_eq!(headers(&world, &Call { job: &job, ..call }).await, three(ttl, "low", &topic));
    }

    let mut asked = hello();
    let options = json!({"ttl": 60, "urgency": "very-low", "topic": "basket"});
    asked.options = options.as_object().cloned().unwrap();
    let job = world.job(browser.endpoint(), asked).await;
    assert_eq!(headers(&world, &world.call(&job)).await, three("60", "very-low", "basket"));
    let job = DeliveryJob { expires_at: Some(clock::now() + Duration::from_millis(7_900)), ..job };
    let ttl = headers(&world, &world.call(&job)).await.0.parse::<u32>().unwrap();
    assert!(ttl <= 7, "{ttl}");
}

#[tokio::test]
async fn a_repeated_attempt_replaces_an_undelivered_message() {
    let world = World::start().await;
    let browser = world.browser().await;
    let job = world.job(browser.endpoint(), hello()).await;
    for _ in 0..2 {
        assert_sent(&world.send_job(&job).await);
    }
    assert_sent(&world.send(&browser).await);
    let waiting = world.push_service.waiting(&browser);
    assert_eq!(waiting.len(), 2);
    assert_eq!(waiting[0].topic, Some(job.delivery_id.0.simple().to_string()));
}

#[tokio::test]
async fn invalid_push_options_of_a_send_fail() {
    let world = World::start().await;
    let browser = world.browser().await;
    let mut asked = hello();
    asked.options = json!({"topic": "a b", "ttl": "soon"}).as_object().cloned().unwrap();
    let answer = world.send_job(&world.job(browser.endpoint(), asked).await).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Failed, "override"));
    assert!(answer.message.contains("webPush.topic") && answer.message.contains("webPush.ttl"));
    assert!(world.received().is_empty());
}
