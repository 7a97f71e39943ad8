//! Archived and snoozed items, and the return of snoozed ones.

use std::time::Duration;

use domain::event::{ItemsSnoozed, SnoozesEnded};
use domain::id::partition;
use domain::inbox::{AllChange, ItemChange};
use domain::{Event, ItemId, StreamName, Timestamp, UserNumber};
use inbox::Snoozes;
use service_kit::{Context, clock};
use testkit::{WRONG_COUNTERS, eventually};

use crate::world::{APP, NOW, SOON, STREAM, World, added, all_changed, changed, envelope, stop};

/// A time that the services do not reach during a test.
const LATER: Timestamp = Timestamp::from_millis(NOW.millis() + 100 * 365 * 86_400_000);
const MILLISECOND: Duration = Duration::from_millis(1);
/// Counters of user 1.
const COUNTERS: &str =
    "SELECT total * 1000 + unread * 100 + unseen * 10 + hidden FROM inbox_counter WHERE user_number = 1";

fn items(seqs: &[u64]) -> Vec<ItemId> {
    seqs.iter().map(|&seq| ItemId::derive(seq, 0, 1, 0).unwrap()).collect()
}

/// Encodes the event that user 1 snoozed the first items that these sequences added.
fn snoozed(seqs: &[u64], until: Timestamp) -> Vec<u8> {
    let snoozed = ItemsSnoozed { user: UserNumber(1), items: items(seqs), until };
    envelope(None, Event::InboxItemsSnoozed(snoozed))
}

impl World {
    /// Returns the sends of the items that are snoozed.
    async fn snoozed_sends(&self) -> Vec<i64> {
        sqlx::query_scalar(
            "SELECT right(send_id::text, 2)::bigint FROM inbox_item WHERE snoozed_until IS NOT NULL ORDER BY 1",
        )
        .fetch_all(&self.pool)
        .await
        .unwrap()
    }
}

#[tokio::test]
async fn hidden_items_count_as_hidden_and_changes_of_the_whole_inbox_leave_them_alone() {
    let world = World::start().await;
    world.context.serve("inbox", inbox::run);
    world.publish((1..=4).map(|send| added(send, 1)).collect()).await;
    world.publish(vec![changed(1, ItemChange::Archived), snoozed(&[2, 3], LATER)]).await;
    world.projected().await;
    assert_eq!(world.count(COUNTERS).await, 1_113);

    world.publish(vec![all_changed(4, AllChange::Read), changed(3, ItemChange::Deleted)]).await;
    world.projected().await;
    assert_eq!(world.count(COUNTERS).await, 1_002, "one is read, one archived, one snoozed, and one deleted");
    world.publish(vec![changed(1, ItemChange::Unarchived)]).await;
    let ended = SnoozesEnded { user: UserNumber(1), items: items(&[1, 2, 3, 4]), due: None };
    world.publish(vec![envelope(None, Event::InboxSnoozesEnded(ended))]).await;
    world.projected().await;
    assert_eq!(world.count(COUNTERS).await, 3_220);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.differing().await, 0);
}

#[tokio::test]
async fn a_snoozed_item_returns_at_its_time_and_not_before() {
    let world = World::start().await;
    world.context.serve("inbox", inbox::run);
    world.publish((1..=4).map(|send| added(send, 1)).collect()).await;
    world.publish((1..=4).map(|seq| changed(seq, ItemChange::Read)).collect()).await;
    world.publish(vec![snoozed(&[1, 2], LATER), snoozed(&[3], LATER + MILLISECOND)]).await;
    world.projected().await;
    let mut snoozes = Snoozes::new(&world.context);
    assert_eq!(snoozes.round(LATER - MILLISECOND).await.unwrap(), 0);
    assert_eq!(snoozes.round(LATER).await.unwrap(), 2);
    world.projected().await;
    assert_eq!(world.snoozed_sends().await, [3]);
    assert_eq!(world.count(COUNTERS).await, 3_221, "two are unread and unseen again");
    assert_eq!(snoozes.round(LATER).await.unwrap(), 0);
    assert_eq!(snoozes.round(LATER + MILLISECOND).await.unwrap(), 1);
    world.projected().await;
    assert_eq!(world.count(COUNTERS).await, 4_330);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.differing().await, 0);
}

