//! Endpoints that refuse messages, request a delay, are gone permanently, or are down.

use std::time::Duration;

use domain::{Actor, Status};
use hyper::header::{HeaderValue, RETRY_AFTER};
use service_kit::Config;
use service_kit::config::Webhooks;
use stand_ins::http::{Rule, status};
use store::webhooks::PruneFrom;
use testkit::eventually;
use webhooks::Settings;

use crate::world::{SOON, World, settings};

#[tokio::test]
async fn a_webhook_whose_attempts_all_fail_is_listed_as_failed_and_can_be_redelivered() {
    let mut world = World::start().await;
    let endpoint = world.endpoint("/hooks").await;
    world.backend.script(Rule::answer(status(503)).times(7));
    world.settled(1, Status::Sent).await;
    world.settled(1, Status::Delivered).await;
    world.serve(settings());
    let received = world.received(1).await;
    assert_eq!(
        received[0].body["type"], "delivery.delivered",
        "a failed message does not block the next one"
    );
    world.messages("failed", 1).await;
    let failed = world.context.store.webhooks().failed_webhooks(world.app, Some(endpoint), 10).await.unwrap();
    assert_eq!((failed.len(), failed[0].attempts, failed[0].last_answer.as_str()), (1, 7, "503"));
    assert_eq!(
        (failed[0].event.as_str(), failed[0].url.as_str()),
        ("delivery.sent", world.backend.url("/hooks").as_str())
    );
    let attempts = world.backend.attempts();
    assert!(attempts[..7].iter().all(|id| *id == attempts[0]), "every attempt has the same id");

    let ids = [failed[0].id];
    let redelivered = world
        .context
        .store
        .webhooks()
        .redeliver_webhooks(world.app, None, Some(&ids), &Actor::System)
        .await
        .unwrap();
    assert_eq!(redelivered, 1);
    let received = world.received(2).await;
    assert_eq!((&received[1].id, received[1].body["type"].as_str()), (&attempts[0], Some("delivery.sent")));
    assert_eq!(
        world
            .context
            .store
            .webhooks()
            .redeliver_webhooks(world.app, None, None, &Actor::System)
            .await
            .unwrap(),
        0
    );
}

#[tokio::test]
async fn retry_after_is_honoured_for_the_message_and_its_endpoint() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    let mut busy = status(429);
    busy.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("900"));
    world.backend.script(Rule::answer(busy));
    world.settled(1, Status::Sent).await;
    world.serve(settings());
    let wait = |column: &'static str| {
        let statement = match column {
            "message" => {
                "SELECT extract(epoch FROM next_at - now())::float8 FROM webhook_message WHERE token IS NULL AND attempts = 1"
            }
            _ => {
                "SELECT extract(epoch FROM paused_until - now())::float8 FROM webhook_endpoint WHERE failures = 1"
            }
        };
        let pool = world.pool.clone();
        async move {
            let wait: Option<f64> = sqlx::query_scalar(statement).fetch_optional(&pool).await.unwrap();
            wait
        }
    };
    let message = eventually(SOON, "the message waits", async || wait("message").await).await;
    assert!((800.0..=901.0).contains(&message), "{message}");
    let endpoint = eventually(SOON, "the endpoint is paused", async || wait("endpoint").await).await;
    assert!((800.0..=901.0).contains(&endpoint), "{endpoint}");
    world.settled(2, Status::Sent).await;
    world.followed().await;
    assert_eq!((world.count("pending").await, world.backend.attempts().len()), (2, 1));
}

#[tokio::test]
async fn an_endpoint_that_answers_410_is_disabled_until_it_is_set_again() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.backend.script(Rule::answer(status(410)));
    world.settled(1, Status::Sent).await;
    world.serve(settings());
    world.messages("failed", 1).await;
    let listed = world.context.store.webhooks().endpoints(world.app).await.unwrap();
    assert_eq!((listed[0].disabled.as_ref().unwrap().1.as_str(), listed[0].failed), ("gone", 1));
    world.settled(2, Status::Sent).await;
    world.followed().await;
    assert_eq!(world.count("pending").await, 0, "no message is written for a disabled endpoint");

    let url = world.backend.url("/hooks");
    let draft = world
        .context
        .store
        .webhooks()
        .put_endpoint(world.app, &url, &listed[0].events)
        .await
        .unwrap()
        .unwrap();
    assert!(!draft.is_new());
    draft.commit(None, &Actor::System).await.unwrap();
    world.settled(3, Status::Sent).await;
    world.received(1).await;
}

