//! Deliveries per second: the worker of each channel, compared with a bare client of the same protocol that sends the same
//! messages to the same stand-in over as many connections.

mod email;
mod http;
mod jobs;
mod mobile_push;
mod sms;
mod web_push;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::content::Content;
use domain::{Channel, UserNumber};
use serde::Serialize;
use serde_json::Value;
use stand_ins::outbox::{Capture, Outbox};
use suite::cpu::Processes;
use testkit::eventually;

use crate::installation::Installation;
use crate::role::Role;
use crate::series::Series;

/// Number of concurrent calls, which is the default of the workers. Protocols with one call per connection use this number of
/// connections.
const AT_ONCE: usize = 32;
const LONG: Duration = Duration::from_secs(120);

/// Results of a worker and its bare client, by round.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryReport {
    pub(crate) name: &'static str,
    pub(crate) per_second: Series,
    pub(crate) bare_per_second: Series,
    /// Processor time for one delivery.
    pub(crate) service_micros: Series,
    pub(crate) nats_micros: Series,
    pub(crate) postgres_micros: Series,
}

/// A worker to measure, with its provider and recipients.
struct Subject {
    name: &'static str,
    channel: Channel,
    role: Role,
    /// Kind of the provider; also its identifier.
    kind: &'static str,
    /// Settings and secrets of the provider.
    settings: (Value, Value),
    /// Additional environment variables of the worker.
    environment: Vec<(&'static str, String)>,
    /// Recipients; each gets the same number of messages.
    targets: Vec<(UserNumber, String)>,
    content: Content,
    /// Outbox of the stand-in.
    outbox: Arc<Outbox>,
    bare: Box<dyn BareClient>,
}

/// The simplest client that can send the messages of a worker.
trait BareClient {
    /// Sends the messages, [`AT_ONCE`] concurrently, and returns the duration without the time to connect.
    fn send<'a>(&'a self, messages: &'a [Arc<Capture>]) -> Pin<Box<dyn Future<Output = Duration> + 'a>>;
}

pub(crate) async fn measure(
    installation: &Installation,
    rounds: u32,
    deliveries: usize,
) -> Vec<DeliveryReport> {
    service_kit::install_crypto_provider();
    let subjects = [
        email::subject().await,
        web_push::subject(installation).await,
        mobile_push::apns().await,
        mobile_push::fcm().await,
        sms::twilio().await,
        sms::smpp().await,
    ];
    let mut results: Vec<DeliveryReport> = subjects.iter().map(DeliveryReport::of).collect();
    for round in 1..=rounds {
        for (subject, delivered) in subjects.iter().zip(&mut results) {
            eprintln!("deliver: round {round} of {rounds}, {}", subject.name);
            delivered.measure(installation, subject, deliveries).await;
        }
    }
    results
}

impl DeliveryReport {
    fn of(subject: &Subject) -> DeliveryReport {
        DeliveryReport {
            name: subject.name,
            per_second: Series::default(),
            bare_per_second: Series::default(),
            service_micros: Series::default(),
            nats_micros: Series::default(),
            postgres_micros: Series::default(),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    async fn measure(&mut self, installation: &Installation, subject: &Subject, deliveries: usize) {
        let counted = [Processes::named("nats-server"), Processes::named("postgres")];
        let used = || counted.map(|some| some.map_or(0, Processes::micros));
        let each = |before: u64, after: u64| (after - before) as f64 / deliveries as f64;

        subject.choose(installation).await;
        jobs::put(installation, subject, deliveries).await;
        subject.outbox.clear().unwrap();
        installation.settle().await;
        let before = used();
        let service = subject.work(installation, deliveries).await;
        let after = used();
        self.per_second.push(jobs::settled_per_second(installation, deliveries).await);
        self.service_micros.push(each(0, service));
        self.nats_micros.push(each(before[0], after[0]));
        self.postgres_micros.push(each(before[1], after[1]));

        let messages = subject.outbox.captures();
        assert_eq!(messages.len(), deliveries, "{}: messages at the stand-in", subject.name);
        subject.outbox.clear().unwrap();
        let elapsed = subject.bare.send(&messages).await;
        assert_eq!(
            subject.outbox.captures().len(),
            deliveries,
            "{}: messages of the bare client",
            subject.name
        );
        self.bare_per_second.push(deliveries as f64 / elapsed.as_secs_f64());
    }
}

impl Subject {
    /// Makes the provider the only one of its channel.
    async fn choose(&self, installation: &Installation) {
        let (settings, secrets) = &self.settings;
        installation.provider(self.channel, self.kind, settings, secrets).await;
    }

    /// Runs the worker until all jobs are done, and returns its processor time in microseconds.
    async fn work(&self, installation: &Installation, deliveries: usize) -> u64 {
        let mut environment = vec![("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true")];
        environment.extend(self.environment.iter().map(|(name, value)| (*name, value.as_str())));
        let worker = installation.serve(self.role, &environment);
        let what = format!("{}: {deliveries} deliveries are done", self.name);
        eventually(LONG, &what, async || jobs::all_done(installation, self.channel).await.then_some(()))
            .await;
        Processes::below(worker.id()).micros()
    }
}

/// Removes the members `names` from the settings. Returns the remaining settings and the removed members.
fn separate_secrets(mut settings: Value, names: &[&str]) -> (Value, Value) {
    let members = settings.as_object_mut().unwrap();
    let secrets = names.iter().map(|name| ((*name).to_owned(), members.remove(*name).unwrap())).collect();
    (settings, Value::Object(secrets))
}

/// Runs `send` for all messages, [`AT_ONCE`] concurrently, each with one of the connections.
async fn spread<C, F>(
    connections: Vec<C>,
    messages: &[Arc<Capture>],
    send: impl Fn(C, Vec<Arc<Capture>>) -> F,
) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut shares = vec![Vec::new(); connections.len()];
    for (index, message) in messages.iter().enumerate() {
        let shares_len = shares.len();
        shares[index % shares_len].push(message.clone());
    }
    let began = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for (connection, share) in connections.into_iter().zip(shares) {
        running.spawn(send(connection, share));
    }
    running.join_all().await;
    began.elapsed()
}
