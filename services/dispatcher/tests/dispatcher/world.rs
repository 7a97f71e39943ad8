//! Servers, an app and a running dispatcher.

use std::sync::Arc;
use std::time::Duration;

use credentials::MasterKey;
use domain::content::InAppContent;
use domain::event::{DeliveryJob, ItemsAdded};
use domain::overrides::Overrides;
use domain::send::{Recipient, SendRequest};
use domain::{AppId, Channel, Envelope, Event, Lane, SendId, StreamName, UserNumber};
use event_log::Message;
use local_servers::NatsServer;
use planning::Template;
use serde_json::json;
use service_kit::{Config, Context, clock, connections, installation};
use sqlx::PgPool;
use store::control::app::{NewApp, NewSecret};
use store::sends::chunk::Chunk;
use tempfile::TempDir;
use testkit::{Database, eventually};
use uuid::Uuid;

pub(crate) const SOON: Duration = Duration::from_secs(30);
pub(crate) const PARTITIONS: u32 = 2;

pub(crate) struct World {
    pub(crate) context: Context,
    pub(crate) app: AppId,
    pub(crate) pool: PgPool,
    _database: Database,
    _nats: NatsServer,
    _files: TempDir,
}

impl World {
    pub(crate) async fn start() -> World {
        let world = World::with(|_| {}).await;
        world.serve();
        world
    }

    /// Without a dispatcher yet.
    pub(crate) async fn with(configure: impl FnOnce(&mut Config)) -> World {
        let files = tempfile::tempdir().unwrap();
        let (database, nats) = (Database::create().await, NatsServer::start().await.unwrap());
        let key_file = files.path().join("master.key");
        MasterKey::generate_file(&key_file).unwrap();
        let mut config = Config::default();
        config.database.url = Some(database.url().parse().unwrap());
        config.nats.url = Some(nats.url().parse().unwrap());
        config.security.master_key_file = Some(key_file);
        configure(&mut config);
        let store = connections::store(&config, SOON).await.unwrap();
        let log = connections::event_log(&config, SOON).await.unwrap();
        store.migrate().await.unwrap();
        installation::prepare(&store, &log, PARTITIONS).await.unwrap();
        let draft =
            store.control().create_app(NewApp { name: "shop", api_key: "shop", development: true }, "test");
        let secret = NewSecret { digest: b"digest", sealed: b"sealed" };
        let app = draft.await.unwrap().unwrap().commit(secret).await.unwrap();
        let pool = PgPool::connect(database.url()).await.unwrap();
        let context = Context::connect(config).await.unwrap();
        World { context, app, pool, _database: database, _nats: nats, _files: files }
    }

    /// Another app beside the first.
    pub(crate) async fn another_app(&self) -> AppId {
        let new = NewApp { name: "other", api_key: "other", development: true };
        let draft = self.context.store.control().create_app(new, "test").await.unwrap().unwrap();
        draft.commit(NewSecret { digest: b"other digest", sealed: b"sealed" }).await.unwrap()
    }

    pub(crate) fn serve(&self) {
        self.context.serve("dispatcher", dispatcher::run);
    }

    pub(crate) async fn provider(&self, channel: Channel) {
        sqlx::query(
            "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
             VALUES ($1, $2, $2, CASE $2 WHEN 'mobilePush' THEN 'fcm' ELSE 'test' END, 1, true, '{}')",
        )
        .bind(self.app.0)
        .bind(channel.as_str())
        .execute(&self.pool)
        .await
        .unwrap();
    }

    /// Publishes what the gateway would, and returns the send's id.
    pub(crate) async fn accept(&self, send: &SendRequest) -> SendId {
        let send_id = SendId(clock::new_id());
        self.accept_as(send_id, send).await;
        send_id
    }

    pub(crate) async fn accept_as(&self, send_id: SendId, send: &SendRequest) {
        self.accept_of(self.app, send_id, send).await;
    }

    /// Publishes a send of any app.
    pub(crate) async fn accept_of(&self, app: AppId, send_id: SendId, send: &SendRequest) {
        let envelope = Envelope {
            id: send_id.0,
            app,
            at: clock::now(),
            send_id: Some(send_id),
            caused_by: None,
            trace: None,
            event: Event::SendAccepted(Box::new(send.clone())),
        };
        self.publish(StreamName::Send(send.lane), envelope.encode().unwrap()).await;
    }

