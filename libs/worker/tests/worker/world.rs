//! Servers, an app with a provider, and deliveries for the worker.

use std::collections::HashSet;
use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use domain::content::{Content, EmailContent, SmsContent};
use domain::event::{DeliveryJob, DeliverySettled, bundle};
use domain::{AppId, Channel, DeliveryId, Envelope, Event, Lane, SendId, Status, StreamName, UserNumber};
use local_servers::Postgres;
use service_kit::{Config, Context, clock};
use tempfile::TempDir;
use testkit::{Installation, Servers, eventually};
use uuid::Uuid;

use crate::scripted::{ScriptedChannel, ScriptedSms};

pub(crate) const SOON: Duration = Duration::from_secs(30);
pub(crate) const JOBS: StreamName = StreamName::Job(Channel::Email, Lane::Transactional);
pub(crate) const SMS_JOBS: StreamName = StreamName::Job(Channel::Sms, Lane::Transactional);
pub(crate) const SEND: SendId = SendId(Uuid::from_u128(1));

pub(crate) struct World {
    pub(crate) app: AppId,
    pub(crate) postgres: Postgres,
    installation: Installation,
    _files: TempDir,
}

impl Deref for World {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

impl World {
    pub(crate) async fn start() -> World {
        World::with(|_| {}).await
    }

    /// Starts servers with a retry schedule of 0 ms and 100 ms. A short `ack_wait` makes the log redeliver lost jobs soon.
    pub(crate) async fn with(configure: impl FnOnce(&mut Config)) -> World {
        let files = tempfile::tempdir().unwrap();
        let postgres = Postgres::start_fast(&files.path().join("postgres")).await.unwrap();
        let servers = Servers::start_on(postgres.url()).await;
        let installation = Installation::start_on(servers, |config| {
            config.delivery.retry_schedule = vec![Duration::ZERO, Duration::from_millis(100)];
            config.delivery.ack_wait = Duration::from_secs(2);
            configure(config);
        })
        .await;
        let world = World { app: installation.app("shop").await, postgres, installation, _files: files };
        world.provider("main", None).await;
        world
    }

    pub(crate) fn serve(&self, scripted: &ScriptedChannel) {
        serve(&self.context, scripted);
    }

    /// Adds a provider. Providers are tried in alphabetical order.
    pub(crate) async fn provider(&self, identifier: &str, sealed: Option<&[u8]>) {
        self.provider_of(identifier, Channel::Email, "smtp", sealed).await;
    }

    pub(crate) async fn provider_of(
        &self,
        identifier: &str,
        channel: Channel,
        kind: &str,
        sealed: Option<&[u8]>,
    ) {
        sqlx::query(
            "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings, sealed)
             VALUES ($1, $2, $3, $4, 1, true, '{}', $5)",
        )
        .bind(self.app.0)
        .bind(identifier)
        .bind(channel.as_str())
        .bind(kind)
        .bind(sealed)
        .execute(&self.pool)
        .await
        .unwrap();
    }

    /// Plans a delivery with this number to the user with the same number, and returns the delivery's job.
    pub(crate) async fn delivery(&self, number: i64) -> DeliveryJob {
        self.planned(number, job(number)).await
    }

    /// Plans a delivery like [`delivery`](Self::delivery), but for an SMS.
    pub(crate) async fn sms(&self, number: i64) -> DeliveryJob {
        let content = Content::Sms(SmsContent { text: "Text".to_owned(), from: None });
        let target = format!("+491511234{number}");
        self.planned(number, DeliveryJob { channel: Channel::Sms, target, content, ..job(number) }).await
    }

    async fn planned(&self, number: i64, order: DeliveryJob) -> DeliveryJob {
        sqlx::query(
            "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
             VALUES ($1, $2, $3, $4::int, $4, $6, $5)",
        )
        .bind(self.app.0)
        .bind(order.delivery_id.0)
        .bind(SEND.0)
        .bind(number)
        .bind(&order.target)
        .bind(order.channel.as_str())
        .execute(&self.pool)
        .await
        .unwrap();
        order
    }

    pub(crate) async fn order(&self, order: &DeliveryJob) {
        self.order_together(std::slice::from_ref(order)).await;
    }

