//! Inboxes after random events and removals, compared with a model.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use domain::content::InAppContent;
use domain::event::{AllItemsChanged, ItemsAdded, ItemsChanged};
use domain::inbox::{AllChange, ItemChange};
use domain::{AppId, Envelope, Event, ItemId, SendId, Timestamp, UserNumber};
use event_log::Message;
use inbox::Retention;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sqlx::Row as _;
use uuid::Uuid;

use testkit::WRONG_COUNTERS;

use crate::world::{NOW, STREAM, World};

const CASES: u32 = 24;
const DAY: Duration = Duration::from_secs(86_400);
const KEEP: u32 = 10;
const KEEP_PER_USER: usize = 3;

/// A step of a case. Apps are 0 and 1, and users 1 and 2. `item` names an item by the number of items that were added since. Times
/// are in days.
#[derive(Clone, Debug)]
enum Step {
    /// The items are as old as their send, which was accepted on the day with its number.
    Added {
        app: usize,
        users: Vec<i64>,
        send: u8,
    },
    Changed {
        app: usize,
        user: i64,
        item: usize,
        change: ItemChange,
    },
    AllChanged {
        app: usize,
        user: i64,
        change: AllChange,
    },
    Round {
        day: u32,
    },
}

fn case() -> impl Strategy<Value = Vec<Step>> {
    let (app, user) = (|| 0..2_usize, || 1..=2_i64);
    let users = prop_oneof![Just(vec![1]), Just(vec![2]), Just(vec![1, 2])];
    let change = prop::sample::select(&ItemChange::ALL);
    let all =
        prop_oneof![3 => Just(AllChange::Seen), 3 => Just(AllChange::Read), 1 => Just(AllChange::Deleted)];
    let step = prop_oneof![
        10 => (app(), users, 0..25_u8).prop_map(|(app, users, send)| Step::Added { app, users, send }),
        6 => (app(), user(), 0..12_usize, change)
            .prop_map(|(app, user, item, change)| Step::Changed { app, user, item, change }),
        1 => (app(), user(), all).prop_map(|(app, user, change)| Step::AllChanged { app, user, change }),
        3 => (0..40_u32).prop_map(|day| Step::Round { day }),
    ];
    prop::collection::vec(step, 1..50)
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    send: u8,
    created: Timestamp,
    is_seen: bool,
    is_read: bool,
    is_deleted: bool,
    is_archived: bool,
}

/// Rows by app (0 or 1), user and id.
type Rows = BTreeMap<(usize, i64, i64), Row>;

fn apply(row: &mut Row, change: ItemChange) {
    if row.is_deleted {
        return;
    }
    match change {
        ItemChange::Seen => row.is_seen = true,
        ItemChange::Unseen => (row.is_seen, row.is_read) = (false, false),
        ItemChange::Read => (row.is_seen, row.is_read) = (true, true),
        ItemChange::Unread => row.is_read = false,
        ItemChange::Deleted => (row.is_deleted, row.is_archived) = (true, false),
        ItemChange::Archived => row.is_archived = true,
        ItemChange::Unarchived => row.is_archived = false,
    }
}

/// Removes from the model what a round at `now` removes: rows by age, then the oldest items of each inbox that exceed the maximum.
fn remove(rows: &mut Rows, now: Timestamp) {
    rows.retain(|_, row| row.created >= now - DAY * KEEP);
    for (app, user) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        let mut listed: Vec<_> = rows
            .iter()
            .filter(|((of, owner, _), row)| (*of, *owner) == (app, user) && !row.is_deleted)
            .map(|(key, row)| (row.created, *key))
            .collect();
        listed.sort_unstable_by(|one, other| other.cmp(one));
        for (_, key) in listed.into_iter().skip(KEEP_PER_USER) {
            apply(rows.get_mut(&key).unwrap(), ItemChange::Deleted);
        }
    }
}

/// Runs steps on the installation and on the model.
struct Run<'a> {
    world: &'a World,
    retention: Retention,
    apps: [AppId; 2],
    model: Rows,
    /// Ids of all items that were published, oldest first.
    published: Vec<i64>,
}

