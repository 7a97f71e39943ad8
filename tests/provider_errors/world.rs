//! Servers and the worker of one channel. Each case of a table gets a new app, so that a circuit breaker that one case opens
//! cannot affect the next.

use std::ops::Deref;
use std::time::Duration;

use credentials::{link, vapid};
use domain::content::Content;
use domain::event::DeliveryJob;
use domain::receipt::{Receipt, ReceiptSubject};
use domain::retry::RetryPolicy;
use domain::sms::twilio::of_undelivered;
use domain::{Answer, AppId, Channel, DeliveryId, Envelope, Event, Lane, SendId, StreamName, UserNumber};
use serde_json::Value;
use service_kit::{Config, clock};
use sqlx::Row as _;
use store::deliveries::receipt::ReceiptResult;
use testkit::{Installation, eventually};
use uuid::Uuid;

use crate::state::{Attempt, State};

const SOON: Duration = Duration::from_secs(30);
const SEND: SendId = SendId(Uuid::from_u128(7));
/// Usual delay between attempts, long enough to distinguish it from an immediate retry.
pub(crate) const USUAL: Duration = Duration::from_secs(100);

pub(crate) struct World {
    pub(crate) channel: Channel,
    installation: Installation,
}

impl Deref for World {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

/// A delivery to follow, with its app.
pub(crate) struct Subject {
    pub(crate) app: AppId,
    pub(crate) delivery: DeliveryId,
    pub(crate) target: String,
    /// Error code of Twilio's status callbacks, and the number of attempts that they report as failed after Twilio accepted them.
    pub(crate) report: Option<(u32, u32)>,
}

impl World {
    pub(crate) async fn start(channel: Channel, configure: impl FnOnce(&mut Config)) -> World {
        let installation = Installation::start(|config| {
            config.gateway.public_url = Some("https://notify.example.com".parse().unwrap());
            config.outbound.allow_private = true;
            config.delivery.retry_schedule = vec![Duration::ZERO, USUAL, USUAL, USUAL, USUAL];
            configure(config);
        })
        .await;
        World { channel, installation }
    }

    /// Creates an app with two providers of this kind, `first` and `second`.
    pub(crate) async fn app(&self, kind: &str, settings: &[Value; 2]) -> AppId {
        let app = self.installation.app(&format!("shop-{}", clock::new_id())).await;
        let store = &self.context.store;
        vapid::create(store, &self.context.master_key, app).await.unwrap();
        link::create(store, &self.context.master_key, app).await.unwrap();
        for (identifier, settings) in ["first", "second"].iter().zip(settings) {
            sqlx::query(
                "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
                 VALUES ($1, $2, $3, $4, 1, true, $5)",
            )
            .bind(app.0)
            .bind(identifier)
            .bind(self.channel.as_str())
            .bind(kind)
            .bind(settings)
            .execute(&self.pool)
            .await
            .unwrap();
        }
        app
    }

    /// Removes the app's second provider.
    pub(crate) async fn remove_second_provider(&self, app: AppId) {
        let query = "DELETE FROM provider WHERE app_id = $1 AND identifier = 'second'";
        sqlx::query(query).bind(app.0).execute(&self.pool).await.unwrap();
    }

    /// Publishes a job for the worker, and returns its delivery.
    pub(crate) async fn deliver(
        &self,
        app: AppId,
        user: UserNumber,
        target: &str,
        content: Content,
    ) -> Subject {
        let delivery = DeliveryId(clock::new_id());
        sqlx::query(
            "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
             VALUES ($1, $2, $3, 0, $4, $5, $6)",
        )
        .bind(app.0)
        .bind(delivery.0)
        .bind(SEND.0)
        .bind(user.0)
        .bind(self.channel.as_str())
        .bind(target)
        .execute(&self.pool)
        .await
        .unwrap();
        let job = DeliveryJob::first(delivery, self.channel, user, target.to_owned(), content);
        let (id, at, event) = (clock::new_id(), clock::now(), Event::DeliveryJob(Box::new(job)));
        let envelope = Envelope { id, app, at, send_id: Some(SEND), caused_by: None, trace: None, event };
        self.publish(self.jobs(), envelope.encode().unwrap()).await;
        Subject { app, delivery, target: target.to_owned(), report: None }
    }

    fn jobs(&self) -> StreamName {
        StreamName::Job(self.channel, Lane::Transactional)
    }

