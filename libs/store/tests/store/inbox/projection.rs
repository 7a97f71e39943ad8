//! Transactions of the inbox projection.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::inbox::{AllChange, Counts, ItemChange, ItemState};
use domain::{AppId, ItemId, StreamName, UserNumber};
use sqlx::Row;
use store::inbox::list::InboxFilter;
use store::inbox::projection::{INBOX, InboxTransaction, ItemKey, NewItem, StateChange, WholeInbox};
use uuid::Uuid;

use crate::{Fixture, NOW, RandomNumbers, fixture, send_id};

const STREAM: StreamName = StreamName::Inbox(0);

fn item(app: AppId, user: i64, id: i64, send: u128, content: &Arc<str>) -> NewItem {
    NewItem {
        app,
        user: UserNumber(user),
        id: ItemId(id),
        send_id: send_id(send),
        category: None,
        created_at: NOW,
        content: Arc::clone(content),
        event_id: Uuid::from_u128(id.cast_unsigned().into()),
    }
}

fn content(number: u32) -> Arc<str> {
    Arc::from(format!("{{\"n\":{number}}}"))
}

impl Fixture {
    /// Starts a batch for the next event after the checkpoint.
    async fn batch(&self) -> InboxTransaction {
        let at = self.store.database().checkpoint(INBOX, STREAM).await.unwrap();
        self.store.inbox().project(STREAM, at, at + 1).await.unwrap().unwrap()
    }

    async fn add(&self, items: &[NewItem]) {
        let mut batch = self.batch().await;
        batch.add(items).await.unwrap();
        batch.commit().await.unwrap();
    }

    async fn change(&self, key: ItemKey, change: ItemChange) {
        let mut batch = self.batch().await;
        let (_, old) = batch.states(&[key]).await.unwrap().remove(0);
        let mut new = old.clone();
        new.apply(change, NOW);
        batch.change(&[StateChange { key, old, new }]).await.unwrap();
        batch.commit().await.unwrap();
    }

    async fn counters(&self) -> BTreeMap<(i64, i64), Counts> {
        self.counted("SELECT app_id, user_number, total, unread, unseen, hidden FROM inbox_counter").await
    }

    async fn recounted(&self) -> BTreeMap<(i64, i64), Counts> {
        self.counted(
            "SELECT app_id, user_number, count(*) FILTER (WHERE listed) AS total,
               count(*) FILTER (WHERE listed AND clicked_at IS NULL) AS unread,
               count(*) FILTER (WHERE listed AND seen_at IS NULL) AS unseen, count(*) FILTER (WHERE NOT listed) AS hidden
             FROM (
               SELECT *, archived_at IS NULL AND snoozed_until IS NULL AS listed FROM inbox_item WHERE deleted_at IS NULL
             ) AS existing
             GROUP BY app_id, user_number",
        )
        .await
    }

    async fn counted(&self, statement: &'static str) -> BTreeMap<(i64, i64), Counts> {
        let rows = sqlx::query(statement).fetch_all(&self.pool).await.unwrap();
        let counts = rows.iter().map(|row| {
            let (total, unread) = (row.get("total"), row.get("unread"));
            let counts = Counts { total, unread, unseen: row.get("unseen"), hidden: row.get("hidden") };
            ((row.get("app_id"), row.get("user_number")), counts)
        });
        counts.filter(|(_, counts)| *counts != Counts::default()).collect()
    }
}

#[tokio::test]
async fn only_one_of_two_writers_moves_the_checkpoint() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    for from in [0, 3] {
        let mut first = fixture.store.inbox().project(STREAM, from, from + 3).await.unwrap().unwrap();
        let store = fixture.store.clone();
        let second = tokio::spawn(async move { store.inbox().project(STREAM, from, from + 2).await });
        fixture.somebody_waits().await;
        first.add(&[item(app, 1, i64::try_from(from).unwrap(), from.into(), &content(1))]).await.unwrap();
        first.commit().await.unwrap();
        assert!(second.await.unwrap().unwrap().is_none(), "from {from}");
        assert_eq!(fixture.store.database().checkpoint(INBOX, STREAM).await.unwrap(), from + 3);
    }
    assert!(fixture.store.inbox().project(STREAM, 0, 1).await.unwrap().is_none());
    assert!(
        fixture.store.inbox().project(STREAM, 7, 8).await.unwrap().is_none(),
        "the checkpoint is not at 7"
    );
    assert_eq!(fixture.store.database().checkpoint(INBOX, StreamName::Inbox(1)).await.unwrap(), 0);
}

