//! Comparison of the projection with a model that applies one event after the other. The rows must be the same for any events,
//! any division into batches, and any position from which the log is read again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use domain::content::InAppContent;
use domain::event::{
    AllItemsChanged, ItemStateSet, ItemsAdded, ItemsChanged, ItemsSnoozed, SnoozesEnded, UserErased,
};
use domain::inbox::{AllChange, ItemChange};
use domain::{AppId, Envelope, Event, ItemId, SendId, Timestamp, UserNumber};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sqlx::Row as _;
use uuid::Uuid;

use testkit::WRONG_COUNTERS;

use crate::world::{NOW, STREAM, World};

const USERS: i64 = 3;
const CASES: u32 = 24;
/// Snoozes end after this time, so the service does not end them by itself.
const FAR: std::time::Duration = std::time::Duration::from_secs(100 * 365 * 86_400);

/// An event. `item` names an item by the event that added it, counted from the first event, and by its index in that event.
#[derive(Clone, Debug)]
enum Step {
    Added {
        send: u8,
        users: Vec<i64>,
    },
    Changed {
        user: i64,
        item: (u64, u32),
        change: ItemChange,
    },
    StateSet {
        user: i64,
        item: (u64, u32),
        state: Option<String>,
    },
    /// Times are in milliseconds after [`FAR`].
    Snoozed {
        user: i64,
        item: (u64, u32),
        until: u32,
    },
    SnoozeEnded {
        user: i64,
        item: (u64, u32),
        due: Option<u32>,
    },
    AllChanged {
        user: i64,
        item: (u64, u32),
        change: AllChange,
    },
    Erased {
        user: i64,
    },
}

/// The events of a log, the number of events in each published batch, and the index of the event from which the events are read
/// a second time.
type Case = (Vec<Step>, Vec<usize>, u64);

fn case() -> impl Strategy<Value = Case> {
    let user = || 1..=USERS;
    // Some of these items are added later, or never.
    let item = || (0..40_u64, 0..3_u32);
    let change = prop::sample::select(&ItemChange::ALL);
    let all =
        prop_oneof![3 => Just(AllChange::Seen), 3 => Just(AllChange::Read), 1 => Just(AllChange::Deleted)];
    let step = prop_oneof![
        8 => (0..16_u8, prop::collection::vec(user(), 1..4)).prop_map(|(send, users)| Step::Added { send, users }),
        14 => (user(), item(), change).prop_map(|(user, item, change)| Step::Changed { user, item, change }),
        4 => (user(), item(), 0..5_u32).prop_map(|(user, item, until)| Step::Snoozed { user, item, until }),
        4 => (user(), item(), prop::option::of(0..5_u32))
            .prop_map(|(user, item, due)| Step::SnoozeEnded { user, item, due }),
        4 => (user(), item(), prop::option::of("[ab]"))
            .prop_map(|(user, item, state)| Step::StateSet { user, item, state }),
        4 => (user(), item(), all).prop_map(|(user, item, change)| Step::AllChanged { user, item, change }),
        1 => user().prop_map(|user| Step::Erased { user }),
    ];
    (prop::collection::vec(step, 1..40), prop::collection::vec(1..12_usize, 1..6), 0..40_u64)
}

/// A row of the model. `seen`, `read`, `deleted` and `archived` contain the number of the step that set them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    send: u8,
    seen: Option<i64>,
    read: Option<i64>,
    deleted: Option<i64>,
    state: Option<String>,
    archived: Option<i64>,
    snoozed: Option<i64>,
}

impl Row {
    fn is_listed(&self) -> bool {
        self.archived.is_none() && self.snoozed.is_none()
    }
}

/// Rows by user and id.
type Rows = BTreeMap<(i64, i64), Row>;

fn id((distance, index): (u64, u32), first: u64) -> ItemId {
    ItemId::derive(first + distance, 0, 1, index).unwrap()
}

