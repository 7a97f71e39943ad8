//! Call slots that send several messages one after another.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::Status;
use stand_ins::http::{Reaction, Rule, status};
use store::webhooks::Pace;
use webhooks::Settings;

use crate::world::{World, patient, settings};

/// Deliveries whose outcomes make the endpoint's slots deep.
const QUICK: u128 = 64;

/// One call at a time, so that all messages are in one slot.
fn one_slot() -> Settings {
    Settings {
        call_limit: Duration::from_secs(20),
        slot_limit: Duration::from_millis(300),
        pace: Pace { per_endpoint: 1, lease: Duration::from_secs(60), ..settings().pace },
        ..settings()
    }
}

impl World {
    async fn settle_all(&self, deliveries: impl Iterator<Item = u128>) {
        for delivery in deliveries {
            self.settled(delivery, Status::Sent).await;
        }
    }

    async fn run(&self, statement: &'static str) {
        sqlx::raw_sql(statement).execute(&self.pool).await.unwrap();
    }
}

#[tokio::test]
async fn messages_behind_a_hanging_call_are_released_for_another_call() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    let mut settings = one_slot();
    settings.pace.per_endpoint = 2;
    world.settle_all(1..=QUICK).await;
    world.serve(settings);
    world.messages("delivered", 64).await;
    // One call hangs until its time limit. The messages behind it in its slot go out in other slots, long before.
    world.backend.script(Rule::new(Reaction::Stall));
    world.settle_all(1_001..=1_040).await;
    world.messages("delivered", 64 + 39).await;
    assert_eq!(world.count("pending").await, 1, "the message of the hanging call");
    let repeated = world.number("SELECT count(*) FROM webhook_message WHERE attempts > 1").await;
    assert_eq!(repeated, 0, "a message that was given back has lost no attempt");
}

#[tokio::test]
async fn a_slot_stops_at_the_first_failure() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    let mut settings = one_slot();
    settings.pace.failures = 1;
    world.settle_all(1..=QUICK).await;
    world.serve(settings);
    world.messages("delivered", 64).await;
    world.backend.clear();
    // All messages are due at once. After the first failure, the endpoint is paused for an hour.
    world.backend.script(Rule::answer(status(503)).times(100));
    world.run("UPDATE webhook_endpoint SET paused_until = now() + interval '1 hour'").await;
    world.settle_all(1_001..=1_040).await;
    world.followed().await;
    world.run("UPDATE webhook_endpoint SET paused_until = NULL").await;
    world.paused().await;
    assert_eq!(world.backend.attempts().len(), 1);
}

#[tokio::test]
async fn several_slots_send_each_message_once() {
    let mut world = World::start().await;
    for path in ["/a", "/b"] {
        world.endpoint(path).await;
    }
    world.settle_all(1..=500).await;
    // Two processes share the work.
    world.serve(patient());
    world.serve(patient());
    world.messages("delivered", 1_000).await;
    let attempts = world.backend.attempts();
    let ids: BTreeSet<_> = attempts.iter().collect();
    assert_eq!((attempts.len(), ids.len()), (1_000, 1_000));
}
