//! Removal of old inbox items.

use std::time::Duration;

use domain::inbox::{Counts, ItemChange};
use domain::{AppId, ItemId, StreamName, Timestamp, UserNumber};
use store::inbox::projection::{INBOX, ItemKey, NewItem, StateChange};
use store::inbox::retention::InboxSize;
use uuid::Uuid;

use crate::{Fixture, LIMIT, NOW, fixture, send_id};

const STREAM: StreamName = StreamName::Inbox(0);
const ADA: UserNumber = UserNumber(1);
const BOB: UserNumber = UserNumber(2);

/// Returns the creation time of the item with this id. Higher ids are newer.
fn created(id: i64) -> Timestamp {
    NOW + Duration::from_secs(id.unsigned_abs())
}

impl Fixture {
    async fn add_rows(&self, app: AppId, user: UserNumber, ids: &[i64]) {
        let item = |&id: &i64| NewItem {
            app,
            user,
            id: ItemId(id),
            send_id: send_id(id.unsigned_abs().into()),
            category: None,
            created_at: created(id),
            content: "{}".into(),
            event_id: Uuid::nil(),
        };
        let at = self.store.database().checkpoint(INBOX, STREAM).await.unwrap();
        let mut batch = self.store.inbox().project(STREAM, at, at + 1).await.unwrap().unwrap();
        batch.add(&ids.iter().map(item).collect::<Vec<_>>()).await.unwrap();
        batch.commit().await.unwrap();
    }

    async fn change_items(&self, keys: &[ItemKey], change: ItemChange) {
        let at = self.store.database().checkpoint(INBOX, STREAM).await.unwrap();
        let mut batch = self.store.inbox().project(STREAM, at, at + 1).await.unwrap().unwrap();
        let changes = batch.states(keys).await.unwrap().into_iter().map(|(key, old)| {
            let mut new = old.clone();
            new.apply(change, NOW);
            StateChange { key, old, new }
        });
        batch.change(&changes.collect::<Vec<_>>()).await.unwrap();
        batch.commit().await.unwrap();
    }

    async fn counts_of(&self, app: AppId, user: UserNumber) -> Counts {
        self.store.inbox().inbox_moment(app, user, STREAM).await.unwrap().counts
    }

    async fn rows_of(&self, app: AppId, user: UserNumber) -> Vec<i64> {
        sqlx::query_scalar("SELECT id FROM inbox_item WHERE app_id = $1 AND user_number = $2 ORDER BY id")
            .bind(app.0)
            .bind(user.0)
            .fetch_all(&self.pool)
            .await
            .unwrap()
    }
}

const fn counts(total: i64, unread: i64, unseen: i64) -> Counts {
    Counts { total, unread, unseen, hidden: 0 }
}

#[tokio::test]
async fn old_rows_are_removed_with_their_part_of_the_counters() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    fixture.add_rows(shop, ADA, &[10, 20, 30, 40, 50]).await;
    fixture.add_rows(shop, BOB, &[11, 60]).await;
    fixture.add_rows(bank, ADA, &[10, 20]).await;
    let item = |id| (shop, ADA, ItemId(id));
    fixture.change_items(&[item(20)], ItemChange::Seen).await;
    fixture.change_items(&[item(30), item(50)], ItemChange::Read).await;
    fixture.change_items(&[item(40)], ItemChange::Deleted).await;
    assert_eq!(fixture.counts_of(shop, ADA).await, counts(4, 2, 1));

    let before = created(50);
    let mut old = fixture.store.inbox().items_before(before, 100).await.unwrap();
    assert_eq!(fixture.store.inbox().items_before(before, 2).await.unwrap().len(), 2, "the limit");
    assert!(old[..2].iter().all(|key| key.2 == ItemId(10)), "the oldest are first: {old:?}");
    old.sort_unstable();
    let expected = [
        (shop, ADA, 10),
        (shop, ADA, 20),
        (shop, ADA, 30),
        (shop, ADA, 40),
        (shop, BOB, 11),
        (bank, ADA, 10),
        (bank, ADA, 20),
    ];
    assert_eq!(old, expected.map(|(app, user, id)| (app, user, ItemId(id))));
    let of_shop: Vec<_> = old.iter().filter(|key| key.0 == shop).copied().collect();
    assert_eq!(fixture.store.inbox().remove_items(STREAM, before, &of_shop).await.unwrap(), 5);
    assert_eq!(fixture.rows_of(shop, ADA).await, [50]);
    assert_eq!(fixture.rows_of(shop, BOB).await, [60]);
    assert_eq!(fixture.rows_of(bank, ADA).await, [10, 20]);
    assert_eq!(fixture.counts_of(shop, ADA).await, counts(1, 0, 0));
    assert_eq!(fixture.counts_of(shop, BOB).await, counts(1, 1, 1));
    assert_eq!(fixture.counts_of(bank, ADA).await, counts(2, 2, 2));

    assert_eq!(
        fixture.store.inbox().remove_items(STREAM, before, &of_shop).await.unwrap(),
        0,
        "a repetition"
    );
    assert_eq!(fixture.counts_of(shop, ADA).await, counts(1, 0, 0));
}