#[tokio::test]
async fn a_dropped_batch_writes_nothing() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut batch = fixture.batch().await;
    batch.add(&[item(app, 1, 1, 1, &content(1))]).await.unwrap();
    batch.dead_letter(STREAM, 1, b"dead", "broken").await.unwrap();
    drop(batch);
    let everything = "SELECT (SELECT count(*) FROM inbox_item) + (SELECT count(*) FROM inbox_counter)
                      + (SELECT count(*) FROM dead_event)";
    assert_eq!(fixture.count(everything).await, 0);
    assert_eq!(fixture.store.database().checkpoint(INBOX, STREAM).await.unwrap(), 0);
}

#[tokio::test]
async fn an_inbox_has_at_most_one_item_per_send() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let one = content(1);
    let two = content(2);
    fixture
        .add(&[
            item(app, 1, 10, 1, &one),
            item(app, 2, 11, 1, &two),
            item(app, 3, 12, 1, &one),
            item(other, 1, 13, 1, &two),
        ])
        .await;
    fixture.add(&[item(app, 1, 20, 1, &two), item(app, 1, 21, 2, &two)]).await;
    let list = async |app, user| {
        let filter = InboxFilter::default();
        let start = store::inbox::list::PageStart::Offset(0);
        let items =
            fixture.store.inbox().list_inbox(app, UserNumber(user), filter, start, 10).await.unwrap().items;
        items.into_iter().map(|item| (item.id.0, item.content)).collect::<Vec<_>>()
    };
    let row = |id: i64, content: &Arc<str>| (id, content.to_string());
    assert_eq!(list(app, 1).await, [row(21, &two), row(10, &one)]);
    assert_eq!((list(app, 2).await, list(app, 3).await), (vec![row(11, &two)], vec![row(12, &one)]));
    assert_eq!(list(other, 1).await, [row(13, &two)]);
    assert_eq!(fixture.counters().await, fixture.recounted().await);
}

#[tokio::test]
async fn the_first_of_two_items_of_a_send_in_one_batch_is_kept() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    // The planner may choose another kind of join for 500 users than for 3.
    for (round, users) in [(1, 3), (2, 500)] {
        let adds = |first: i64, content: Arc<str>| {
            (0..users).map(move |user| item(app, user, first + user, round, &content)).collect::<Vec<_>>()
        };
        let first = i64::try_from(round).unwrap() * 10_000;
        fixture.add(&[adds(first, content(1)), adds(first + 5_000, content(2))].concat()).await;
    }
    let late = "SELECT count(*) FROM inbox_item WHERE id % 10000 >= 5000 OR content->>'n' <> '1'";
    assert_eq!(fixture.count(late).await, 0);
    assert_eq!(fixture.count("SELECT count(*) FROM inbox_item").await, 503);
}

#[tokio::test]
async fn a_deleted_item_is_a_tombstone_without_content() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.add(&[item(app, 1, 10, 1, &content(1))]).await;
    let key = (app, UserNumber(1), ItemId(10));
    fixture.change(key, ItemChange::Read).await;
    let state = ItemState { seen_at: Some(NOW), clicked_at: Some(NOW), ..ItemState::default() };
    assert_eq!(
        fixture.batch().await.states(&[key, (app, UserNumber(2), ItemId(10))]).await.unwrap(),
        [(key, state)]
    );
    fixture.change(key, ItemChange::Deleted).await;
    fixture.add(&[item(app, 1, 10, 1, &content(1)), item(app, 1, 20, 1, &content(1))]).await;
    let tombstones = "SELECT count(*) FROM inbox_item WHERE deleted_at IS NOT NULL AND content IS NULL";
    assert_eq!(fixture.count(tombstones).await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM inbox_item").await, 1);
    assert_eq!(fixture.counters().await, BTreeMap::new());
}

