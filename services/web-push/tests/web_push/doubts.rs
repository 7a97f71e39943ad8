use domain::Outcome;
use testkit::http::{Rule, status};

use crate::fixture::{World, assert_sent, push_service};

async fn refused(world: &World, browser: &testkit::push_service::Browser, code: u16) -> Outcome {
    world.push_service.script(Rule::answer(status(code)).to(browser.endpoint()));
    let answer = world.send(browser).await;
    assert_eq!(answer.code, code.to_string(), "{answer:?}");
    answer.outcome
}

#[tokio::test]
async fn a_subscription_for_another_key_stops_nobody_else() {
    let world = World::start().await;
    let (foreign, own) = (world.browser().await, world.browser().await);
    for _ in 0..40 {
        assert_sent(&world.send(&own).await);
    }
    for code in [401, 403, 403, 401, 403, 403, 403, 403, 403, 403] {
        assert_eq!(refused(&world, &foreign, code).await, Outcome::Failed, "no more than a fifth");
    }
    assert_sent(&world.send(&foreign).await);
}

#[tokio::test]
async fn when_more_than_a_fifth_is_refused_the_key_is_at_fault() {
    let mut world = World::start().await;
    let browser = world.browser().await;
    for _ in 0..4 {
        assert_eq!(refused(&world, &browser, 403).await, Outcome::Failed, "a few prove nothing");
    }
    // Other answers do not count.
    assert_eq!(refused(&world, &browser, 400).await, Outcome::Failed);
    assert_eq!(refused(&world, &browser, 401).await, Outcome::PauseProvider);
    assert_eq!(refused(&world, &browser, 403).await, Outcome::PauseProvider);
    // Settings that were changed are judged by their own sends.
    world.provider.version += 1;
    assert_eq!(refused(&world, &browser, 403).await, Outcome::Failed);
}

#[tokio::test]
async fn each_push_service_is_judged_by_itself() {
    let other = push_service().await;
    let origin = other.url();
    let world = World::with(|config| config.web_push.hosts.push(origin.parse().unwrap())).await;
    service_kit::vapid::create(&world.context.store, &world.context.master_key, world.app).await.unwrap();
    let (foreign, browser) = (other.subscribe(None).unwrap(), world.browser().await);
    let model = world.push_service.subscribe(None).unwrap();
    let endpoint = foreign.endpoint().to_owned();
    world.store(&model, crate::fixture::USER, |subscription| subscription.endpoint = endpoint).await;
    for _ in 0..4 {
        assert_eq!(refused(&world, &browser, 403).await, Outcome::Failed);
    }
    other.script(Rule::answer(status(403)));
    assert_eq!(world.send(&foreign).await.outcome, Outcome::Failed, "the first of its own");
    assert_eq!(refused(&world, &browser, 403).await, Outcome::PauseProvider);
}
