//! Removal of inbox items by age and by count.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::content::InAppContent;
use domain::event::{ItemsAdded, ItemsChanged, UserErased};
use domain::inbox::ItemChange;
use domain::{Event, ItemId, Timestamp, UserNumber};
use inbox::{Rebuild, Removed};
use service_kit::clock;
use store::Settings;
use testkit::{WRONG_COUNTERS, eventually};

use crate::world::{APP, NOW, SOON, World, all_changed, changed, envelope, stop};

const DAY: Duration = Duration::from_secs(86_400);
/// Age at which the tests remove items.
const KEEP: Duration = Duration::from_secs(10 * 86_400);

/// Encodes the event that a send added an item to the inboxes of users 1 to `users` at this time.
fn added_at(send: u128, users: i64, created_at: Timestamp) -> Vec<u8> {
    let added = ItemsAdded {
        created_at,
        category_id: None,
        first: 0,
        contents: vec![InAppContent::default()],
        recipients: (1..=users).map(|user| (UserNumber(user), 0)).collect(),
    };
    envelope(Some(send), Event::InboxItemsAdded(added))
}

impl World {
    /// Runs one round, and waits until its events are projected.
    async fn round(&self, keep_per_user: u32, now: Timestamp) -> Removed {
        let removed = self.retention(KEEP, keep_per_user).round(now).await.unwrap();
        self.projected().await;
        removed
    }

    /// Returns the sends of the items that a user's inbox shows.
    async fn sends_of(&self, user: i64) -> Vec<u128> {
        let sends: Vec<uuid::Uuid> = sqlx::query_scalar(
            "SELECT send_id FROM inbox_item WHERE user_number = $1 AND deleted_at IS NULL ORDER BY send_id",
        )
        .bind(user)
        .fetch_all(&self.pool)
        .await
        .unwrap();
        sends.iter().map(uuid::Uuid::as_u128).collect()
    }
}

#[tokio::test]
async fn items_are_removed_at_their_age_and_the_log_still_matches() {
    let world = World::start().await;
    world.context.serve("inbox", inbox::run);
    let sends = (1..=6).map(|send| added_at(send, 2, NOW + DAY * u32::try_from(send).unwrap())).collect();
    world.publish(sends).await;
    world.publish(vec![changed(1, ItemChange::Read), changed(2, ItemChange::Deleted)]).await;
    world.projected().await;
    assert_eq!(
        world.round(100, NOW + DAY + KEEP).await,
        Removed::default(),
        "the oldest item is not older than the limit"
    );

    let removed = world.round(100, NOW + 4 * DAY + KEEP).await;
    assert_eq!(removed, Removed { by_age: 6, by_count: 0 });
    assert_eq!((world.sends_of(1).await, world.sends_of(2).await), (vec![4, 5, 6], vec![4, 5, 6]));
    assert_eq!(world.count("SELECT sum(unread)::bigint FROM inbox_counter").await, 6);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.differing().await, 0);

    // Events about removed items change nothing.
    world.publish(vec![changed(1, ItemChange::Unread), changed(3, ItemChange::Deleted)]).await;
    world.projected().await;
    assert_eq!(world.sends_of(1).await, [4, 5, 6]);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 0);
    assert_eq!(world.differing().await, 0);

    // The comparison still notices a younger item that is missing.
    world.run("DELETE FROM inbox_item WHERE user_number = 2 AND send_id::text LIKE '%5'").await;
    assert_eq!(world.differing().await, 1);
}

#[tokio::test]
async fn wrong_counters_are_found_after_a_removal() {
    let world = World::start().await;
    world.context.serve("inbox", inbox::run);
    world.publish(vec![added_at(1, 2, NOW), added_at(2, 2, NOW + 2 * DAY)]).await;
    world.projected().await;
    world.round(100, NOW + DAY + KEEP).await;
    assert_eq!(world.differing().await, 0);
    world.run("UPDATE inbox_counter SET unread = unread + 1 WHERE user_number = 1").await;
    assert_eq!(world.differing().await, 1);
}