    /// Freezes the first chunk of a send, as a dispatcher does that dies before it acts on it.
    pub(crate) async fn freeze(&self, send_id: SendId, send: &SendRequest) {
        let (accepted_at, send) = (clock::now(), Arc::new(send.clone()));
        let chunks = [Chunk { app: self.app, send_id, chunk: 0, accepted_at, send }];
        let mut freeze = self.context.store.sends().freeze(&chunks).await.unwrap();
        let facts = freeze.facts().await.unwrap();
        let template = facts.template(0).map(|version| Template::compile(&version.channels).unwrap());
        let decisions = planning::decide(&chunks[0], &facts, 0, template.as_ref());
        freeze.commit(&facts, &[decisions]).await.unwrap();
    }

    pub(crate) async fn publish(&self, stream: StreamName, payload: Vec<u8>) {
        self.context.log.publish(Message { stream, id: None, payload: payload.into() }).await.unwrap();
    }

    /// Waits until as many messages of a lane are acknowledged, all from the first on.
    pub(crate) async fn dispatched(&self, lane: Lane, messages: u64) {
        eventually(SOON, "sends are dispatched", async || {
            let stream = StreamName::Send(lane);
            let progress = self.context.log.consumer_progress(stream, "dispatcher").await.unwrap()?;
            (progress.ack_floor == messages && progress.ack_pending == 0).then_some(())
        })
        .await;
    }

    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.pool).await.unwrap()
    }

    pub(crate) async fn last_seq(&self, stream: StreamName) -> u64 {
        self.context.log.state(stream).await.unwrap().last_seq
    }

    /// Everything that a stream holds.
    pub(crate) async fn held(&self, stream: StreamName) -> Vec<Envelope> {
        let state = self.context.log.state(stream).await.unwrap();
        let mut reader = self.context.log.reader(stream, state.first_seq);
        let mut envelopes = Vec::new();
        while u64::try_from(envelopes.len()).unwrap() < state.messages {
            let records = reader.next_batch(100, Duration::ZERO).await.unwrap();
            envelopes.extend(records.iter().map(|record| Envelope::decode(&record.payload).unwrap()));
        }
        envelopes
    }

    /// What was put into inboxes: send, user and content, in the order of the partitions.
    pub(crate) async fn inboxes(&self) -> Vec<(SendId, UserNumber, InAppContent)> {
        let mut items = Vec::new();
        for partition in 0..PARTITIONS {
            for envelope in self.held(StreamName::Inbox(partition)).await {
                let Event::InboxItemsAdded(ItemsAdded { contents, recipients, .. }) = envelope.event else {
                    panic!("{:?}", envelope.event)
                };
                let item = |(user, place): (UserNumber, u32)| {
                    (envelope.send_id.unwrap(), user, contents[place as usize].clone())
                };
                items.extend(recipients.into_iter().map(item));
            }
        }
        items
    }

    pub(crate) async fn jobs(&self, channel: Channel) -> Vec<DeliveryJob> {
        let held = self.held(StreamName::Job(channel, Lane::Transactional)).await;
        let jobs = held.into_iter().map(|envelope| match envelope.event {
            Event::DeliveryJob(job) => *job,
            other => panic!("{other:?}"),
        });
        jobs.collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.context.tasks.stop();
    }
}

/// A plain transactional send.
pub(crate) fn send_to(recipients: Vec<Recipient>) -> SendRequest {
    let content = InAppContent {
        title: Some("Title".to_owned()),
        message: Some("Message".to_owned()),
        ..InAppContent::default()
    };
    SendRequest {
        content,
        template: None,
        category: None,
        recipients,
        channels: None,
        overrides: Overrides::default(),
        attachments: Vec::new(),
        send_at: None,
        expires_at: None,
        lane: Lane::Transactional,
        idempotency: None,
    }
}

/// A recipient with an inline profile, so that the user exists.
pub(crate) fn person(identifier: &str) -> Recipient {
    Recipient { profile: json!({}).as_object().cloned(), ..Recipient::plain(identifier.to_owned()) }
}

pub(crate) fn send_number(number: u128) -> SendId {
    SendId(Uuid::from_u128(number))
}