fn expected(steps: &[Step], first: u64) -> Rows {
    let (mut rows, mut erased) = (Rows::new(), Vec::new());
    for (at, step) in (0_i64..).zip(steps) {
        let own = id((at.unsigned_abs(), 0), first);
        match step {
            Step::Added { send, users } => {
                for (index, user) in (0..).zip(users) {
                    let known = rows.iter().any(|((owner, _), row)| owner == user && row.send == *send);
                    if !known && !erased.contains(user) {
                        rows.insert((*user, own.0 + index), Row { send: *send, ..Row::default() });
                    }
                }
            }
            Step::Changed { user, item, change } => {
                let item = id(*item, first).0;
                change_items(&mut rows, |&key, _| key == (*user, item), *change, at);
            }
            Step::Snoozed { user, item, until } => {
                let row = rows.get_mut(&(*user, id(*item, first).0));
                if let Some(row) = row.filter(|row| row.deleted.is_none()) {
                    (row.snoozed, row.archived) = (Some(i64::from(*until)), None);
                }
            }
            Step::SnoozeEnded { user, item, due } => {
                let row = rows.get_mut(&(*user, id(*item, first).0));
                let is_due = |until| due.is_none_or(|due| until <= i64::from(due));
                if let Some(row) = row.filter(|row| row.snoozed.is_some_and(is_due)) {
                    (row.snoozed, row.seen, row.read) = (None, None, None);
                }
            }
            Step::StateSet { user, item, state } => {
                let row = rows.get_mut(&(*user, id(*item, first).0));
                if let Some(row) = row.filter(|row| row.deleted.is_none()) {
                    row.state.clone_from(state);
                }
            }
            Step::AllChanged { user, item, change } => {
                let change = match change {
                    AllChange::Seen => ItemChange::Seen,
                    AllChange::Read => ItemChange::Read,
                    AllChange::Deleted => ItemChange::Deleted,
                };
                let up_to = id(*item, first).0;
                let is_meant = |(owner, item): &(i64, i64), row: &Row| {
                    owner == user && *item <= up_to && row.is_listed()
                };
                change_items(&mut rows, is_meant, change, at);
            }
            Step::Erased { user } => {
                rows.retain(|(owner, _), _| owner != user);
                erased.push(*user);
            }
        }
    }
    rows
}

fn change_items(rows: &mut Rows, is_meant: impl Fn(&(i64, i64), &Row) -> bool, change: ItemChange, at: i64) {
    let meant = rows.iter_mut().filter(|(key, row)| is_meant(key, row) && row.deleted.is_none());
    for (_, row) in meant {
        match change {
            ItemChange::Seen => row.seen = row.seen.or(Some(at)),
            ItemChange::Unseen => (row.seen, row.read) = (None, None),
            ItemChange::Read => (row.seen, row.read) = (row.seen.or(Some(at)), row.read.or(Some(at))),
            ItemChange::Unread => row.read = None,
            ItemChange::Deleted => {
                (row.deleted, row.state, row.archived, row.snoozed) = (Some(at), None, None, None);
            }
            ItemChange::Archived => (row.archived, row.snoozed) = (row.archived.or(Some(at)), None),
            ItemChange::Unarchived => row.archived = None,
        }
    }
}

fn event(app: AppId, step: &Step, at: Timestamp, first: u64) -> Vec<u8> {
    let mut send_id = None;
    let event = match step.clone() {
        Step::Added { send, users } => {
            send_id = Some(SendId(Uuid::from_u128(send.into())));
            Event::InboxItemsAdded(ItemsAdded {
                created_at: at,
                category_id: None,
                first: 0,
                contents: vec![InAppContent::default()],
                recipients: users.into_iter().map(|user| (UserNumber(user), 0)).collect(),
            })
        }
        Step::Changed { user, item, change } => Event::InboxItemsChanged(
            change,
            ItemsChanged { user: UserNumber(user), items: vec![id(item, first)] },
        ),
        Step::StateSet { user, item, state } => {
            Event::InboxItemStateSet(ItemStateSet { user: UserNumber(user), item: id(item, first), state })
        }
        Step::Snoozed { user, item, until } => {
            let until = NOW + FAR + std::time::Duration::from_millis(until.into());
            Event::InboxItemsSnoozed(ItemsSnoozed {
                user: UserNumber(user),
                items: vec![id(item, first)],
                until,
            })
        }
        Step::SnoozeEnded { user, item, due } => {
            let due = due.map(|due| NOW + FAR + std::time::Duration::from_millis(due.into()));
            Event::InboxSnoozesEnded(SnoozesEnded {
                user: UserNumber(user),
                items: vec![id(item, first)],
                due,
            })
        }
        Step::AllChanged { user, item, change } => {
            Event::InboxAllChanged(change, AllItemsChanged { user: UserNumber(user), up_to: id(item, first) })
        }
        Step::Erased { user } => Event::UserErased(UserErased { user: UserNumber(user), digest: None }),
    };
    let id = Uuid::new_v5(&Uuid::nil(), format!("{app} {at:?} {step:?}").as_bytes());
    Envelope { id, app, at, send_id, caused_by: None, trace: None, event }.encode().unwrap()
}

