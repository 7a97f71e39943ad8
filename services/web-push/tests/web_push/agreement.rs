//! The gateway and the worker judge the options of a send by the same rules.

use domain::content::PushContent;
use domain::request::{SendRules, parse_send};
use domain::web_push::too_large;
use domain::{Channel, Reason};
use serde_json::{Value, json};
use service_kit::clock;
use testkit::override_options::of_channel;

use crate::fixture::{PUBLIC_URL, World, hello};

/// The content that the gateway would accept; None if it refuses the send.
fn accepted(option: &str, value: &Value) -> Option<PushContent> {
    let send = json!({
        "notification": {"title": "Hi"}, "sendTo": {"recipients": ["ada"]},
        "override": {"channel": {"webPush": {option: value}}},
    });
    let parsed = parse_send(send, SendRules { now: clock::now(), strict: false }).ok()?;
    let own = parsed.send.overrides.web_push.unwrap_or_default();
    let usual = hello();
    Some(PushContent {
        title: own.title.or(usual.title),
        body: own.body,
        icon: own.icon,
        url: own.url,
        data: own.data,
        options: own.options,
    })
}

#[tokio::test]
async fn no_option_that_the_gateway_accepts_is_refused_without_asking_a_push_service() {
    let world = World::start().await;
    let browser = world.browser().await;
    for (option, good, bad) in of_channel(Channel::WebPush) {
        for value in &bad {
            let text = value.to_string();
            assert!(accepted(option, value).is_none(), "{option}: {}", text.get(..80).unwrap_or(&text));
        }
        for value in &good {
            let content = accepted(option, value).unwrap_or_else(|| panic!("{option}: {value}"));
            let answer = world.send_job(&world.job(browser.endpoint(), content).await).await;
            assert_eq!(answer.refusal, None, "{option}: {answer:?}");
            assert_eq!(answer.code, "201", "{option}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn what_tidings_refuses_itself_is_not_said_to_be_the_push_service() {
    let world = World::start().await;
    let browser = world.browser().await;
    for (option, _, bad) in of_channel(Channel::WebPush) {
        let is_option = ["ttl", "urgency", "topic"].contains(&option);
        for value in bad.iter().filter(|_| is_option) {
            let options = json!({option: value}).as_object().cloned().unwrap();
            let content = PushContent { options, ..hello() };
            let answer = world.send_job(&world.job(browser.endpoint(), content).await).await;
            assert_eq!(answer.refusal, Some(Reason::InvalidContent), "{option}: {value}: {answer:?}");
        }
    }
    let elsewhere = world.job("https://push.elsewhere.example/1", hello()).await;
    assert_eq!(world.send_job(&elsewhere).await.refusal, Some(Reason::InvalidAddress));
    assert_eq!(world.push_service.server().requests(), 0);
}

#[tokio::test]
async fn the_gateway_and_the_worker_draw_the_same_line_for_data_that_no_cut_can_mend() {
    let world = World::start().await;
    let browser = world.browser().await;
    // The length of a link does not depend on the user or the send.
    let sample = credentials::click::url(
        &world.context.links,
        Some(PUBLIC_URL),
        world.app,
        domain::UserNumber(i64::MAX),
        domain::SendId(uuid::Uuid::nil()),
    );
    let sample = sample.await.unwrap();
    let with = |size: usize| {
        let data = json!({"x": "x".repeat(size)}).as_object().cloned().unwrap();
        PushContent { data, ..hello() }
    };
    let judged = |size: usize| too_large(&with(size), sample.as_deref()).is_none();
    let largest = (3_000..4_000).rev().find(|&size| judged(size)).unwrap();
    for (size, refusal) in [(largest, None), (largest + 1, Some(Reason::TooLarge))] {
        let answer = world.send_job(&world.job(browser.endpoint(), with(size)).await).await;
        assert_eq!(answer.refusal, refusal, "{size}: {answer:?}");
    }
}
