//! Number of deliveries per second: by the worker of each channel, compared with a bare client of the same protocol that sends
//! the same messages to the same stand-in over as many connections.

mod email;
mod http;
mod jobs;
pub(crate) mod mail;
mod mobile_push;
mod skeleton;
mod sms;
mod web_push;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::content::Content;
use domain::{Channel, UserNumber};
use serde::Serialize;
use serde_json::Value;
use service_kit::clock;
use stand_ins::outbox::{Capture, Outbox};
use suite::cpu::Processes;
use testkit::eventually;

use crate::deliver::skeleton::{Recorder, Reports};
use crate::installation::Installation;
use crate::role::Role;
use crate::series::Series;

/// Number of concurrent calls, which is the default of the workers. Protocols with one call per connection use this number of
/// connections.
const AT_ONCE: usize = 32;
const LONG: Duration = Duration::from_secs(120);

/// Results of a service that calls providers or endpoints, and of its bare client, by round.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryReport {
    pub(crate) name: String,
    pub(crate) per_second: Series,
    pub(crate) bare_per_second: Series,
    /// The bare client, if it also records the status of each message. Empty for webhooks.
    pub(crate) skeleton_per_second: Series,
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
    /// Sends the messages, [`AT_ONCE`] concurrently, and reports each that is accepted. Returns the duration without the time to
    /// connect.
    fn send<'a>(
        &'a self,
        messages: &'a [Arc<Capture>],
        reports: Reports,
    ) -> Pin<Box<dyn Future<Output = Duration> + 'a>>;
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
    let mut results: Vec<DeliveryReport> =
        subjects.iter().map(|subject| DeliveryReport::new(subject.name)).collect();
    for round in 1..=rounds {
        for (subject, delivered) in subjects.iter().zip(&mut results) {
            eprintln!("deliver: round {round} of {rounds}, {}", subject.name);
            delivered.measure(installation, subject, deliveries).await;
        }
    }
    results
}

/// Returns the processor time that nats-server and PostgreSQL have used so far, in microseconds.
pub(crate) fn server_micros() -> [u64; 2] {
    ["nats-server", "postgres"].map(|name| Processes::named(name).map_or(0, Processes::micros))
}

impl DeliveryReport {
    /// Creates a report without results.
    pub(crate) fn new(name: &str) -> DeliveryReport {
        DeliveryReport { name: name.to_owned(), ..DeliveryReport::default() }
    }

    /// The rates of the skeleton; None for webhooks.
    pub(crate) fn skeleton(&self) -> Option<&Series> {
        Some(&self.skeleton_per_second).filter(|series| !series.is_empty())
    }

    /// Adds the processor time per call of a round: that of the service, and that of the servers from `before` to `after`.
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub(crate) fn add_micros(&mut self, calls: usize, service: u64, before: [u64; 2], after: [u64; 2]) {
        let each = |micros: u64| micros as f64 / calls as f64;
        self.service_micros.push(each(service));
        self.nats_micros.push(each(after[0] - before[0]));
        self.postgres_micros.push(each(after[1] - before[1]));
    }

    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    async fn measure(&mut self, installation: &Installation, subject: &Subject, deliveries: usize) {
        subject.choose(installation).await;
        jobs::put(installation, subject, deliveries).await;
        subject.outbox.clear().unwrap();
        installation.settle().await;
        let (before, began) = (server_micros(), clock::now());
        let service = subject.work(installation, deliveries).await;
        self.add_micros(deliveries, service, before, server_micros());
        self.per_second.push(jobs::settled_per_second(installation, deliveries, began).await);

        let messages = subject.outbox.captures();
        let elapsed = subject.send_bare(&messages, Reports::default()).await;
        self.bare_per_second.push(messages.len() as f64 / elapsed.as_secs_f64());
        let (reports, recorder) = Recorder::start(installation, messages.len()).await;
        let elapsed = subject.send_bare(&messages, reports).await;
        let sent_at = Instant::now();
        recorder.finish().await;
        let elapsed = elapsed + sent_at.elapsed();
        self.skeleton_per_second.push(messages.len() as f64 / elapsed.as_secs_f64());
    }
}

impl Subject {
    /// Sends the messages again with the bare client.
    async fn send_bare(&self, messages: &[Arc<Capture>], reports: Reports) -> Duration {
        self.outbox.clear().unwrap();
        let elapsed = self.bare.send(messages, reports).await;
        let sent = self.outbox.captures().len();
        assert_eq!(sent, messages.len(), "{}: messages of the bare client", self.name);
        elapsed
    }

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
    reports: &Reports,
    send: impl Fn(C, Vec<(usize, Arc<Capture>)>, Reports) -> F,
) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut shares = vec![Vec::new(); connections.len()];
    for (index, message) in messages.iter().enumerate() {
        let shares_len = shares.len();
        shares[index % shares_len].push((index, message.clone()));
    }
    let began = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for (connection, share) in connections.into_iter().zip(shares) {
        running.spawn(send(connection, share, reports.clone()));
    }
    running.join_all().await;
    began.elapsed()
}
