//! Sends to topics: their subscribers are recipients, chunk by chunk.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::event::{ChunkPlanned, SendContinues};
use domain::send::{Recipient, SendRequest};
use domain::{Actor, Event, Expansion, Lane, SendId, StreamName, UserNumber};
use planning::decide_chunk;
use service_kit::clock;
use store::sends::chunk::Chunk;

use crate::world::{World, accepted, person, send_to};

impl World {
    /// Creates users with the given numbers in their identifiers, and subscribes them to a topic.
    async fn subscribe(&self, topic: &str, users: impl Iterator<Item = usize>) {
        let users: Vec<String> = users.map(|number| format!("user-{number}")).collect();
        sqlx::query(
            "WITH created AS (
               INSERT INTO topic (app_id, identifier, name) VALUES ($1, $2, $2) ON CONFLICT (app_id, identifier)
               DO UPDATE SET name = excluded.name RETURNING id
             ), people AS (
               INSERT INTO app_user (app_id, identifier) SELECT $1, unnest($3::text[])
               ON CONFLICT (app_id, identifier) DO UPDATE SET updated_at = now() RETURNING number
             )
             INSERT INTO topic_subscription (app_id, topic_id, user_number, subscribed_at)
             SELECT $1, id, number, now() - interval '1 hour' FROM created, people",
        )
        .bind(self.app.0)
        .bind(topic)
        .bind(users)
        .execute(&self.pool)
        .await
        .unwrap();
    }

    /// Lists the identifiers of the users whose inbox got an item, in order. A user who got two is in the list twice.
    async fn reached(&self) -> Vec<String> {
        let mut reached = Vec::new();
        for (_, user, _) in self.inboxes().await {
            let identifier: String = sqlx::query_scalar("SELECT identifier FROM app_user WHERE number = $1")
                .bind(user.0)
                .fetch_one(&self.pool)
                .await
                .unwrap();
            reached.push(identifier);
        }
        reached.sort();
        reached
    }

    async fn plans(&self) -> Vec<ChunkPlanned> {
        let events = self.events_in(StreamName::Outcome).await.into_iter();
        events
            .filter_map(|envelope| match envelope.event {
                Event::ChunkPlanned(planned) => Some(planned),
                _ => None,
            })
            .collect()
    }

    async fn is_done(&self) -> bool {
        self.count("SELECT count(*) FROM request WHERE body IS NULL AND NOT expanding").await == 1
    }

    /// Returns what the request says about its topics.
    async fn topics(&self) -> serde_json::Value {
        sqlx::query_scalar("SELECT topics FROM request").fetch_one(&self.pool).await.unwrap()
    }

    /// Freezes an expanded chunk, like a dispatcher that dies before it publishes the messages of the chunk.
    async fn freeze_expanded(&self, send_id: SendId, send: &SendRequest, number: u32, expansion: Expansion) {
        let (accepted_at, send) = (clock::now(), Arc::new(send.clone()));
        let expansion = Some(Arc::new(expansion));
        let chunk = Chunk { expansion, ..Chunk::listed(self.app, send_id, number, accepted_at, send) };
        let chunks = [chunk];
        let mut freeze = self.context.store.sends().freeze(&chunks).await.unwrap();
        let facts = freeze.write_profiles_and_read_facts().await.unwrap();
        freeze.chunks[0].decisions = decide_chunk(&freeze.chunks[0], &facts, None);
        freeze.commit(&facts).await.unwrap();
    }
}

fn to_topics(topics: &[&str]) -> SendRequest {
    SendRequest { topics: topics.iter().map(|&topic| topic.to_owned()).collect(), ..send_to(Vec::new()) }
}

fn names(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    let names: BTreeSet<String> = numbers.map(|number| format!("user-{number}")).collect();
    names.into_iter().collect()
}

#[tokio::test]
async fn subscribers_get_a_send_once_however_often_it_names_them() {
    let world = World::start().await;
    world.subscribe("news", 0..900).await;
    world.subscribe("sport", 600..1_100).await;
    let named = vec![person("user-3"), person("user-2000")];
    let exclude = (100..700).map(|number| format!("user-{number}")).collect();
    let send = SendRequest { recipients: named, exclude, ..to_topics(&["news", "unknown", "sport"]) };
    world.accept(&send).await;
    testkit::eventually(crate::world::SOON, "the send is done", async || world.is_done().await.then_some(()))
        .await;
    let expected = names((0..100).chain(700..1_100).chain([2_000]));
    assert_eq!(world.reached().await, expected);
    assert_eq!(world.count("SELECT recipients::bigint FROM request").await, 501);
    // Of `news`, 99 subscribers are neither named nor excluded among the first 100, and 200 among the last, who also subscribe to `sport`.
    assert_eq!(world.topics().await, serde_json::json!([["news", 299], ["unknown", 0], ["sport", 200]]));
}

#[tokio::test]
async fn a_large_topic_takes_several_chunks_of_the_bulk_lane() {
    let world = World::start().await;
    world.subscribe("news", 0..1_200).await;
    world.accept(&to_topics(&["news"])).await;
    world.dispatched(Lane::Transactional, 1).await;
    world.dispatched(Lane::Bulk, 3).await;
    let planned: Vec<_> = world.plans().await.iter().map(|plan| (plan.chunk, plan.recipients)).collect();
    assert_eq!(planned, [(0, 0), (1, 500), (2, 500), (3, 200)]);
    assert_eq!(world.reached().await, names(0..1_200));
    assert!(world.is_done().await);
}

