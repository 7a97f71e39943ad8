//! Servers of its own for a test, and events to publish.

use std::time::Duration;

use credentials::MasterKey;
use domain::content::InAppContent;
use domain::event::{AllChanged, ItemsAdded, ItemsChanged};
use domain::inbox::{AllChange, ItemChange};
use domain::{AppId, Envelope, Event, ItemId, SendId, StreamName, Timestamp, UserNumber};
use event_log::Message;
use local_servers::NatsServer;
use service_kit::{Config, Context, connections, installation};
use sqlx::PgPool;
use store::control::app::{NewApp, NewSecret};
use store::inbox::projection::INBOX;
use tempfile::TempDir;
use testkit::{Database, eventually};
use uuid::Uuid;

pub(crate) const SOON: Duration = Duration::from_secs(30);
pub(crate) const APP: AppId = AppId(1);
pub(crate) const STREAM: StreamName = StreamName::Inbox(0);
/// When everything happens.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Servers of its own, and nobody who projects yet.
pub(crate) struct World {
    pub(crate) context: Context,
    pub(crate) database: PgPool,
    _database: Database,
    _nats: NatsServer,
    _files: TempDir,
}

impl World {
    /// One partition.
    pub(crate) async fn start() -> World {
        World::with_partitions(1).await
    }

    pub(crate) async fn with_partitions(partitions: u32) -> World {
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
    pub(crate) async fn another(&self) -> Context {
        Context::connect(Config::clone(&self.context.config)).await.unwrap()
    }

    pub(crate) async fn publish(&self, payloads: Vec<Vec<u8>>) {
        let message = |payload: Vec<u8>| Message { stream: STREAM, id: None, payload: payload.into() };
        for appended in self.context.log.publish_all(payloads.into_iter().map(message).collect()).await {
            appended.unwrap();
        }
    }

    /// An app that the directory knows; the first has the number 1.
    pub(crate) async fn app(&self, name: &str) -> AppId {
        let new = NewApp { name, api_key: name, development: true };
        let draft = self.context.store.control().create_app(new, "test").await.unwrap().unwrap();
        draft.commit(NewSecret { digest: name.as_bytes(), sealed: b"sealed" }).await.unwrap()
    }

    /// Notes in the directory that a user was erased.
    pub(crate) async fn erase(&self, app: AppId, user: i64) {
        sqlx::query(
            "INSERT INTO erased (app_id, user_number, erased_at) VALUES ($1, $2, now()) ON CONFLICT DO NOTHING",
        )
        .bind(app.0)
        .bind(user)
        .execute(&self.database)
        .await
        .unwrap();
    }

    /// Waits until everything published is projected.
    pub(crate) async fn projected(&self) {
        let last = self.context.log.state(STREAM).await.unwrap().last_seq;
        eventually(SOON, "everything is projected", async || {
            let position = self.context.store.inbox().checkpoint(INBOX, STREAM).await.unwrap();
            (position == last).then_some(())
        })
        .await;
    }

    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.database).await.unwrap()
    }
}

pub(crate) async fn stop(context: &Context) {
    context.tasks.stop();
    tokio::time::timeout(SOON, context.tasks.finish()).await.unwrap().unwrap();
}

impl Drop for World {
    fn drop(&mut self) {
        self.context.tasks.stop();
    }
}

pub(crate) fn envelope(send: Option<u128>, event: Event) -> Vec<u8> {
    let envelope = Envelope {
        id: Uuid::new_v5(&Uuid::nil(), format!("{send:?} {event:?}").as_bytes()),
        app: APP,
        at: NOW,
        send_id: send.map(|send| SendId(Uuid::from_u128(send))),
        caused_by: None,
        trace: None,
        event,
    };
    envelope.encode().unwrap()
}

/// A send to users from 1 on.
pub(crate) fn added(send: u128, users: i64) -> Vec<u8> {
    let added = ItemsAdded {
        created_at: NOW,
        category_id: None,
        contents: vec![InAppContent::default()],
        recipients: (1..=users).map(|user| (UserNumber(user), 0)).collect(),
    };
    envelope(Some(send), Event::InboxItemsAdded(added))
}

/// A change to the first item of the event with sequence `seq`, which is user 1's.
pub(crate) fn changed(seq: u64, change: ItemChange) -> Vec<u8> {
    let items = vec![ItemId::derive(seq, 0, 1, 0).unwrap()];
    envelope(None, Event::InboxItemsChanged(change, ItemsChanged { user: UserNumber(1), items }))
}

/// A change to all items of user 1 up to those of the event with sequence `seq`.
pub(crate) fn all_changed(seq: u64, change: AllChange) -> Vec<u8> {
    let up_to = ItemId::derive(seq, 0, 1, 511).unwrap();
    envelope(None, Event::InboxAllChanged(change, AllChanged { user: UserNumber(1), up_to }))
}

/// Counts the users whose counters differ from a recount.
pub(crate) const WRONG_COUNTERS: &str = "
    SELECT count(*) FROM inbox_counter AS kept
    FULL JOIN (
        SELECT app_id, user_number, count(*) AS total, count(*) FILTER (WHERE clicked_at IS NULL) AS unread,
               count(*) FILTER (WHERE seen_at IS NULL) AS unseen
        FROM inbox_item WHERE deleted_at IS NULL GROUP BY app_id, user_number
    ) AS counted USING (app_id, user_number)
    WHERE (kept.total, kept.unread, kept.unseen)
      IS DISTINCT FROM (coalesce(counted.total, 0), coalesce(counted.unread, 0), coalesce(counted.unseen, 0))";
