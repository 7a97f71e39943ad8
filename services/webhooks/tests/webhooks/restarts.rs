//! A killed service loses no message, and a stopping service finishes its calls.

use std::collections::BTreeSet;

use domain::Status;
use service_kit::{Config, Context};
use stand_ins::http::{Reaction, Rule};
use testkit::eventually;
use tokio::runtime::Runtime;

use crate::world::{SOON, World, settings};

/// Starts a service in its own runtime. Shutting the runtime down kills the service at any point.
fn start(config: Config) -> Runtime {
    let runtime = Runtime::new().unwrap();
    runtime.spawn(async move {
        let context = Context::connect(config).await.unwrap();
        context.serve("webhooks", |context| webhooks::run_with(context, settings()));
        context.tasks.stopping().await;
    });
    runtime
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeatedly_killed_service_sends_every_webhook_in_order() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    let config = Config::clone(&world.context.config);
    let mut service = start(config.clone());
    let deliveries = 120_u128;
    for delivery in 1..=deliveries {
        world.settled(delivery, Status::Sent).await;
        world.settled(delivery, Status::Delivered).await;
        if delivery % 30 == 0 {
            let reported = usize::try_from(delivery).unwrap() / 2;
            world.received(reported).await;
            service.shutdown_background();
            service = start(config.clone());
        }
    }
    let received = world.received(usize::try_from(deliveries).unwrap() * 2).await;
    world.messages("pending", 0).await;
    let mut sent = BTreeSet::new();
    for call in received {
        let delivery = call.body["data"]["deliveryId"].as_str().unwrap().to_owned();
        match call.body["type"].as_str() {
            Some("delivery.sent") => assert!(sent.insert(delivery)),
            _ => assert!(sent.contains(&delivery), "the messages of {delivery} arrived out of order"),
        }
    }
    assert_eq!(world.backend.refused(), Vec::<&str>::new());
    service.shutdown_background();
}

#[tokio::test]
async fn a_stopping_service_settles_the_calls_in_progress() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.backend.script(Rule::new(Reaction::Stall));
    world.settled(1, Status::Sent).await;
    world.serve(settings());
    eventually(SOON, "the call is under way", async || (world.backend.rules_left() == 0).then_some(())).await;
    world.context.tasks.stop();
    tokio::time::timeout(SOON, world.context.tasks.finish()).await.unwrap().unwrap();
    let row: (String, Option<String>, bool) =
        sqlx::query_as("SELECT status, last_answer, token IS NULL FROM webhook_message")
            .fetch_one(&world.pool)
            .await
            .unwrap();
    assert_eq!(row, ("pending".to_owned(), Some("timeout".to_owned()), true));
}
