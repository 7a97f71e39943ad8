//! A killed service loses no message, and a stopping service finishes its calls.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::event::AllItemsChanged;
use domain::inbox::AllChange;
use domain::{Event, ItemId, Status, StreamName, UserNumber};
use service_kit::{Config, Context};
use sqlx::PgExecutor;
use stand_ins::http::{Reaction, Rule};
use store::webhooks::WEBHOOKS;
use testkit::eventually;
use tokio::runtime::Runtime;
use uuid::Uuid;
use webhooks::Settings;

use crate::world::{SOON, World, settings};

/// Starts a service in its own runtime. Shutting the runtime down kills the service wherever it is in its work.
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

impl World {
    /// Adds a message that became due five seconds ago, which a recent look finds.
    async fn add_late(&self, endpoint: i64) {
        self.add_late_with(endpoint, &self.pool).await;
    }

    /// Adds a message as a process leaves it that takes its wake, passes it over and is killed.
    async fn add_passed_over(&self, endpoint: i64) {
        let mut transaction = self.pool.begin().await.unwrap();
        self.add_late_with(endpoint, &mut *transaction).await;
        sqlx::query("DELETE FROM webhook_wake").execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
    }

    async fn add_late_with(&self, endpoint: i64, executor: impl PgExecutor<'_>) {
        sqlx::query(
            r#"INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body, next_at)
             VALUES ($1, $2, gen_random_uuid(), gen_random_uuid(), 'delivery.sent', '{"data": {}}', now() - interval '5 seconds')"#,
        )
        .bind(self.app.0)
        .bind(endpoint)
        .execute(executor)
        .await
        .unwrap();
    }

    /// Publishes the outcomes of five deliveries, and removes the first three.
    async fn remove_three_of_five(&self) {
        for delivery in 1..=5 {
            self.settled(delivery, Status::Sent).await;
        }
        assert_eq!(self.context.log.purge_below(StreamName::Outcome, 4).await.unwrap(), 3);
    }

    /// Waits for the messages about these deliveries, and checks that there are no others.
    async fn reported(&self, deliveries: &[u128]) {
        let received = self.received(deliveries.len()).await;
        let reported: Vec<_> = received.iter().map(|call| call.body["data"]["deliveryId"].clone()).collect();
        let expected: Vec<_> = deliveries.iter().map(|&id| Uuid::from_u128(id).to_string()).collect();
        assert_eq!(reported, expected);
    }
}

#[tokio::test]
async fn a_message_that_became_due_before_the_position_of_the_service_is_sent() {
    let mut world = World::start().await;
    let endpoint = world.endpoint("/hooks").await;
    world.serve(settings());
    world.settled(1, Status::Sent).await;
    world.received(1).await;
    world.add_late(endpoint).await;
    world.received(2).await;
    world.messages("pending", 0).await;
}

#[tokio::test]
async fn a_new_process_sends_messages_that_another_one_has_passed_over() {
    let mut world = World::start().await;
    let endpoint = world.endpoint("/hooks").await;
    world.add_passed_over(endpoint).await;
    world.serve(settings());
    world.received(1).await;
}

#[tokio::test]
async fn a_running_process_sends_messages_that_a_killed_one_had_passed_over() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.serve(Settings { wake_every: Duration::from_millis(100), ..settings() });
    world.settled(1, Status::Sent).await;
    world.received(1).await;
    world.messages("pending", 0).await;
    eventually(SOON, "no app is awake", async || {
        ((*world).count("SELECT count(*) FROM webhook_wake").await == 0).then_some(())
    })
    .await;
    // Of an endpoint for which the running process has never searched.
    let endpoint = world.endpoint("/other-hooks").await;
    world.add_passed_over(endpoint).await;
    world.received(2).await;
    world.messages("pending", 0).await;
}

#[tokio::test]
async fn a_first_start_on_a_log_that_has_removed_events_reports_those_that_the_log_still_holds() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.remove_three_of_five().await;
    // This stream has lost all of its events.
    let all = AllItemsChanged { user: UserNumber(1), up_to: ItemId(20) };
    let read = Event::InboxAllChanged(AllChange::Read, all);
    world.publish_event(read).await;
    world.context.log.purge_below(StreamName::Inbox(0), 2).await.unwrap();
    world.serve(settings());
    world.reported(&[4, 5]).await;
    world.settled(6, Status::Sent).await;
    world.reported(&[4, 5, 6]).await;
    world.messages("pending", 0).await;
}

#[tokio::test]
async fn events_that_are_removed_during_the_first_start_are_skipped_too() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    // The process that stored this checkpoint ended before it read an event.
    let database = world.context.store.database();
    assert!(database.start_checkpoint(WEBHOOKS, StreamName::Outcome, 1).await.unwrap());
    world.remove_three_of_five().await;
    world.serve(settings());
    world.reported(&[4, 5]).await;
}

#[tokio::test]
async fn a_service_that_has_processed_events_refuses_a_log_that_lacks_later_ones() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.serve(settings());
    world.settled(9, Status::Sent).await;
    world.followed().await;
    world.context.tasks.stop();
    tokio::time::timeout(SOON, world.context.tasks.finish()).await.unwrap().unwrap();
    world.settled(1, Status::Sent).await;
    world.settled(2, Status::Sent).await;
    world.context.log.purge_below(StreamName::Outcome, 3).await.unwrap();
    let again = world.another().await;
    again.serve("webhooks", |context| webhooks::run_with(context, settings()));
    tokio::time::timeout(SOON, again.tasks.stopping()).await.unwrap();
    let error = again.tasks.finish().await.unwrap_err();
    assert_eq!(error.to_string(), "webhook follower failed");
}
