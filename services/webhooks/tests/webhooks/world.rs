//! Servers, an app with users, and the app's backend.

use std::ops::Deref;
use std::time::Duration;

use credentials::secrets::webhook_secret_context;
use domain::event::{DeliverySettled, TargetSuppressed};
use domain::webhook::WebhookEvent;
use domain::{
    Actor, AppId, Channel, DeliveryId, Envelope, Event, Reason, SendId, Status, StreamName, Timestamp,
    UserNumber,
};
use secrecy::ExposeSecret;
use service_kit::{Config, clock};
use stand_ins::webhook::WebhookReceiver;
use store::webhooks::Pace;
use testkit::{Installation, eventually};
use uuid::Uuid;
use webhooks::{Secret, Settings};

pub(crate) const SOON: Duration = Duration::from_secs(60);
pub(crate) const SEND: SendId = SendId(Uuid::from_u128(77));

pub(crate) struct World {
    pub(crate) app: AppId,
    pub(crate) backend: WebhookReceiver,
    secrets: Vec<String>,
    installation: Installation,
}

impl Deref for World {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

/// Settings with short delays, so that the tests are quick.
pub(crate) fn settings() -> Settings {
    Settings {
        schedule: vec![Duration::from_millis(20); 6],
        give_up_after: Duration::from_secs(3600),
        call_limit: Duration::from_secs(2),
        max_concurrency: 64,
        slot_limit: Duration::from_secs(1),
        wake_every: Duration::from_secs(3600),
        pace: Pace {
            lease: Duration::from_secs(5),
            per_endpoint: 4,
            per_app: 16,
            failures: 1_000,
            pause: Duration::from_secs(3600),
            longest_pause: Duration::from_secs(3600),
            per_slot: 16,
        },
    }
}

/// Settings with which no call and no lease ends early on a slow machine, because that would cause additional attempts.
pub(crate) fn patient() -> Settings {
    let mut patient = settings();
    patient.call_limit = SOON;
    patient.pace.lease = SOON * 2;
    patient
}

impl World {
    pub(crate) async fn start() -> World {
        World::with(|config| config.outbound.allow_private = true).await
    }

    pub(crate) async fn with(configure: impl FnOnce(&mut Config)) -> World {
        let installation = Installation::start(configure).await;
        let app = installation.app("shop").await;
        sqlx::query(
            "INSERT INTO app_user (app_id, number, identifier) OVERRIDING SYSTEM VALUE
             SELECT $1, number, 'user-' || number FROM generate_series(1, 100) AS number",
        )
        .bind(app.0)
        .execute(&installation.pool)
        .await
        .unwrap();
        let backend = WebhookReceiver::start().await.unwrap();
        World { app, backend, secrets: Vec::new(), installation }
    }

    /// Creates an endpoint at the backend. The endpoint subscribes to all events.
    pub(crate) async fn endpoint(&mut self, path: &str) -> i64 {
        self.endpoint_for(&self.backend.url(path), WebhookEvent::ALL).await
    }

    pub(crate) async fn endpoint_for(&mut self, url: &str, events: &[WebhookEvent]) -> i64 {
        let secret = Secret::generate().unwrap().text();
        let draft = self.context.store.webhooks().put_endpoint(self.app, url, events).await.unwrap().unwrap();
        let id = draft.id();
        let context = webhook_secret_context(self.app, id);
        let sealed = self.context.master_key.seal(&context, secret.expose_secret().as_bytes()).unwrap();
        draft.commit(Some(&sealed), &Actor::System).await.unwrap();
        self.secrets.push(secret.expose_secret().to_owned());
        self.backend.trust(&self.secrets.iter().map(String::as_str).collect::<Vec<_>>());
        id
    }

    pub(crate) fn serve(&self, settings: Settings) {
        self.context.serve("webhooks", |context| webhooks::run_with(context, settings));
    }

    /// Publishes the event that a delivery to user 1 was settled with this status.
    pub(crate) async fn settled(&self, delivery: u128, status: Status) {
        self.settled_of(1, delivery, status).await;
    }