#[tokio::test]
async fn the_time_before_which_items_may_be_missing_never_decreases() {
    let fixture = fixture().await;
    fixture.store.database().fix_partitions(1).await.unwrap();
    let recorded = "SELECT (extract(epoch FROM inbox_removed_before) * 1000)::bigint FROM installation";
    for (before, expected) in [(5, 5), (3, 5), (7, 7)] {
        fixture.store.inbox().remove_items(STREAM, created(before), &[]).await.unwrap();
        assert_eq!(fixture.count(recorded).await, created(expected).millis(), "{before}");
    }
}

#[tokio::test]
async fn a_removal_and_the_projection_wait_for_each_other() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.add_rows(app, ADA, &[1, 2]).await;
    let key = (app, ADA, ItemId(1));
    let at = fixture.store.database().checkpoint(INBOX, STREAM).await.unwrap();
    // The projection has read the state of the item, and counts on it when it writes the change.
    let mut batch = fixture.store.inbox().project(STREAM, at, at + 1).await.unwrap().unwrap();
    let (_, old) = batch.states(&[key]).await.unwrap().remove(0);
    let store = fixture.store.clone();
    let removal =
        tokio::spawn(async move { store.inbox().remove_items(STREAM, created(2), &[key]).await.unwrap() });
    fixture.somebody_waits().await;
    let mut new = old.clone();
    new.apply(ItemChange::Read, NOW);
    batch.change(&[StateChange { key, old, new }]).await.unwrap();
    batch.commit().await.unwrap();
    assert_eq!(removal.await.unwrap(), 1);
    assert_eq!(fixture.counts_of(app, ADA).await, counts(1, 1, 1));

    // Now the removal comes first. The projection ignores the change of the removed item.
    fixture.change_items(&[key], ItemChange::Unread).await;
    assert_eq!(fixture.rows_of(app, ADA).await, [2]);
    assert_eq!(fixture.counts_of(app, ADA).await, counts(1, 1, 1));
}

#[tokio::test]
async fn the_projection_waits_until_a_removal_is_committed() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.add_rows(app, ADA, &[1, 2]).await;
    let key = (app, ADA, ItemId(1));
    // A lock on the row keeps the removal open.
    let mut blocker = fixture.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM inbox_item WHERE id = 1 FOR UPDATE").execute(&mut *blocker).await.unwrap();
    let store = fixture.store.clone();
    let removal =
        tokio::spawn(async move { store.inbox().remove_items(STREAM, created(2), &[key]).await.unwrap() });
    fixture.somebody_waits().await;
    let at = fixture.store.database().checkpoint(INBOX, STREAM).await.unwrap();
    let store = fixture.store.clone();
    let projection = tokio::spawn(async move {
        let mut batch = store.inbox().project(STREAM, at, at + 1).await.unwrap().unwrap();
        let found = batch.states(&[key]).await.unwrap();
        batch.commit().await.unwrap();
        found
    });
    testkit::eventually(LIMIT, "removal and projection wait", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        (fixture.count(waiting).await == 2).then_some(())
    })
    .await;
    blocker.rollback().await.unwrap();
    assert_eq!(removal.await.unwrap(), 1);
    assert_eq!(projection.await.unwrap(), [], "the projection sees that the item was removed");
    assert_eq!(fixture.counts_of(app, ADA).await, counts(1, 1, 1));
}

#[tokio::test]
async fn nothing_is_removed_from_a_partition_without_a_checkpoint() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.add_rows(app, ADA, &[1]).await;
    let keys = [(app, ADA, ItemId(1))];
    assert_eq!(fixture.store.inbox().remove_items(StreamName::Inbox(1), created(2), &keys).await.unwrap(), 0);
    assert_eq!(fixture.rows_of(app, ADA).await, [1]);
}

#[tokio::test]
async fn the_surplus_of_an_inbox_is_its_oldest_existing_items() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    fixture.add_rows(shop, ADA, &[5, 1, 4, 2, 3]).await;
    fixture.add_rows(shop, BOB, &[6, 7]).await;
    fixture.add_rows(bank, ADA, &[8]).await;
    fixture.change_items(&[(shop, ADA, ItemId(2))], ItemChange::Deleted).await;
    let surplus = async |app, user, keep, most| {
        let items = fixture.store.inbox().surplus_items(app, user, keep, most).await.unwrap();
        items.into_iter().map(|item| item.0).collect::<Vec<_>>()
    };
    assert_eq!(surplus(shop, ADA, 2, 10).await, [1, 3]);
    assert_eq!(surplus(shop, ADA, 1, 2).await, [1, 3], "at most two");
    assert_eq!(surplus(shop, ADA, 4, 10).await, [0_i64; 0]);
    assert_eq!(surplus(shop, ADA, 9, 10).await, [0_i64; 0]);
    assert_eq!(surplus(bank, BOB, 1, 10).await, [0_i64; 0], "an inbox without counters");

    let size = |app, user, items| InboxSize { app, user, items };
    let all = [size(shop, ADA, 4), size(shop, BOB, 2), size(bank, ADA, 1)];
    let start = (AppId(0), UserNumber(0));
    assert_eq!(fixture.store.inbox().inbox_sizes(start, 10).await.unwrap(), all);
    assert_eq!(fixture.store.inbox().inbox_sizes(start, 2).await.unwrap(), all[..2]);
    assert_eq!(fixture.store.inbox().inbox_sizes((shop, ADA), 2).await.unwrap(), all[1..]);
    assert_eq!(fixture.store.inbox().inbox_sizes((bank, ADA), 2).await.unwrap(), []);
}