#[tokio::test]
async fn the_service_returns_items_by_itself_also_after_a_restart() {
    let world = World::start().await;
    let projection = world.another().await;
    projection.serve("inbox", inbox::run);
    world.publish(vec![added(1, 1), snoozed(&[1], LATER)]).await;
    world.projected().await;
    stop(&projection).await;
    // The time has come while no service was running.
    world.publish(vec![snoozed(&[1], clock::now())]).await;
    world.context.serve("inbox", inbox::run);
    eventually(SOON, "the item returns", async || {
        let rows = "SELECT count(*) FROM inbox_item WHERE snoozed_until IS NULL AND archived_at IS NULL";
        (world.count(rows).await == 1).then_some(())
    })
    .await;
    world.projected().await;
    assert_eq!(world.count(COUNTERS).await, 1_110);
}

#[tokio::test]
async fn a_snooze_that_was_prolonged_meanwhile_goes_on() {
    let world = World::start().await;
    let projection = world.another().await;
    projection.serve("inbox", inbox::run);
    world.publish(vec![added(1, 1), snoozed(&[1], LATER)]).await;
    world.projected().await;
    stop(&projection).await;
    // The round reads the tables, which do not show the second snooze yet.
    world.publish(vec![snoozed(&[1], LATER + MILLISECOND)]).await;
    assert_eq!(Snoozes::new(&world.context).round(LATER).await.unwrap(), 1);
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    assert_eq!(world.snoozed_sends().await, [1]);
}

#[tokio::test]
async fn two_processes_end_a_snooze_once_and_wait_for_the_projection() {
    let world = World::start().await;
    let projection = world.another().await;
    projection.serve("inbox", inbox::run);
    world.publish((1..=3).map(|send| added(send, 1)).collect()).await;
    world.publish(vec![snoozed(&[1, 2, 3], LATER)]).await;
    world.projected().await;
    stop(&projection).await;
    let before = world.context.log.state(STREAM).await.unwrap().last_seq;
    let (mut one, mut other) = (Snoozes::new(&world.context), Snoozes::new(&world.context));
    let (first, second) = tokio::join!(one.round(LATER), other.round(LATER));
    assert_eq!((first.unwrap(), second.unwrap()), (3, 3));
    assert_eq!((one.round(LATER).await.unwrap(), other.round(LATER).await.unwrap()), (0, 0));
    assert_eq!(world.context.log.state(STREAM).await.unwrap().last_seq, before + 1);
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    assert!(world.snoozed_sends().await.is_empty());
}

#[tokio::test]
async fn more_items_than_a_round_can_read_return_in_the_next_rounds() {
    const USERS: i64 = 500;
    const SENDS: u64 = 44;
    let world = World::start().await;
    let projection = world.another().await;
    projection.serve("inbox", inbox::run);
    world.publish((1..=SENDS).map(|send| added(send.into(), USERS)).collect()).await;
    world.projected().await;
    sqlx::query("UPDATE inbox_item SET snoozed_until = to_timestamp($1 / 1000.0)")
        .bind(LATER.millis() as f64)
        .execute(&world.pool)
        .await
        .unwrap();
    stop(&projection).await;
    let mut snoozes = Snoozes::new(&world.context);
    assert_eq!(snoozes.round(LATER).await.unwrap(), 20_000);
    sqlx::query("UPDATE checkpoint SET seq = seq + 1000000").execute(&world.pool).await.unwrap();
    assert_eq!(snoozes.round(LATER).await.unwrap(), SENDS * USERS.unsigned_abs() - 20_000);
}

#[tokio::test]
async fn a_partition_that_fails_delays_no_other() {
    let world = World::with_partitions(2).await;
    sqlx::query(
        "INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, event_id, snoozed_until)
         SELECT 1, n, n, gen_random_uuid(), now(), gen_random_uuid(), to_timestamp($1 / 1000.0)
         FROM generate_series(1, 30) AS n",
    )
    .bind(LATER.millis() as f64)
    .execute(&world.pool)
    .await
    .unwrap();
    // The stream of the third partition does not exist.
    let context = Context { partitions: 3, ..world.context.clone() };
    let failed = Snoozes::new(&context).round(LATER).await.unwrap_err();
    assert!(format!("{failed:#}").contains("INBOX_2"), "{failed:#}");
    let mut published = 0;
    for number in 0..2 {
        published += world.context.log.state(StreamName::Inbox(number)).await.unwrap().last_seq;
    }
    let of_others = (1..=30).filter(|&user| partition(APP, UserNumber(user), 3) < 2).count() as u64;
    assert!(published == of_others && (1..30).contains(&of_others), "{published} of {of_others}");
}