#[tokio::test]
async fn a_change_to_a_whole_inbox_touches_only_affected_items() {
    let later = NOW + std::time::Duration::from_secs(60);
    // Each case has a change, and the expected times (seen, read, deleted) of the items 10 (new), 11 (seen before), 12 (read
    // before) and 30 (beyond the limit).
    let cases = [
        (AllChange::Seen, [vec![later], vec![NOW], vec![NOW, NOW], vec![]]),
        (AllChange::Read, [vec![later, later], vec![NOW, later], vec![NOW, NOW], vec![]]),
    ];
    for (change, expected) in cases {
        let fixture = fixture().await;
        let app = fixture.app("shop").await;
        let others = [item(app, 2, 13, 1, &content(1)), item(AppId(app.0 + 1), 1, 10, 1, &content(1))];
        let own = [10, 11, 12, 30].map(|id| item(app, 1, id, id.unsigned_abs().into(), &content(1)));
        fixture.add(&[own.to_vec(), others.to_vec()].concat()).await;
        let keys = [10, 11, 12, 30].map(|id| (app, UserNumber(1), ItemId(id)));
        fixture.change(keys[1], ItemChange::Seen).await;
        fixture.change(keys[2], ItemChange::Read).await;
        let inbox = WholeInbox { app, user: UserNumber(1), up_to: ItemId(29), change, at: later };
        // A repeated change has no effect.
        for at in [later, later + std::time::Duration::from_secs(1)] {
            let mut batch = fixture.batch().await;
            batch.change_all(WholeInbox { at, ..inbox }).await.unwrap();
            batch.commit().await.unwrap();
            let mut states = fixture.batch().await.states(&keys).await.unwrap();
            states.sort_by_key(|(key, _)| *key);
            let found = states.into_iter().map(|(_, state)| {
                [state.seen_at, state.clicked_at, state.deleted_at].into_iter().flatten().collect::<Vec<_>>()
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{change:?}");
            assert_eq!(fixture.counters().await, fixture.recounted().await, "{change:?}");
        }
        let untouched = "SELECT count(*) FROM inbox_item WHERE seen_at IS NULL AND deleted_at IS NULL";
        assert_eq!(fixture.count(untouched).await, 3, "{change:?}");
    }
}

#[tokio::test]
async fn deleting_a_whole_inbox_leaves_tombstones() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.add(&[item(app, 1, 10, 1, &content(1)), item(app, 1, 20, 2, &content(1))]).await;
    let user = UserNumber(1);
    let change = AllChange::Deleted;
    let mut batch = fixture.batch().await;
    batch.change_all(WholeInbox { app, user, up_to: ItemId(20), change, at: NOW }).await.unwrap();
    batch.commit().await.unwrap();
    fixture.add(&[item(app, 1, 10, 1, &content(1)), item(app, 1, 30, 2, &content(1))]).await;
    let tombstones = "SELECT count(*) FROM inbox_item
                      WHERE deleted_at IS NOT NULL AND content IS NULL AND state IS NULL";
    assert_eq!(fixture.count(tombstones).await, 2);
    assert_eq!(fixture.counters().await, BTreeMap::new());
}

#[tokio::test]
async fn an_erased_user_has_no_rows_left() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let items = [(app, 1, 10), (app, 1, 11), (app, 2, 12), (other, 1, 13)]
        .map(|(app, user, id)| item(app, user, id, id.unsigned_abs().into(), &content(1)));
    fixture.add(&items).await;
    fixture.change((app, UserNumber(1), ItemId(11)), ItemChange::Deleted).await;
    let mut batch = fixture.batch().await;
    // Items that the same batch has added are erased too.
    batch.add_new(&[item(app, 1, 20, 20, &content(1))]).await.unwrap();
    batch.erase(app, UserNumber(1)).await.unwrap();
    batch.commit().await.unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM inbox_item").await, 2);
    assert_eq!(fixture.count("SELECT count(*) FROM inbox_counter").await, 2);
    assert_eq!(fixture.counters().await, fixture.recounted().await);
}

