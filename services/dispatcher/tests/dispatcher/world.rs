//! Servers, an app and a running dispatcher.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::content::InAppContent;
use domain::event::{DeliveryJob, ItemsAdded};
use domain::overrides::Overrides;
use domain::send::{Recipient, SendRequest};
use domain::{AppId, Channel, Envelope, Event, Lane, SendId, StreamName, UserNumber};
use local_servers::Postgres;
use planning::Template;
use serde_json::json;
use service_kit::{Config, clock};
use store::sends::chunk::Chunk;
use testkit::{Installation, Servers};
use uuid::Uuid;

pub(crate) const SOON: Duration = Duration::from_secs(30);
pub(crate) const PARTITIONS: u32 = 2;

pub(crate) struct World {
    pub(crate) app: AppId,
    installation: Installation,
}

impl Deref for World {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

impl World {
    pub(crate) async fn start() -> World {
        let world = World::with(|_| {}).await;
        world.serve();
        world
    }

    /// Prepares the servers and the app, without starting a dispatcher.
    pub(crate) async fn with(configure: impl FnOnce(&mut Config)) -> World {
        let installation = Installation::start(|config| {
            config.streams.partitions = PARTITIONS;
            configure(config);
        })
        .await;
        World { app: installation.app("shop").await, installation }
    }

    /// Prepares servers and an app on a PostgreSQL that no other test uses.
    pub(crate) async fn on(postgres: &Postgres) -> World {
        let servers = Servers::start_on(postgres.url()).await;
        let installation =
            Installation::start_on(servers, |config| config.streams.partitions = PARTITIONS).await;
        World { app: installation.app("shop").await, installation }
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

    /// Publishes the event that the gateway would publish, and returns the send's id.
    pub(crate) async fn accept(&self, send: &SendRequest) -> SendId {
        let send_id = SendId(clock::new_id());
        self.accept_as(send_id, send).await;
        send_id
    }

    pub(crate) async fn accept_as(&self, send_id: SendId, send: &SendRequest) {
        self.accept_of(self.app, send_id, send).await;
    }

    /// Publishes a send of the given app.
    pub(crate) async fn accept_of(&self, app: AppId, send_id: SendId, send: &SendRequest) {
        self.publish(StreamName::Send(send.lane), accepted(app, send_id, send).into()).await;
    }

    /// Freezes the first chunk of a send, like a dispatcher that dies before it publishes the messages of the chunk.
    pub(crate) async fn freeze(&self, send_id: SendId, send: &SendRequest) {
        let (accepted_at, send) = (clock::now(), Arc::new(send.clone()));
        let chunks = [Chunk::listed(self.app, send_id, 0, accepted_at, send)];
        let mut freeze = self.context.store.sends().freeze(&chunks).await.unwrap();
        let facts = freeze.write_profiles_and_read_facts().await.unwrap();
        let planned = &mut freeze.chunks[0];
        let template = planned.template.as_ref().map(|version| Template::compile(&version.channels).unwrap());
        planned.decisions = planning::decide_chunk(planned, &facts, template.as_ref());
        freeze.commit(&facts).await.unwrap();
    }

    /// Waits until the first `messages` messages of a lane are acknowledged.
    pub(crate) async fn dispatched(&self, lane: Lane, messages: u64) {
        self.consumed(StreamName::Send(lane), "dispatcher", messages).await;
    }

    pub(crate) async fn last_seq(&self, stream: StreamName) -> u64 {
        self.context.log.state(stream).await.unwrap().last_seq
    }

    /// Reads all items added to inboxes: send, user and content, in the order of the partitions.
    pub(crate) async fn inboxes(&self) -> Vec<(SendId, UserNumber, InAppContent)> {
        let mut items = Vec::new();
        for partition in 0..PARTITIONS {
            for envelope in self.events_in(StreamName::Inbox(partition)).await {
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
        let held = self.events_in(StreamName::Job(channel, Lane::Transactional)).await;
        let jobs = held.into_iter().map(|envelope| match envelope.event {
            Event::DeliveryJob(job) => *job,
            other => panic!("{other:?}"),
        });
        jobs.collect()
    }
}

/// Builds a plain transactional send.
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
        topics: Vec::new(),
        exclude: Vec::new(),
        channels: None,
        proven_targets: false,
        cancellation_key: None,
        overrides: Overrides::default(),
        attachments: Vec::new(),
        send_at: None,
        expires_at: None,
        lane: Lane::Transactional,
        idempotency: None,
    }
}

/// Builds a recipient with an inline profile, so that the user is created.
pub(crate) fn person(identifier: &str) -> Recipient {
    Recipient { profile: json!({}).as_object().cloned(), ..Recipient::plain(identifier.to_owned()) }
}

pub(crate) fn send_number(number: u128) -> SendId {
    SendId(Uuid::from_u128(number))
}

/// Encodes the event that the gateway would publish.
pub(crate) fn accepted(app: AppId, send_id: SendId, send: &SendRequest) -> Bytes {
    let envelope = Envelope {
        id: send_id.0,
        app,
        at: clock::now(),
        send_id: Some(send_id),
        caused_by: None,
        trace: None,
        event: Event::SendAccepted(Box::new(send.clone())),
    };
    envelope.encode().unwrap().into()
}
