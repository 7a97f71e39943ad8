//! Limits on the use of a provider and of a lane.

use domain::{Outcome, Route, Status};
use service_kit::clock;
use testkit::eventually;

use crate::scripted::{ScriptedChannel, Step, overloaded};
use crate::world::{SOON, World};

#[tokio::test]
async fn a_hanging_provider_does_not_use_up_the_concurrency_of_others() {
    let world = World::with(|config| config.delivery.max_concurrency = 4).await;
    world.provider("second", None).await;
    let scripted = ScriptedChannel::new((0..3).map(|_| Step::Hold(Outcome::Failed)));
    world.serve(&scripted);
    for number in 1..=5 {
        let order = world.delivery(number).await;
        world.order(&order).await;
    }
    eventually(SOON, "jobs without a slot are postponed", async || {
        let postponed = world.count("SELECT count(*) FROM timer WHERE due_at > created_at").await;
        (scripted.calls().len() == 3 && postponed == 2).then_some(())
    })
    .await;
    let mut elsewhere = world.delivery(6).await;
    elsewhere.route = Route { only: Some("second".to_owned()), ..Route::default() };
    world.order(&elsewhere).await;
    world.reaches(elsewhere.delivery_id, Status::Sent).await;
    assert_eq!(scripted.calls().len(), 4);
    scripted.release();
}

#[tokio::test]
async fn no_more_calls_are_made_in_a_second_than_the_provider_allows() {
    let world = World::start().await;
    world.run("UPDATE provider SET max_per_second = 1").await;
    let scripted = ScriptedChannel::new([]);
    for number in 1..=6 {
        let order = world.delivery(number).await;
        world.order(&order).await;
    }
    world.serve(&scripted);
    world.acknowledged(6).await;
    let (calls, timers) = (scripted.calls().len(), world.count("SELECT count(*) FROM timer").await);
    assert_eq!(i64::try_from(calls).unwrap() + timers, 6);
    assert!(timers >= 3, "{timers}");
    let apart = "SELECT count(*) FROM timer a JOIN timer b ON a.id < b.id
                 WHERE abs(extract(epoch FROM a.due_at - b.due_at)) < 0.9";
    assert_eq!(world.count(apart).await, 0, "postponed calls are spaced out");
}

#[tokio::test]
async fn a_job_postponed_beyond_its_expiry_ends_at_that_time() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new(overloaded());
    world.serve(&scripted);
    world.overload().await;
    let mut order = world.delivery(1).await;
    let expires_at = clock::now() + SOON;
    order.expires_at = Some(expires_at);
    world.order(&order).await;
    world.acknowledged(11).await;
    let due_at = "SELECT (extract(epoch FROM due_at) * 1000)::bigint FROM timer";
    assert_eq!(world.count(due_at).await, expires_at.millis());

    order.expires_at = Some(clock::now());
    world.run("UPDATE delivery SET expires_at = now() WHERE user_number = 1").await;
    world.order(&order).await;
    world.acknowledged(12).await;
    world.reaches(order.delivery_id, Status::Expired).await;
    assert_eq!(scripted.calls().len(), 10);
}