    /// Publishes the job of the next attempt now, even if it is due later.
    pub(crate) async fn make_next_attempt(&self, subject: &Subject) {
        let query = "DELETE FROM timer WHERE app_id = $1 AND stream = $2 RETURNING id, message";
        let timers = sqlx::query(query).bind(subject.app.0).bind(self.jobs().to_string());
        let timers = timers.fetch_all(&self.pool).await.unwrap();
        let [timer] = &timers[..] else { panic!("{} timers", timers.len()) };
        let id = timer.get::<Uuid, _>("id").to_string();
        self.publish_as(Some(id), self.jobs(), timer.get("message")).await;
    }

    /// Waits until this attempt is made. If Twilio reports it as failed later, also records that report. Returns the state in the
    /// ledger.
    pub(crate) async fn state_after(&self, subject: &Subject, attempt: u32) -> State {
        let made = usize::try_from(attempt).unwrap();
        let state = eventually(SOON, "the attempt is made", async || {
            let state = self.state(subject).await;
            (state.attempts.len() >= made).then_some(state)
        });
        let state = state.await;
        match subject.report {
            Some((code, attempts)) if attempt <= attempts => {
                let last = &state.attempts[made - 1];
                assert_eq!(
                    (last.outcome.as_str(), last.code.as_str()),
                    ("sent", "201"),
                    "Twilio accepted the message before the report"
                );
                let answer = Answer::new(of_undelivered(Some(code)), code.to_string(), "undelivered");
                self.report(subject, attempt, answer).await;
                self.state(subject).await
            }
            _ => state,
        }
    }

    /// Records a provider's report about an accepted message, as the gateway does.
    pub(crate) async fn report(&self, subject: &Subject, attempt: u32, answer: Answer) {
        let receipt = Receipt {
            id: clock::new_id(),
            app: subject.app,
            about: ReceiptSubject::Delivery(subject.delivery, Some(attempt)),
            answer,
            at: clock::now(),
            random: clock::random(),
        };
        let policy = RetryPolicy { schedule: self.context.config.delivery.retry_schedule.clone() };
        let recorded = self.context.store.deliveries().record_receipts(&[receipt], &policy).await.unwrap();
        assert!(matches!(recorded[..], [ReceiptResult::Settled(_)]), "{recorded:?}");
    }

    pub(crate) async fn state(&self, subject: &Subject) -> State {
        let mut transaction = self.pool.begin().await.unwrap();
        sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            .execute(&mut *transaction)
            .await
            .unwrap();
        let delivery = sqlx::query(
            "SELECT status, reason, (SELECT code FROM suppression s
               WHERE (s.app_id, s.channel, s.target) = (d.app_id, d.channel, d.target)) AS suppressed
             FROM delivery d WHERE (app_id, id) = ($1, $2)",
        );
        let delivery = delivery.bind(subject.app.0).bind(subject.delivery.0);
        let delivery = delivery.fetch_one(&mut *transaction).await.unwrap();
        let attempts = sqlx::query(
            "SELECT provider, coalesce(receipt, outcome) AS outcome, coalesce(receipt_code, provider_code) AS code
             FROM attempt WHERE (app_id, delivery_id) = ($1, $2) ORDER BY number",
        );
        let attempts = attempts.bind(subject.app.0).bind(subject.delivery.0);
        let attempts = attempts.fetch_all(&mut *transaction).await.unwrap();
        let next: Option<f64> = sqlx::query_scalar(
            "SELECT extract(epoch FROM t.due_at - (SELECT max(coalesce(receipt_at, ended_at)) FROM attempt
               WHERE (app_id, delivery_id) = ($1, $2)))::float8
             FROM timer t WHERE t.app_id = $1 AND t.stream = $3",
        )
        .bind(subject.app.0)
        .bind(subject.delivery.0)
        .bind(self.jobs().to_string())
        .fetch_optional(&mut *transaction)
        .await
        .unwrap();
        State {
            status: delivery.get("status"),
            reason: delivery.get("reason"),
            suppressed: delivery.get("suppressed"),
            attempts: attempts
                .iter()
                .map(|row| Attempt {
                    provider: row.get("provider"),
                    outcome: row.get("outcome"),
                    code: row.get("code"),
                })
                .collect(),
            next: next.map(|seconds| Duration::from_secs_f64(seconds.max(0.0))),
        }
    }

    /// Number of web push subscriptions of the users of an app.
    pub(crate) async fn subscriptions(&self, app: AppId) -> i64 {
        let query = "SELECT count(*) FROM web_push_subscription WHERE app_id = $1";
        sqlx::query_scalar(query).bind(app.0).fetch_one(&self.pool).await.unwrap()
    }
}