impl Run<'_> {
    async fn publish(&self, app: usize, send: Option<u8>, event: Event) -> u64 {
        let id =
            Uuid::new_v5(&Uuid::nil(), format!("{} {}", self.apps[app], self.published.len()).as_bytes());
        let send_id = send.map(|send| SendId(Uuid::from_u128(send.into())));
        let envelope =
            Envelope { id, app: self.apps[app], at: NOW, send_id, caused_by: None, trace: None, event };
        let message = Message { stream: STREAM, id: None, payload: envelope.encode().unwrap().into() };
        self.world.context.log.publish(message).await.unwrap().seq
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Added { app, users, send } => {
                let created_at = NOW + DAY * u32::from(*send);
                let recipients = users.iter().map(|user| (UserNumber(*user), 0)).collect();
                let contents = vec![InAppContent::default()];
                let added = ItemsAdded { created_at, category_id: None, first: 0, contents, recipients };
                let seq = self.publish(*app, Some(*send), Event::InboxItemsAdded(added)).await;
                for (index, user) in (0..).zip(users) {
                    let id = ItemId::derive(seq, 0, 1, index).unwrap().0;
                    self.published.push(id);
                    let is_known = self
                        .model
                        .iter()
                        .any(|((of, owner, _), row)| (of, owner) == (app, user) && row.send == *send);
                    if !is_known {
                        let row = Row {
                            send: *send,
                            created: created_at,
                            is_seen: false,
                            is_read: false,
                            is_deleted: false,
                            is_archived: false,
                        };
                        self.model.insert((*app, *user, id), row);
                    }
                }
            }
            Step::Changed { app, user, item, change } => {
                let Some(&id) = self.published.iter().rev().nth(*item) else { return };
                let changed = ItemsChanged { user: UserNumber(*user), items: vec![ItemId(id)] };
                self.publish(*app, None, Event::InboxItemsChanged(*change, changed)).await;
                if let Some(row) = self.model.get_mut(&(*app, *user, id)) {
                    apply(row, *change);
                }
            }
            Step::AllChanged { app, user, change } => {
                let up_to = ItemId(self.published.last().copied().unwrap_or(1));
                let all = AllItemsChanged { user: UserNumber(*user), up_to };
                self.publish(*app, None, Event::InboxAllChanged(*change, all)).await;
                let change = match change {
                    AllChange::Seen => ItemChange::Seen,
                    AllChange::Read => ItemChange::Read,
                    AllChange::Deleted => ItemChange::Deleted,
                };
                let inbox = self
                    .model
                    .iter_mut()
                    .filter(|((of, owner, _), row)| (of, owner) == (app, user) && !row.is_archived);
                inbox.for_each(|(_, row)| apply(row, change));
            }
            Step::Round { day } => {
                let now = NOW + DAY * *day;
                self.world.projected().await;
                self.retention.round(now).await.unwrap();
                self.world.projected().await;
                remove(&mut self.model, now);
            }
        }
    }

    async fn rows(&self) -> Rows {
        self.world.projected().await;
        let rows = sqlx::query(
            "SELECT app_id, user_number, id, send_id, (extract(epoch FROM created_at) * 1000)::bigint AS created,
               seen_at IS NOT NULL AS seen, clicked_at IS NOT NULL AS read, deleted_at IS NOT NULL AS deleted,
               archived_at IS NOT NULL AS archived
             FROM inbox_item WHERE app_id = ANY($1)",
        )
        .bind(self.apps.map(|app| app.0).to_vec())
        .fetch_all(&self.world.pool)
        .await
        .unwrap();
        let row = |row: &sqlx::postgres::PgRow| {
            let app = usize::from(row.get::<i64, _>("app_id") == self.apps[1].0);
            let send: Uuid = row.get("send_id");
            let value = Row {
                send: u8::try_from(send.as_u128()).unwrap(),
                created: Timestamp::from_millis(row.get("created")),
                is_seen: row.get("seen"),
                is_read: row.get("read"),
                is_deleted: row.get("deleted"),
                is_archived: row.get("archived"),
            };
            ((app, row.get("user_number"), row.get("id")), value)
        };
        rows.iter().map(row).collect()
    }
}

#[test]
fn inboxes_equal_a_model_after_any_events_and_removals() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(async {
        let world = World::start().await;
        world.context.serve("inbox", inbox::run);
        world
    });
    let apps = AtomicU32::new(1);
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    let checked = TestRunner::new(config).run(&case(), |steps| {
        let app = || runtime.block_on(world.app(&apps.fetch_add(1, Ordering::Relaxed).to_string()));
        let apps = [app(), app()];
        let retention = world.retention(DAY * KEEP, u32::try_from(KEEP_PER_USER).unwrap());
        let mut run = Run { world: &world, retention, apps, model: Rows::new(), published: Vec::new() };
        for step in &steps {
            runtime.block_on(run.step(step));
        }
        let found = runtime.block_on(run.rows());
        prop_assert_eq!(&found, &run.model);
        prop_assert_eq!(runtime.block_on(world.count(WRONG_COUNTERS)), 0);
        Ok(())
    });
    checked.unwrap();
    assert_eq!(runtime.block_on(world.differing()), 0);
    assert_eq!(runtime.block_on(world.count("SELECT count(*) FROM dead_event")), 0);
    let _runtime = runtime.enter();
    drop(world);
}