    pub(crate) async fn settled_of(&self, user: i64, delivery: u128, status: Status) {
        self.publish_event(World::settlement(user, delivery, status)).await;
    }

    /// Publishes the event that a delivery to user 1 was settled one second ago. Times have a precision of one millisecond, so an
    /// event published just before an endpoint is created could otherwise have the same time as the endpoint.
    pub(crate) async fn settled_a_second_ago(&self, delivery: u128, status: Status) {
        let at = clock::now() - Duration::from_secs(1);
        self.publish_at(at, World::settlement(1, delivery, status)).await;
    }

    fn settlement(user: i64, delivery: u128, status: Status) -> Event {
        let reason = (status == Status::Failed).then_some(Reason::ProviderRefused);
        let settled = DeliverySettled {
            delivery_id: DeliveryId(Uuid::from_u128(delivery)),
            channel: Channel::Email,
            user: UserNumber(user),
            attempt: 1,
            status,
            reason,
            provider: Some("main".to_owned()),
        };
        Event::DeliverySettled(settled)
    }

    pub(crate) async fn suppressed(&self, delivery: u128) {
        let suppressed = TargetSuppressed {
            delivery_id: DeliveryId(Uuid::from_u128(delivery)),
            channel: Channel::Email,
            user: UserNumber(1),
        };
        self.publish_event(Event::TargetSuppressed(suppressed)).await;
    }

    pub(crate) async fn publish_event(&self, event: Event) {
        self.publish_at(clock::now(), event).await;
    }

    async fn publish_at(&self, at: Timestamp, event: Event) {
        let stream = match event {
            Event::InboxItemsChanged(..) | Event::InboxAllChanged(..) => StreamName::Inbox(0),
            _ => StreamName::Outcome,
        };
        let id = clock::new_id();
        let (send_id, caused_by, trace) = (Some(SEND), None, None);
        let envelope = Envelope { id, app: self.app, at, send_id, caused_by, trace, event };
        self.publish(stream, envelope.encode().unwrap()).await;
    }

    /// Waits until the backend has accepted `count` messages.
    pub(crate) async fn received(&self, count: usize) -> Vec<stand_ins::webhook::ReceivedCall> {
        eventually(SOON, "the backend accepted all messages", async || {
            let received = self.backend.received();
            (received.len() >= count).then_some(received)
        })
        .await
    }

    /// Waits until every event in the log is processed: written as messages, or skipped.
    pub(crate) async fn followed(&self) {
        for stream in [StreamName::Outcome, StreamName::Inbox(0)] {
            let last = self.context.log.state(stream).await.unwrap().last_seq;
            eventually(SOON, "all events are processed", async || {
                let position = self
                    .context
                    .store
                    .database()
                    .checkpoint(store::webhooks::WEBHOOKS, stream)
                    .await
                    .unwrap();
                (position >= last).then_some(())
            })
            .await;
        }
    }

    /// Waits until `count` messages have this status.
    pub(crate) async fn messages(&self, status: &'static str, count: i64) {
        eventually(SOON, "the messages have the expected status", async || {
            (self.count(status).await == count).then_some(())
        })
        .await;
    }

    pub(crate) async fn count(&self, status: &'static str) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM webhook_message WHERE status = $1")
            .bind(status)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    /// Runs a statement that counts rows.
    pub(crate) async fn number(&self, of: &'static str) -> i64 {
        sqlx::query_scalar(of).fetch_one(&self.pool).await.unwrap()
    }

    /// Waits until `number` rows match.
    pub(crate) async fn until(&self, number: i64, of: &'static str) {
        eventually(SOON, of, async || (self.number(of).await == number).then_some(())).await;
    }

    /// Waits until an endpoint is paused after a failed call, and no message is claimed any more.
    pub(crate) async fn paused(&self) {
        self.until(1, "SELECT count(*) FROM webhook_endpoint WHERE paused_until > now()").await;
        self.until(0, "SELECT count(*) FROM webhook_message WHERE token IS NOT NULL").await;
    }

    pub(crate) async fn last_answer(&self) -> Option<String> {
        sqlx::query_scalar("SELECT last_answer FROM webhook_message ORDER BY number LIMIT 1")
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }
}
