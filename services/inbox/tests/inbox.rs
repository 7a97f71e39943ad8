//! The projection on real servers: whatever the log holds, each inbox has each send once, and its counters agree.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::time::Duration;

use domain::content::InAppContent;
use domain::event::{ItemsAdded, ItemsChanged};
use domain::id::partition;
use domain::inbox::ItemChange;
use domain::{AppId, Envelope, Event, ItemId, SendId, StreamName, Timestamp, UserNumber};
use event_log::Message;
use service_kit::{Config, Context, MasterKey, connections, installation};
use sqlx::PgPool;
use store::projection::INBOX;
use tempfile::TempDir;
use testkit::{Database, NatsServer, eventually};
use uuid::Uuid;

const SOON: Duration = Duration::from_secs(30);
const APP: AppId = AppId(1);
const STREAM: StreamName = StreamName::Inbox(0);

/// Servers of its own, and nobody who projects yet.
struct World {
    context: Context,
    database: PgPool,
    _database: Database,
    _nats: NatsServer,
    _files: TempDir,
}

impl World {
    /// One partition.
    async fn start() -> World {
        World::with_partitions(1).await
    }

    async fn with_partitions(partitions: u32) -> World {
        let database = Database::create().await;
        let nats = NatsServer::start().await.unwrap();
        let files = tempfile::tempdir().unwrap();
        let key_file = files.path().join("master.key");
        MasterKey::generate_file(&key_file).unwrap();
        let mut config = Config::default();
        config.database.url = Some(database.url().parse().unwrap());
        config.nats.url = Some(nats.url().parse().unwrap());
        config.security.master_key_file = Some(key_file);
        let store = connections::store(&config, SOON).await.unwrap();
        let log = connections::event_log(&config, SOON).await.unwrap();
        store.migrate().await.unwrap();
        installation::prepare(&store, &log, partitions).await.unwrap();
        let pool = PgPool::connect(database.url()).await.unwrap();
        let context = Context::connect(config).await.unwrap();
        World { context, database: pool, _database: database, _nats: nats, _files: files }
    }

    /// Another process beside, or after, the first.
    async fn another(&self) -> Context {
        Context::connect(Config::clone(&self.context.config)).await.unwrap()
    }

    async fn publish(&self, payloads: Vec<Vec<u8>>) {
        let message = |payload: Vec<u8>| Message { stream: STREAM, id: None, payload: payload.into() };
        for appended in self.context.log.publish_all(payloads.into_iter().map(message).collect()).await {
            appended.unwrap();
        }
    }

    /// Waits until everything published is projected.
    async fn projected(&self) {
        let last = self.context.log.state(STREAM).await.unwrap().last_seq;
        eventually(SOON, "everything is projected", async || {
            let position = self.context.store.checkpoint(INBOX, STREAM).await.unwrap();
            (position == last).then_some(())
        })
        .await;
    }

    async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.database).await.unwrap()
    }
}

async fn stop(context: &Context) {
    context.tasks.stop();
    tokio::time::timeout(SOON, context.tasks.finish()).await.unwrap().unwrap();
}

impl Drop for World {
    fn drop(&mut self) {
        self.context.tasks.stop();
    }
}

fn envelope(send: Option<u128>, event: Event) -> Vec<u8> {
    let envelope = Envelope {
        id: Uuid::new_v5(&Uuid::nil(), format!("{send:?} {event:?}").as_bytes()),
        app: APP,
        at: Timestamp::from_millis(1_800_000_000_000),
        send_id: send.map(|send| SendId(Uuid::from_u128(send))),
        caused_by: None,
        trace: None,
        event,
    };
    envelope.encode().unwrap()
}

/// A send to users from 1 on.
fn added(send: u128, users: i64) -> Vec<u8> {
    let added = ItemsAdded {
        created_at: Timestamp::from_millis(1_800_000_000_000),
        category_id: None,
        contents: vec![InAppContent::default()],
        recipients: (1..=users).map(|user| (UserNumber(user), 0)).collect(),
    };
    envelope(Some(send), Event::InboxItemsAdded(added))
}

fn changed(seq: u64, change: ItemChange) -> Vec<u8> {
    let items = vec![ItemId::derive(seq, 0, 1, 0).unwrap()];
    envelope(None, Event::InboxItemsChanged(change, ItemsChanged { user: UserNumber(1), items }))
}

const WRONG_COUNTERS: &str = "
    SELECT count(*) FROM inbox_counter AS kept
    FULL JOIN (
        SELECT user_number, count(*) AS total, count(*) FILTER (WHERE clicked_at IS NULL) AS unread,
               count(*) FILTER (WHERE seen_at IS NULL) AS unseen
        FROM inbox_item WHERE deleted_at IS NULL GROUP BY user_number
    ) AS counted USING (user_number)
    WHERE (kept.total, kept.unread, kept.unseen) IS DISTINCT FROM (counted.total, counted.unread, counted.unseen)";

#[tokio::test]
async fn events_that_come_again_add_nothing() {
    let world = World::start().await;
    // Among others of their batch, across batches, cut otherwise than before, and after the item was read or deleted.
    world.publish(vec![added(1, 3), added(2, 400), added(2, 300), added(3, 500), added(4, 500)]).await;
    world.publish(vec![changed(1, ItemChange::Read), changed(2, ItemChange::Deleted)]).await;
    world.publish(vec![added(1, 4), added(2, 1), added(5, 2)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    world.publish(vec![added(2, 400), added(3, 500)]).await;
    world.projected().await;

    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 4 + 400 + 500 + 500 + 2);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item WHERE deleted_at IS NOT NULL").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item WHERE clicked_at IS NOT NULL").await, 1);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 0);
}