#[tokio::test]
async fn a_failing_endpoint_is_paused_and_later_receives_every_webhook() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.backend.script(Rule::answer(status(502)).times(3));
    let mut settings = settings();
    settings.pace.failures = 3;
    settings.pace.per_endpoint = 1;
    for delivery in 1..=20 {
        world.settled(delivery, Status::Sent).await;
    }
    world.serve(settings);
    eventually(SOON, "the endpoint is paused", async || {
        let paused: bool = sqlx::query_scalar(
            "SELECT coalesce(paused_until > now() + interval '30 minutes', false) FROM webhook_endpoint",
        )
        .fetch_one(&world.pool)
        .await
        .unwrap();
        paused.then_some(())
    })
    .await;
    world.followed().await;
    assert_eq!(world.backend.attempts().len(), 3);
    assert!(world.context.store.webhooks().endpoints(world.app).await.unwrap()[0].failing_since.is_some());
    sqlx::query("UPDATE webhook_endpoint SET paused_until = now()").execute(&world.pool).await.unwrap();
    world.received(20).await;
    world.messages("delivered", 20).await;
    assert!(world.context.store.webhooks().endpoints(world.app).await.unwrap()[0].failing_since.is_none());
}

#[tokio::test]
async fn day_old_webhooks_of_an_endpoint_that_failed_for_a_day_fail_and_old_rows_are_deleted() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.settled(1, Status::Sent).await;
    world.settled(2, Status::Sent).await;
    world.backend.script(Rule::answer(status(500)).times(1_000));
    let mut quick = settings();
    quick.pace.failures = 1;
    world.serve(quick);
    eventually(SOON, "the endpoint is failing", async || {
        let failing = world.context.store.webhooks().endpoints(world.app).await.unwrap()[0].failing_since;
        failing.map(|_| ())
    })
    .await;
    world.followed().await;
    let (day, store) = (Duration::from_secs(24 * 3600), &world.context.store);
    assert_eq!(store.webhooks().give_up_webhooks(day).await.unwrap(), 0);
    sqlx::query("UPDATE webhook_message SET created_at = now() - interval '25 hours'")
        .execute(&world.pool)
        .await
        .unwrap();
    assert_eq!(
        store.webhooks().give_up_webhooks(day).await.unwrap(),
        0,
        "the endpoint has been failing for less than a day"
    );
    sqlx::query("UPDATE webhook_endpoint SET failing_since = now() - interval '25 hours'")
        .execute(&world.pool)
        .await
        .unwrap();
    eventually(SOON, "both messages have failed", async || {
        store.webhooks().give_up_webhooks(day).await.unwrap();
        (world.count("failed").await == 2).then_some(())
    })
    .await;
    let mut from = PruneFrom::default();
    assert_eq!(store.webhooks().prune_webhooks(day, day, &mut from).await.unwrap(), 0);
    // The service itself keeps failed messages for 30 days.
    sqlx::query("UPDATE webhook_message SET settled_at = now() - interval '20 days'")
        .execute(&world.pool)
        .await
        .unwrap();
    assert_eq!(store.webhooks().prune_webhooks(day, day, &mut from).await.unwrap(), 2);
}

#[test]
fn lease_and_pause_follow_the_configured_timeout_and_schedule() {
    let seconds = Duration::from_secs;
    let usual = Settings::new(&Config::default().webhooks);
    assert_eq!(
        (usual.call_limit, usual.pace.lease, usual.pace.pause),
        (seconds(15), seconds(31), seconds(5))
    );
    assert_eq!(usual.schedule.iter().sum::<Duration>().as_secs().div_ceil(3600), 22);
    let schedule = vec![seconds(1), seconds(2)];
    let quick = Settings::new(&Webhooks { timeout: seconds(2), retry_schedule: schedule.clone() });
    assert_eq!((quick.call_limit, quick.pace.lease, quick.pace.pause), (seconds(2), seconds(5), seconds(1)));
    assert_eq!(quick.schedule, schedule);
}