impl World {
    async fn rows(&self, app: AppId) -> Rows {
        let rows = sqlx::query(
            "SELECT user_number, id, send_id, state, content IS NULL AS blank,
               (extract(epoch FROM seen_at) * 1000)::bigint - $2 AS seen,
               (extract(epoch FROM clicked_at) * 1000)::bigint - $2 AS read,
               (extract(epoch FROM deleted_at) * 1000)::bigint - $2 AS deleted,
               (extract(epoch FROM archived_at) * 1000)::bigint - $2 AS archived,
               (extract(epoch FROM snoozed_until) * 1000)::bigint - $3 AS snoozed
             FROM inbox_item WHERE app_id = $1",
        )
        .bind(app.0)
        .bind(NOW.millis())
        .bind((NOW + FAR).millis())
        .fetch_all(&self.pool)
        .await
        .unwrap();
        let row = |row: &sqlx::postgres::PgRow| {
            let send: Uuid = row.get("send_id");
            let (seen, read, deleted): (_, _, Option<i64>) =
                (row.get("seen"), row.get("read"), row.get("deleted"));
            assert_eq!(row.get::<bool, _>("blank"), deleted.is_some());
            let state = row.get("state");
            let send = u8::try_from(send.as_u128()).unwrap();
            let (archived, snoozed) = (row.get("archived"), row.get("snoozed"));
            let value = Row { send, seen, read, deleted, state, archived, snoozed };
            ((row.get("user_number"), row.get("id")), value)
        };
        rows.iter().map(row).collect()
    }

    /// Publishes the steps in batches of these lengths. Then makes the projection read the last steps again. Returns the expected
    /// rows, the rows before the second reading, and the rows after it.
    async fn project(&self, app: AppId, (steps, lengths, again): &Case) -> (Rows, Rows, Rows) {
        let first = self.context.log.state(STREAM).await.unwrap().last_seq + 1;
        let at = |number: usize| NOW + std::time::Duration::from_millis(number as u64);
        let mut events: Vec<_> =
            steps.iter().enumerate().map(|(number, step)| event(app, step, at(number), first)).collect();
        for length in lengths.iter().cycle() {
            if events.is_empty() {
                break;
            }
            let rest = events.split_off(*length.min(&events.len()));
            self.publish(std::mem::replace(&mut events, rest)).await;
            self.projected().await;
        }
        let once = self.rows(app).await;
        for step in steps {
            if let Step::Erased { user } = step {
                self.erase(app, *user).await;
            }
        }
        let from = first - 1 + again % steps.len() as u64;
        sqlx::query("UPDATE checkpoint SET seq = $1")
            .bind(from.cast_signed())
            .execute(&self.pool)
            .await
            .unwrap();
        // A new event makes the projection read the checkpoint again.
        let nothing = Step::Changed { user: USERS, item: (0, 500), change: ItemChange::Seen };
        self.publish(vec![event(app, &nothing, NOW, first)]).await;
        self.projected().await;
        (expected(steps, first), once, self.rows(app).await)
    }
}

#[test]
fn rows_equal_a_model_for_any_division_of_the_log_into_batches() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(async {
        let world = World::start().await;
        world.context.serve("inbox", inbox::run);
        world
    });
    let apps = AtomicU32::new(1);
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    let checked = TestRunner::new(config).run(&case(), |case| {
        let name = apps.fetch_add(1, Ordering::Relaxed).to_string();
        let app = runtime.block_on(world.app(&name));
        let (expected, once, again) = runtime.block_on(world.project(app, &case));
        prop_assert_eq!(&once, &expected, "rows after the first reading");
        prop_assert_eq!(&again, &expected, "rows after the second reading");
        prop_assert_eq!(runtime.block_on(world.count(WRONG_COUNTERS)), 0);
        Ok(())
    });
    checked.unwrap();
    assert_eq!(runtime.block_on(world.count("SELECT count(*) FROM dead_event")), 0);
    let _runtime = runtime.enter();
    drop(world);
}
