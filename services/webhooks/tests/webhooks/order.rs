//! Messages of one delivery are sent one after the other; deliveries and endpoints do not wait for each other.

use std::collections::HashMap;

use domain::Status;
use stand_ins::http::{Reaction, Rule, status};
use testkit::eventually;

use crate::world::{SOON, World, patient, settings};

#[tokio::test]
async fn webhooks_of_a_delivery_arrive_in_order_despite_failed_calls() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    for delivery in 1..=30 {
        world.settled(delivery, Status::Sent).await;
        world.settled(delivery, Status::Delivered).await;
        world.settled(delivery, Status::Failed).await;
    }
    world.backend.script(Rule::answer(status(500)).times(25));
    world.backend.script(Rule::new(Reaction::CutBefore).times(5));
    world.backend.script(Rule::new(Reaction::CutAfter).times(5));
    world.serve(settings());
    let received = world.received(90).await;
    let mut by_delivery = HashMap::<String, Vec<String>>::new();
    for call in &received {
        let delivery = call.body["data"]["deliveryId"].as_str().unwrap().to_owned();
        by_delivery.entry(delivery).or_default().push(call.body["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(by_delivery.len(), 30);
    for (delivery, reported) in by_delivery {
        assert_eq!(reported, ["delivery.sent", "delivery.delivered", "delivery.failed"], "{delivery}");
    }
    assert_eq!(world.backend.rules_left(), 0);
    world.messages("delivered", 90).await;
}

#[tokio::test]
async fn a_hanging_call_delays_only_webhooks_of_the_same_delivery() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.settled(1, Status::Sent).await;
    world.settled(1, Status::Delivered).await;
    world.backend.script(Rule::new(Reaction::Stall));
    world.serve(patient());
    eventually(SOON, "the first call hangs", async || (world.backend.rules_left() == 0).then_some(())).await;
    for delivery in 2..=20 {
        world.settled(delivery, Status::Sent).await;
    }
    world.messages("delivered", 19).await;
    // End the lease of the hanging call, so that another call sends its message.
    sqlx::query("UPDATE webhook_message SET next_at = now() WHERE token IS NOT NULL")
        .execute(&world.pool)
        .await
        .unwrap();
    let received = world.received(21).await;
    let types: Vec<_> = received.iter().map(|call| call.body["data"]["deliveryId"].clone()).collect();
    assert_eq!(types[19], types[20], "the messages of the hanging delivery are sent last");
    assert_eq!(received[19].body["type"], "delivery.sent");
    assert_eq!(received[20].body["type"], "delivery.delivered");
}

#[tokio::test]
async fn a_hanging_endpoint_has_a_limited_number_of_calls_and_delays_no_other() {
    let mut world = World::start().await;
    world.endpoint("/slow").await;
    world.endpoint("/quick").await;
    world.backend.script(Rule::new(Reaction::Stall).to("/slow").times(10_000));
    let mut settings = settings();
    settings.max_concurrency = 8;
    settings.call_limit = std::time::Duration::from_secs(20);
    settings.pace.lease = std::time::Duration::from_secs(30);
    for delivery in 1..=100 {
        world.settled(delivery, Status::Sent).await;
    }
    world.serve(settings);
    let received = world.received(100).await;
    assert!(received.iter().all(|call| call.path == "/quick"));
    // The service settles a call some time after the endpoint has received it.
    world.messages("delivered", 100).await;
    let under_way: i64 = sqlx::query_scalar("SELECT count(*) FROM webhook_message WHERE token IS NOT NULL")
        .fetch_one(&world.pool)
        .await
        .unwrap();
    assert!(under_way <= 4 + 4, "{under_way}");
    let slow: i64 =
        sqlx::query_scalar("SELECT count(*) FROM webhook_message WHERE status = 'pending' AND attempts > 0")
            .fetch_one(&world.pool)
            .await
            .unwrap();
    assert!(slow <= 4 + 4, "{slow}");
}

#[tokio::test]
async fn several_instances_share_the_work_and_send_each_webhook_once() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    let other = world.another().await;
    world.serve(patient());
    other.serve("webhooks", |context| webhooks::run_with(context, patient()));
    for delivery in 1..=100 {
        world.settled(delivery, Status::Sent).await;
        world.settled(delivery, Status::Delivered).await;
    }
    world.received(200).await;
    world.messages("delivered", 200).await;
    assert_eq!(world.backend.attempts().len(), 200);
    let mut last = HashMap::new();
    for call in world.backend.received() {
        let delivery = call.body["data"]["deliveryId"].to_string();
        if call.body["type"] == "delivery.delivered" {
            assert_eq!(last.get(&delivery), Some(&"sent"), "{delivery}");
        }
        last.insert(delivery, "sent");
    }
    other.tasks.stop();
    other.tasks.finish().await.unwrap();
}