    /// Publishes jobs in one message.
    pub(crate) async fn order_together(&self, orders: &[DeliveryJob]) {
        let message = |order: &DeliveryJob| {
            let event = Event::DeliveryJob(Box::new(order.clone()));
            let id = clock::new_id();
            let (send_id, caused_by, trace) = (Some(SEND), None, None);
            let envelope = Envelope { id, app: self.app, at: clock::now(), send_id, caused_by, trace, event };
            Bytes::from(envelope.encode().unwrap())
        };
        let messages: Vec<Bytes> = orders.iter().map(message).collect();
        let jobs = StreamName::Job(orders[0].channel, Lane::Transactional);
        self.publish(jobs, bundle::encode("DeliveryJob", &messages).into()).await;
    }

    /// Opens the provider's breaker with a series of deliveries. The channel's script must make their calls fail.
    pub(crate) async fn overload(&self) {
        for number in 101..101 + i64::from(domain::breaker::RUN) {
            let order = self.delivery(number).await;
            self.order(&order).await;
        }
        self.acknowledged(domain::breaker::RUN.into()).await;
        self.run("DELETE FROM timer").await;
    }

    /// Waits until `count` timers exist, and publishes their messages.
    pub(crate) async fn fire_timers(&self, count: usize) {
        let due = eventually(SOON, "timers are due", async || {
            let due = self.context.store.deliveries().due_timers(100).await.unwrap();
            (due.timers.len() == count).then_some(due)
        })
        .await;
        for timer in &due.timers {
            self.publish_as(Some(timer.id.to_string()), timer.stream, timer.message.clone()).await;
        }
        let ids: Vec<_> = due.timers.iter().map(|timer| timer.id).collect();
        due.done(&ids).await.unwrap();
    }

    pub(crate) async fn reaches(&self, delivery: DeliveryId, status: Status) {
        eventually(SOON, status.as_str(), async || {
            let states =
                self.context.store.deliveries().delivery_states(&[(self.app, delivery)]).await.unwrap();
            (states[0].status == status).then_some(())
        })
        .await;
    }

    /// Waits until the first `jobs` jobs are acknowledged.
    pub(crate) async fn acknowledged(&self, jobs: u64) {
        self.acknowledged_by(Channel::Email, jobs).await;
    }

    pub(crate) async fn acknowledged_by(&self, channel: Channel, jobs: u64) {
        let stream = StreamName::Job(channel, Lane::Transactional);
        self.consumed(stream, channel.as_str(), jobs).await;
    }

    /// Returns all outcome events published so far.
    pub(crate) async fn published_events(&self) -> Vec<Event> {
        let envelopes = self.events_in(StreamName::Outcome).await;
        envelopes.into_iter().map(|envelope| envelope.event).collect()
    }

    /// Returns attempt and status of each `DeliverySettled` event published so far. An event that was published again counts
    /// once, as it does for its readers.
    pub(crate) async fn settlings(&self) -> Vec<(u32, Status)> {
        let mut seen = HashSet::new();
        let envelopes = self.events_in(StreamName::Outcome).await.into_iter();
        let settled = envelopes.filter(|envelope| seen.insert(envelope.id)).map(|envelope| envelope.event);
        settled
            .filter_map(|event| match event {
                Event::DeliverySettled(DeliverySettled { attempt, status, .. }) => Some((attempt, status)),
                _ => None,
            })
            .collect()
    }
}

pub(crate) fn serve(context: &Context, scripted: &ScriptedChannel) {
    let scripted = scripted.clone();
    context.serve("worker", move |context| worker::run(context, scripted));
}

pub(crate) fn serve_sms(context: &Context, scripted: &ScriptedChannel) {
    let scripted = ScriptedSms(scripted.clone());
    context.serve("worker", move |context| worker::run(context, scripted));
}

pub(crate) async fn stop(context: &Context) {
    context.tasks.stop();
    tokio::time::timeout(SOON, context.tasks.finish()).await.unwrap().unwrap();
}

pub(crate) fn job(number: i64) -> DeliveryJob {
    let content = EmailContent { subject: "Subject".to_owned(), ..EmailContent::default() };
    let id = DeliveryId(Uuid::from_u128(number.cast_unsigned().into()));
    let target = format!("user-{number}@example.com");
    DeliveryJob::first(id, Channel::Email, UserNumber(number), target, Content::Email(content))
}
