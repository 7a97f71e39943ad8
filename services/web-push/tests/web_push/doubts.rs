use domain::{Answer, Outcome};
use stand_ins::http::{Rule, status};
use stand_ins::push_service::Browser;

use crate::fixture::{World, assert_sent, push_service};

async fn answer(world: &World, user: &str, browser: &Browser, code: u16) -> Answer {
    world.push_service.script(Rule::answer(status(code)).to(browser.endpoint()));
    let answer = world.send_to(user, browser).await;
    assert_eq!(answer.code, code.to_string(), "{answer:?}");
    answer
}

/// Makes the push service answer `code` to a message for a new browser of this user, and returns the outcome.
async fn refused(world: &World, user: &str, code: u16) -> Outcome {
    let browser = world.browser_of(user).await;
    answer(world, user, &browser, code).await.outcome
}

#[tokio::test]
async fn subscriptions_for_another_key_of_one_user_do_not_affect_other_users() {
    let world = World::start().await;
    for code in [401, 403].into_iter().cycle().take(50) {
        assert_eq!(refused(&world, "mallory", code).await, Outcome::Failed, "a user counts once");
    }
    let own = world.browser_of("bob").await;
    assert_sent(&world.send_to("bob", &own).await);
}

#[tokio::test]
async fn refusals_for_more_than_a_fifth_of_the_users_pause_the_provider() {
    let mut world = World::start().await;
    for user in ["a", "b", "c", "d"] {
        assert_eq!(refused(&world, user, 403).await, Outcome::Failed, "too few users are affected");
    }
    // Answers that do not concern the signature, such as 400, do not count.
    assert_eq!(refused(&world, "e", 400).await, Outcome::Failed);
    assert_eq!(refused(&world, "e", 401).await, Outcome::PauseProvider);
    assert_eq!(refused(&world, "f", 403).await, Outcome::PauseProvider);
    // If the provider's settings change, a new history begins.
    world.provider.version += 1;
    assert_eq!(refused(&world, "f", 403).await, Outcome::Failed);
}

#[tokio::test]
async fn each_push_service_is_judged_separately() {
    let other = push_service().await;
    let origin = other.url();
    let world = World::with(|config| config.web_push.hosts.push(origin.parse().unwrap())).await;
    credentials::vapid::create(&world.context.store, &world.context.master_key, world.app).await.unwrap();
    let foreign = other.subscribe(None).unwrap();
    let model = world.push_service.subscribe(None).unwrap();
    let endpoint = foreign.endpoint().to_owned();
    world.store(&model, "e", |subscription| subscription.endpoint = endpoint).await;
    for user in ["a", "b", "c", "d"] {
        assert_eq!(refused(&world, user, 403).await, Outcome::Failed);
    }
    other.script(Rule::answer(status(403)));
    assert_eq!(
        world.send_to("e", &foreign).await.outcome,
        Outcome::Failed,
        "the first rejection at the other push service"
    );
    assert_eq!(refused(&world, "e", 403).await, Outcome::PauseProvider);
}