#[tokio::test]
async fn a_dead_event_is_kept_with_its_cause_and_no_longer_counted() {
    let fixture = fixture().await;
    fixture.store.database().count_failure(STREAM, 7, "broken").await.unwrap();
    let mut batch = fixture.batch().await;
    for _ in 0..2 {
        batch.dead_letter(STREAM, 7, &[0, 255], "broken").await.unwrap();
    }
    batch.commit().await.unwrap();
    let dead = "SELECT count(*) FROM dead_event
                WHERE (projection, stream, seq, message, cause) = ('inbox', 'INBOX_0', 7, '\\x00ff', 'broken')";
    assert_eq!(fixture.count(dead).await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM message_failure").await, 0);
}

#[tokio::test]
async fn counters_equal_a_recount_after_any_batches() {
    const ALL_CHANGES: [AllChange; 3] = [AllChange::Seen, AllChange::Read, AllChange::Deleted];
    let fixture = fixture().await;
    let apps = [fixture.app("shop").await, fixture.app("bank").await];
    let mut random = RandomNumbers(42);
    let mut number = |end: u64| i64::try_from(random.below(end)).unwrap();
    for round in 0..200 {
        let mut batch = fixture.batch().await;
        let adds: Vec<_> = (0..number(12))
            .map(|place| {
                let app = apps[usize::try_from(number(2)).unwrap()];
                item(app, number(5), round * 100 + place, number(40).unsigned_abs().into(), &content(1))
            })
            .collect();
        batch.add(&adds).await.unwrap();
        let named: Vec<ItemKey> = fixture.some_items(number(1_000)).await;
        let before = batch.states(&named).await.unwrap();
        let changes: Vec<_> = before
            .into_iter()
            .map(|(key, old)| {
                let mut new = old.clone();
                for _ in 0..number(4) {
                    match usize::try_from(number(9)).unwrap() {
                        7 => new.snooze(NOW),
                        8 => new.end_snooze(Some(NOW)),
                        change => new.apply(ItemChange::ALL[change], NOW),
                    }
                }
                StateChange { key, old, new }
            })
            .collect();
        batch.change(&changes).await.unwrap();
        if round % 5 == 0 {
            let app = apps[usize::try_from(number(2)).unwrap()];
            let user = UserNumber(number(5));
            let up_to = ItemId(round * 100 - 200 + number(300));
            let change = ALL_CHANGES[usize::try_from(number(3)).unwrap()];
            batch.change_all(WholeInbox { app, user, up_to, change, at: NOW }).await.unwrap();
        }
        if round % 50 == 49 {
            batch.erase(apps[0], UserNumber(number(5))).await.unwrap();
        }
        batch.commit().await.unwrap();
        assert_eq!(fixture.counters().await, fixture.recounted().await, "round {round}");
    }
    assert!(!fixture.counters().await.is_empty());
    assert!(fixture.count("SELECT count(*) FROM inbox_item WHERE deleted_at IS NOT NULL").await > 0);
}

impl Fixture {
    /// Returns up to eight items in a pseudo-random order. Some of them may be deleted.
    async fn some_items(&self, seed: i64) -> Vec<ItemKey> {
        let rows = sqlx::query(
            "SELECT app_id, user_number, id FROM inbox_item ORDER BY md5((id + $1)::text) LIMIT 8",
        )
        .bind(seed)
        .fetch_all(&self.pool)
        .await
        .unwrap();
        rows.iter().map(|row| (AppId(row.get(0)), UserNumber(row.get(1)), ItemId(row.get(2)))).collect()
    }
}