#[tokio::test]
async fn an_event_that_cannot_be_read_or_written_is_set_aside_and_the_rest_goes_on() {
    let world = World::start().await;
    let refuse = "ALTER TABLE inbox_item ADD CHECK (send_id <> '00000000-0000-0000-0000-000000000007')";
    sqlx::raw_sql(refuse).execute(&world.database).await.unwrap();
    let without_send = ItemsAdded {
        created_at: Timestamp::from_millis(0),
        category_id: None,
        contents: vec![InAppContent::default()],
        recipients: vec![(UserNumber(1), 0)],
    };
    let without_send = envelope(None, Event::InboxItemsAdded(without_send));
    world
        .publish(vec![added(1, 2), b"{".to_vec(), added(2, 2), added(7, 2), without_send, added(3, 2)])
        .await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;

    assert_eq!(world.count("SELECT count(DISTINCT send_id) FROM inbox_item").await, 3);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 6);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    let dead: Vec<i64> = sqlx::query_scalar("SELECT seq FROM dead_event ORDER BY seq")
        .fetch_all(&world.database)
        .await
        .unwrap();
    assert_eq!(dead, [2, 4, 5]);
}

#[tokio::test]
async fn a_refused_event_is_tried_five_times() {
    let world = World::start().await;
    // A sequence counts even what is rolled back.
    let refuse = "CREATE SEQUENCE tries;
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          PERFORM nextval('tries');
          RAISE EXCEPTION 'refused' USING ERRCODE = '22000';
        END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON inbox_item FOR EACH ROW EXECUTE FUNCTION refuse()";
    sqlx::raw_sql(refuse).execute(&world.database).await.unwrap();
    world.publish(vec![added(1, 1)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    // Twice among others, then five times by itself.
    assert_eq!(world.count("SELECT last_value FROM tries").await, 7);
    assert_eq!(world.count("SELECT count(*) FROM dead_event WHERE cause LIKE '%refused%'").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM message_failure").await, 0);
}

#[tokio::test]
async fn a_new_process_goes_on_where_the_last_one_stopped() {
    let world = World::start().await;
    let first = world.another().await;
    first.serve("inbox", inbox::run);
    world.publish(vec![added(1, 3), changed(1, ItemChange::Read)]).await;
    world.projected().await;
    stop(&first).await;
    // Were the first events read again, the item that is gone would come back.
    sqlx::raw_sql("DELETE FROM inbox_item; DELETE FROM inbox_counter")
        .execute(&world.database)
        .await
        .unwrap();
    world.publish(vec![added(2, 3)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 3);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
}

#[tokio::test]
async fn two_processes_end_with_the_rows_of_one() {
    let world = World::start().await;
    let others = [world.another().await, world.another().await];
    for other in &others {
        other.serve("inbox", inbox::run);
    }
    for send in 0..60 {
        let first = u64::try_from(send * 3 + 1).unwrap();
        world.publish(vec![added(send, 40), added(send, 50), changed(first, ItemChange::Read)]).await;
    }
    world.projected().await;
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 60 * 50);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item WHERE clicked_at IS NOT NULL").await, 60);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 0);
    for other in &others {
        stop(other).await;
    }
}

#[tokio::test]
async fn events_of_another_partition_are_set_aside() {
    let world = World::with_partitions(2).await;
    let user = (1..).map(UserNumber).find(|user| partition(APP, *user, 2) == 1).unwrap();
    let foreign_item = ItemsAdded {
        created_at: Timestamp::from_millis(0),
        category_id: None,
        contents: vec![InAppContent::default()],
        recipients: vec![(user, 0)],
    };
    let foreign_change = ItemsChanged { user, items: vec![ItemId(1)] };
    let mut crowded = foreign_item.clone();
    let own = (1..).map(UserNumber).filter(|user| partition(APP, *user, 2) == 0);
    crowded.recipients = own.take(513).map(|user| (user, 0)).collect();
    world
        .publish(vec![
            envelope(Some(1), Event::InboxItemsAdded(foreign_item)),
            envelope(None, Event::InboxItemsChanged(ItemChange::Read, foreign_change)),
            envelope(Some(2), Event::InboxItemsAdded(crowded)),
        ])
        .await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 3);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 0);
}

#[tokio::test]
async fn an_unknown_type_is_skipped_and_a_newer_version_halts() {
    let world = World::start().await;
    let with = |from: &str, to: &str| {
        let text = String::from_utf8(added(2, 1)).unwrap();
        assert!(text.contains(from));
        text.replace(from, to).into_bytes()
    };
    let (unknown, newer) = (with("InboxItemsAdded", "InboxPainted"), with("\"v\":1", "\"v\":2"));
    world.publish(vec![added(1, 1), unknown, added(3, 1), newer, added(4, 1)]).await;
    let other = world.another().await;
    other.serve("inbox", inbox::run);
    let ended = tokio::time::timeout(SOON, other.tasks.finish()).await.unwrap();
    assert_eq!(ended, Err(service_kit::ShutdownError::Failed("inbox partition")));
    assert_eq!(world.context.store.checkpoint(INBOX, STREAM).await.unwrap(), 3);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 2);
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 0);
}

#[tokio::test]
async fn positions_are_announced() {
    let world = World::start().await;
    let mut positions = world.context.log.positions().await.unwrap();
    world.publish(vec![added(1, 1), added(2, 1)]).await;
    world.context.serve("inbox", inbox::run);
    let announced = async {
        loop {
            let position = positions.next().await.unwrap();
            assert_eq!(position.stream, STREAM.to_string());
            if position.seq == 2 {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, announced).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 2, "it is visible when it is announced");
}