#[tokio::test]
async fn a_small_topic_stays_in_the_lane_of_its_send() {
    let world = World::start().await;
    world.subscribe("news", 0..3).await;
    world.subscribe("late", 3..4).await;
    sqlx::query("UPDATE topic_subscription SET subscribed_at = now() + interval '1 minute' WHERE user_number = (SELECT max(user_number) FROM topic_subscription)")
        .execute(&world.pool)
        .await
        .unwrap();
    world.accept(&to_topics(&["news", "late"])).await;
    world.dispatched(Lane::Transactional, 2).await;
    assert_eq!(world.last_seq(StreamName::Send(Lane::Bulk)).await, 0);
    // The fourth user subscribed after the send was accepted.
    assert_eq!(world.reached().await, names(0..3));
    assert_eq!(world.topics().await, serde_json::json!([["news", 3], ["late", 0]]));
    assert!(world.is_done().await);
}

#[tokio::test]
async fn subscribers_after_many_that_are_too_new_are_reached() {
    let world = World::start().await;
    world.subscribe("news", 0..1_100).await;
    // All but the last one subscribed after the send was accepted.
    sqlx::query("UPDATE topic_subscription SET subscribed_at = now() + interval '1 minute' WHERE user_number < (SELECT max(user_number) FROM topic_subscription)")
        .execute(&world.pool)
        .await
        .unwrap();
    world.accept(&to_topics(&["news"])).await;
    testkit::eventually(crate::world::SOON, "the send is done", async || world.is_done().await.then_some(()))
        .await;
    assert_eq!(world.reached().await.len(), 1);
    let planned: Vec<_> = world.plans().await.iter().map(|plan| (plan.chunk, plan.recipients)).collect();
    assert_eq!(planned, [(0, 0), (1, 0), (2, 0), (3, 1)]);
}

#[tokio::test]
async fn a_send_to_an_unknown_topic_ends_without_recipients() {
    let world = World::start().await;
    world.accept(&to_topics(&["nobody"])).await;
    world.dispatched(Lane::Transactional, 2).await;
    assert!(world.is_done().await);
    assert_eq!(world.topics().await, serde_json::json!([["nobody", 0]]));
}

#[tokio::test]
async fn a_frozen_chunk_goes_to_its_subscribers_even_if_they_have_left() {
    let world = World::with(|_| {}).await;
    world.subscribe("news", 0..5).await;
    let send = to_topics(&["news"]);
    let send_id = SendId(clock::new_id());
    world.accept_as(send_id, &send).await;
    world.freeze(send_id, &send).await;
    let number = |identifier: &'static str| {
        let (pool, app) = (world.pool.clone(), world.app);
        async move {
            let found =
                sqlx::query_scalar("SELECT number FROM app_user WHERE app_id = $1 AND identifier = $2");
            UserNumber(found.bind(app.0).bind(identifier).fetch_one(&pool).await.unwrap())
        }
    };
    let recipients: Vec<_> =
        ["user-0", "user-1"].map(|name| Recipient::plain(name.to_owned())).into_iter().collect();
    let frozen = Expansion {
        recipients,
        up_to: number("user-1").await,
        by_topic: vec![2],
        is_last: false,
        channels: Vec::new(),
    };
    world.freeze_expanded(send_id, &send, 1, frozen).await;
    // The first two leave. The dispatcher that repeats the chunk would now find three others.
    let left = number("user-1").await;
    sqlx::query("DELETE FROM topic_subscription WHERE user_number <= $1")
        .bind(left.0)
        .execute(&world.pool)
        .await
        .unwrap();
    world.serve();
    testkit::eventually(crate::world::SOON, "the send is done", async || world.is_done().await.then_some(()))
        .await;
    assert_eq!(world.reached().await, names(0..5));
    assert_eq!(world.topics().await, serde_json::json!([["news", 5]]));

    // A message for the same chunk with other subscribers comes late.
    let recipients = vec![Recipient::plain("user-4".to_owned())];
    let late = Expansion { recipients, up_to: left, by_topic: vec![1], is_last: true, channels: Vec::new() };
    let late = Event::SendContinues(SendContinues { chunk: 1, expansion: Some(late), has_topics: true });
    let mut envelope = domain::Envelope::decode(&accepted(world.app, send_id, &send)).unwrap();
    envelope.event = late;
    let before = world.last_seq(StreamName::Send(Lane::Transactional)).await;
    world.publish(StreamName::Send(Lane::Transactional), envelope.encode().unwrap()).await;
    world.dispatched(Lane::Transactional, before + 1).await;
    assert_eq!(world.reached().await, names(0..5));
}

#[tokio::test]
async fn a_cancelled_send_reaches_no_further_subscribers() {
    let world = World::with(|_| {}).await;
    world.subscribe("news", 0..5).await;
    let send = to_topics(&["news"]);
    let send_id = world.accept(&send).await;
    world.freeze(send_id, &send).await;
    world.context.store.deliveries().cancel_request(world.app, send_id, &Actor::System).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM request WHERE cancelled_at IS NOT NULL").await, 1);
    world.serve();
    testkit::eventually(crate::world::SOON, "the send is done", async || world.is_done().await.then_some(()))
        .await;
    assert_eq!(world.count("SELECT count(*) FROM planned_recipient").await, 0);
    assert_eq!(world.inboxes().await.len(), 0);
}