#[tokio::test]
async fn an_inbox_keeps_its_newest_items_and_the_log_still_matches() {
    let world = World::start().await;
    world.context.serve("inbox", inbox::run);
    // The item of send 9 is added first, but it is the newest. User 2 has three items, user 1 six.
    world.publish(vec![added_at(9, 1, NOW + DAY)]).await;
    world.publish((1..=3).map(|send| added_at(send, 2, NOW)).collect()).await;
    world.publish(vec![added_at(4, 1, NOW), added_at(5, 1, NOW), changed(4, ItemChange::Read)]).await;
    world.projected().await;

    assert_eq!(world.round(3, NOW).await, Removed { by_age: 0, by_count: 3 });
    assert_eq!((world.sends_of(1).await, world.sends_of(2).await), (vec![4, 5, 9], vec![1, 2, 3]));
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.differing().await, 0);
    assert_eq!(world.round(3, NOW).await, Removed::default());

    // A repetition of the event does not bring the item back.
    world.publish(vec![added_at(1, 2, NOW)]).await;
    world.projected().await;
    assert_eq!(world.sends_of(1).await, [4, 5, 9]);
    assert_eq!(world.differing().await, 0);
}

#[tokio::test]
async fn an_event_is_not_published_again_before_it_is_projected() {
    let world = World::start().await;
    let projection = world.another().await;
    projection.serve("inbox", inbox::run);
    world.publish(vec![added_at(1, 1, NOW), added_at(2, 1, NOW)]).await;
    world.projected().await;
    stop(&projection).await;

    let mut retention = world.retention(KEEP, 1);
    assert_eq!(retention.round(NOW).await.unwrap().by_count, 1);
    assert_eq!(retention.round(NOW).await.unwrap().by_count, 0);
    // Another process publishes the same event, which the log recognises.
    assert_eq!(world.retention(KEEP, 1).round(NOW).await.unwrap().by_count, 0);
    assert_eq!(world.events_in(crate::world::STREAM).await.len(), 3);

    world.context.serve("inbox", inbox::run);
    world.projected().await;
    assert_eq!(world.sends_of(1).await, [2]);
    assert_eq!(retention.round(NOW).await.unwrap(), Removed::default());
}

#[tokio::test]
async fn removals_during_the_projection_lose_nothing() {
    const SENDS: u128 = 600;
    let world = World::start().await;
    world.context.serve("inbox", inbox::run);
    let is_done = AtomicBool::new(false);
    // Every second send is too old when it arrives.
    let publish = async {
        for send in 1..=SENDS {
            let created_at = if send % 2 == 0 { NOW } else { NOW - DAY } + Duration::from_millis(send as u64);
            let seq = world.context.log.state(crate::world::STREAM).await.unwrap().last_seq;
            let mut events = vec![added_at(send, 5, created_at)];
            if seq > 20 {
                events.push(changed(seq - 10, ItemChange::Read));
                events.push(changed(seq - 5, ItemChange::Unseen));
            }
            if send % 50 == 0 {
                events.push(all_changed(seq, domain::inbox::AllChange::Seen));
            }
            world.publish(events).await;
        }
        world.projected().await;
        is_done.store(true, Ordering::Relaxed);
    };
    let remove = async || {
        let mut retention = world.retention(KEEP, 40);
        let mut removed = Removed::default();
        while !is_done.load(Ordering::Relaxed) {
            let round = retention.round(NOW + KEEP).await.unwrap();
            removed.by_age += round.by_age;
            removed.by_count += round.by_count;
        }
        removed
    };
    let ((), one, other) = tokio::join!(publish, remove(), remove());
    assert!(one.by_age + other.by_age > 0 && one.by_count + other.by_count > 0, "{one:?} {other:?}");
    let last = world.round(40, NOW + KEEP).await;
    let more = world.round(40, NOW + KEEP).await;
    assert_eq!(
        (more, world.round(40, NOW + KEEP).await),
        (Removed::default(), Removed::default()),
        "{last:?}"
    );

    let newest: Vec<u128> = (1..=SENDS).filter(|send| send % 2 == 0).skip(SENDS as usize / 2 - 40).collect();
    for user in 1..=5 {
        assert_eq!(world.sends_of(user).await, newest, "user {user}");
    }
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.differing().await, 0);
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 0);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(world.count(deadlocks).await, 0);
}

