//! An installation, and events to publish in it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use domain::content::InAppContent;
use domain::event::{AllItemsChanged, ItemsAdded, ItemsChanged};
use domain::inbox::{AllChange, ItemChange};
use domain::{AppId, Envelope, Event, ItemId, SendId, StreamName, Timestamp, UserNumber};
use event_log::Message;
use inbox::Retention;
use service_kit::{Config, Context};
use store::Settings;
use store::inbox::projection::INBOX;
use testkit::{Installation, eventually};
use uuid::Uuid;

pub(crate) const SOON: Duration = Duration::from_secs(30);
pub(crate) const APP: AppId = AppId(1);
pub(crate) const STREAM: StreamName = StreamName::Inbox(0);
/// Time of all events.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// An installation without a running projection. The number of its first app is 1.
pub(crate) struct World {
    installation: Installation,
}

impl Deref for World {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

impl World {
    /// Starts an installation with one partition.
    pub(crate) async fn start() -> World {
        World::with_partitions(1).await
    }

    pub(crate) async fn with_partitions(partitions: u32) -> World {
        World { installation: Installation::start(|config| config.streams.partitions = partitions).await }
    }

    /// Returns the context with settings that keep inbox items for `keep`, and at most `keep_per_user` per user.
    pub(crate) fn keeping(&self, keep: Duration, keep_per_user: u32) -> Context {
        let mut config = Config::clone(&self.context.config);
        config.inbox.keep = keep;
        config.inbox.keep_per_user = keep_per_user;
        Context { config: Arc::new(config), ..self.context.clone() }
    }

    /// Creates a retention with other settings than those of the services, whose own rounds would remove items at any time.
    pub(crate) fn retention(&self, keep: Duration, keep_per_user: u32) -> Retention {
        Retention::new(&self.keeping(keep, keep_per_user))
    }

    /// Compares the inbox with a replay of the log. Returns the number of users that differ.
    pub(crate) async fn differing(&self) -> u64 {
        let settings = Settings { url: self.servers.database_url().to_owned(), max_connections: 4 };
        let partitions = self.context.partitions;
        let verified =
            inbox::verify(&settings, &self.context.log, None, partitions, 10, &|_| {}).await.unwrap();
        verified.comparison.differing
    }

    pub(crate) async fn publish(&self, payloads: Vec<Vec<u8>>) {
        let message = |payload: Vec<u8>| Message { stream: STREAM, id: None, payload: payload.into() };
        for appended in self.context.log.publish_all(payloads.into_iter().map(message).collect()).await {
            appended.unwrap();
        }
    }

    /// Records in the database that a user was erased.
    pub(crate) async fn erase(&self, app: AppId, user: i64) {
        sqlx::query(
            "INSERT INTO erased (app_id, user_number, erased_at) VALUES ($1, $2, now()) ON CONFLICT DO NOTHING",
        )
        .bind(app.0)
        .bind(user)
        .execute(&self.pool)
        .await
        .unwrap();
    }

    /// Waits until all published events are projected.
    pub(crate) async fn projected(&self) {
        let last = self.context.log.state(STREAM).await.unwrap().last_seq;
        eventually(SOON, "everything is projected", async || {
            let position = self.context.store.database().checkpoint(INBOX, STREAM).await.unwrap();
            (position >= last).then_some(())
        })
        .await;
    }
}

pub(crate) async fn stop(context: &Context) {
    context.tasks.stop();
    tokio::time::timeout(SOON, context.tasks.finish()).await.unwrap().unwrap();
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

/// Items for users 1 to `users`.
pub(crate) fn items(users: i64) -> ItemsAdded {
    ItemsAdded {
        created_at: NOW,
        category_id: None,
        first: 0,
        contents: vec![InAppContent::default()],
        recipients: (1..=users).map(|user| (UserNumber(user), 0)).collect(),
    }
}

/// Encodes the event that a send added an item to the inboxes of users 1 to `users`.
pub(crate) fn added(send: u128, users: i64) -> Vec<u8> {
    envelope(Some(send), Event::InboxItemsAdded(items(users)))
}

/// Encodes a change of the first item that the event with sequence `seq` added. That item belongs to user 1.
pub(crate) fn changed(seq: u64, change: ItemChange) -> Vec<u8> {
    let items = vec![ItemId::derive(seq, 0, 1, 0).unwrap()];
    envelope(None, Event::InboxItemsChanged(change, ItemsChanged { user: UserNumber(1), items }))
}

/// Encodes a change of all items of user 1 that the event with sequence `seq`, or an earlier one, added.
pub(crate) fn all_changed(seq: u64, change: AllChange) -> Vec<u8> {
    let up_to = ItemId::derive(seq, 0, 1, 511).unwrap();
    envelope(None, Event::InboxAllChanged(change, AllItemsChanged { user: UserNumber(1), up_to }))
}