#[tokio::test]
async fn a_rebuild_does_not_bring_removed_items_back_for_good() {
    let world = World::start().await;
    world.context.serve("inbox", inbox::run);
    world
        .publish((1..=6).map(|send| added_at(send, 1, NOW + DAY * u32::try_from(send).unwrap())).collect())
        .await;
    world.projected().await;
    let now = NOW + 5 * DAY + KEEP;
    assert_eq!(world.round(3, now).await, Removed { by_age: 4, by_count: 0 });

    let settings = Settings { url: world.servers.database_url().to_owned(), max_connections: 4 };
    let rebuild = Rebuild {
        database: &settings,
        log: &world.context.log,
        partitions: 1,
        accepts_differences: false,
        most: 10,
    };
    let report = rebuild.run(&|_| {}).await.unwrap();
    assert!(report.is_switched, "{report:?}");
    assert_eq!(world.sends_of(1).await, [1, 2, 3, 4, 5, 6]);
    assert_eq!(world.differing().await, 0);
    assert_eq!(world.round(3, now).await, Removed { by_age: 4, by_count: 0 });
    assert_eq!(world.sends_of(1).await, [5, 6]);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.differing().await, 0);
}

#[tokio::test]
async fn an_erased_user_has_no_rows_after_a_removal() {
    let world = World::start().await;
    world.context.serve("inbox", inbox::run);
    let erasure = envelope(None, Event::UserErased(UserErased { user: UserNumber(1), digest: None }));
    world
        .publish(vec![added_at(1, 2, NOW), added_at(2, 2, NOW + 2 * DAY), added_at(3, 2, NOW + 2 * DAY)])
        .await;
    world.projected().await;
    let mut retention = world.retention(KEEP, 1);
    assert_eq!(retention.round(NOW + DAY + KEEP).await.unwrap(), Removed { by_age: 2, by_count: 2 });
    // The deletion of the surplus comes before the erasure in the log, and a second one after it.
    let items = vec![ItemId::derive(2, 0, 1, 0).unwrap()];
    let late = ItemsChanged { user: UserNumber(1), items };
    world.publish(vec![erasure, envelope(None, Event::InboxItemsChanged(ItemChange::Deleted, late))]).await;
    world.projected().await;
    assert_eq!(world.round(1, NOW + DAY + KEEP).await, Removed::default());
    let rows = "SELECT (SELECT count(*) FROM inbox_item WHERE user_number = 1)
                + (SELECT count(*) FROM inbox_counter WHERE user_number = 1)";
    assert_eq!(world.count(rows).await, 0);
    assert_eq!(world.sends_of(2).await, [3]);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
}

#[tokio::test]
async fn the_service_removes_items() {
    let world = World::start().await;
    assert_eq!(world.app("shop").await, APP);
    let now = clock::now();
    let projection = world.another().await;
    projection.serve("inbox", inbox::run);
    let sends = (1..=4).map(|send| added_at(send, 1, if send == 1 { now - 2 * KEEP } else { now })).collect();
    world.publish(sends).await;
    world.projected().await;
    stop(&projection).await;
    // The first round begins when the service starts.
    world.keeping(KEEP, 2).serve("inbox", inbox::run);
    eventually(SOON, "the items are removed", async || (world.sends_of(1).await == [3, 4]).then_some(()))
        .await;
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 3, "the rows of sends 2, 3 and 4");
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
}
