//! Time from the acceptance of a send to its inbox item at a live client and to its email at the provider, at half of the rate that the
//! installation can sustain, and the memory of each service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::content::Object;
use domain::{Channel, Timestamp};
use serde::Serialize;
use serde_json::json;
use service_kit::clock;
use stand_ins::outbox::{Capture, Outbox};
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use testkit::{Service, eventually};
use tokio::time::Instant;

use crate::accept::{await_listening, free_address};
use crate::arrivals::{Arrivals, quantile};
use crate::connections::{Request, send_at_rate};
use crate::installation::Installation;
use crate::live::{name, open_all, resident};
use crate::role::Role;
use crate::series::Series;

const SOON: Duration = Duration::from_secs(60);
/// Users, each with a live connection and an email address. If they were few, the worker would postpone the emails of a user who gets
/// many at once.
pub(crate) const USERS: usize = 1_000;
/// Sends with which the sustained rate is measured.
const FLOOD: usize = 4_000;
/// Sends at half of the sustained rate. The stand-in keeps this number of emails.
const MEASURED: usize = 8_000;
/// Services that take part.
const ROLES: [Role; 5] = [Role::Gateway, Role::Dispatcher, Role::Inbox, Role::Email, Role::Webhooks];

/// Results by round.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LatencyReport {
    /// Sends per second that reach inbox and provider when each of the callers makes its next send after the answer.
    pub(crate) sustained: Series,
    /// Milliseconds from the 202 to the live client.
    pub(crate) inbox_p50_millis: Series,
    pub(crate) inbox_p99_millis: Series,
    /// Milliseconds from the 202 to the provider, whose clock counts whole milliseconds.
    pub(crate) provider_p50_millis: Series,
    pub(crate) provider_p99_millis: Series,
    pub(crate) memory: BTreeMap<&'static str, Memory>,
}

/// Resident memory of a service in MiB.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Memory {
    /// After the first send.
    pub(crate) idle: Series,
    /// The part of `idle` that is not in files, such as the program file, whose memory processes share.
    pub(crate) private: Series,
    /// The maximum, while sends arrived as fast as they were answered.
    pub(crate) most: Series,
}

/// Measures with a separate installation, whose streams contain no earlier sends. Its tables contain `old` sends.
pub(crate) async fn measure(rounds: u32, old: u32) -> LatencyReport {
    let (installation, provider) = &prepare(old).await;
    let mut report = LatencyReport::default();
    for round in 1..=rounds {
        eprintln!("latency: round {round} of {rounds}");
        installation.settle().await;
        report.measure(installation, provider).await;
    }
    report
}

/// Starts an installation with users, and a mail server.
pub(crate) async fn prepare(old: u32) -> (Installation, SmtpStandIn) {
    let installation = Installation::start(old).await;
    for index in 0..USERS {
        let profile = Object::from_iter([("email".to_owned(), json!(format!("u{index}@example.com")))]);
        let directory = installation.store.directory();
        directory.merge_user(installation.app, &name(index), profile).await.unwrap();
    }
    let provider = SmtpStandIn::start(SmtpSettings::default(), Outbox::in_memory()).await.unwrap();
    let settings = json!({
        "host": "127.0.0.1", "port": provider.address().port(), "security": "none", "from": "shop@example.com",
    });
    installation.provider(Channel::Email, "smtp", &settings, &json!({})).await;
    (installation, provider)
}

impl LatencyReport {
    async fn measure(&mut self, installation: &Installation, provider: &SmtpStandIn) {
        let run = Run::start(installation, provider, 1 + FLOOD + MEASURED, USERS).await;
        run.send(0..1, f64::INFINITY).await;
        let idle: Vec<_> = run
            .services
            .iter()
            .map(|service| (resident(service, "VmRSS:"), resident(service, "RssAnon:")))
            .collect();

        let begin = Instant::now();
        run.send(1..1 + FLOOD, f64::INFINITY).await;
        let sustained = FLOOD as f64 / begin.elapsed().as_secs_f64();
        self.sustained.push(sustained);
        installation.settle().await;

        provider.outbox().clear().unwrap();
        let numbers = 1 + FLOOD..1 + FLOOD + MEASURED;
        let answered = run.send(numbers.clone(), sustained / 2.0).await;
        let in_inbox = run.arrivals.since_publication(numbers.clone());
        self.inbox_p50_millis.push(quantile(&in_inbox, 0.5));
        self.inbox_p99_millis.push(quantile(&in_inbox, 0.99));
        let at_provider = run.until_provider(&answered, numbers.start);
        self.provider_p50_millis.push(quantile(&at_provider, 0.5));
        self.provider_p99_millis.push(quantile(&at_provider, 0.99));
        for ((role, service), (idle, private)) in ROLES.iter().zip(&run.services).zip(idle) {
            let memory = self.memory.entry(role.name()).or_default();
            memory.idle.push(idle / 1024.0);
            memory.private.push(private / 1024.0);
            memory.most.push(resident(service, "VmHWM:") / 1024.0);
        }
    }
}

/// A running installation with live clients.
pub(crate) struct Run<'a> {
    installation: &'a Installation,
    provider: &'a SmtpStandIn,
    pub(crate) address: std::net::SocketAddr,
    pub(crate) services: Vec<Service>,
    /// Arrivals of inbox items. A send's number is its title.
    pub(crate) arrivals: Arc<Arrivals>,
    _connections: tokio::task::JoinSet<()>,
}

impl Run<'_> {
    /// Starts the services, for a number of sends, and opens a live connection for each of the first users.
    pub(crate) async fn start<'a>(
        installation: &'a Installation,
        provider: &'a SmtpStandIn,
        sends: usize,
        users: usize,
    ) -> Run<'a> {
        provider.outbox().clear().unwrap();
        let address = free_address();
        let listen = address.to_string();
        let environment = [
            ("TIDINGS_GATEWAY__LISTEN", listen.as_str()),
            ("TIDINGS_GATEWAY__TRANSACTIONAL_RATE", "1000000"),
            ("TIDINGS_GATEWAY__TRUSTED_PROXIES", "127.0.0.0/8"),
            ("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true"),
        ];
        let services = ROLES.map(|role| installation.serve(role, &environment)).into();
        await_listening(address).await;
        let arrivals = Arc::new(Arrivals::new(sends));
        let connections = open_all(installation, address, users, &arrivals).await;
        Run { installation, provider, address, services, arrivals, _connections: connections }
    }

    /// Makes sends at a rate per second, and waits until all have reached inbox and provider. Returns the time of each answer.
    pub(crate) async fn send(&self, numbers: std::ops::Range<usize>, per_second: f64) -> Vec<Timestamp> {
        let before = self.provider.outbox().captures().len();
        let (first, count) = (numbers.start, numbers.len());
        let answers = Arc::new(std::sync::Mutex::new(vec![Timestamp::from_millis(0); count]));
        let credentials = [
            ("X-SERVICE-API-KEY", self.installation.api_key.clone()),
            ("X-SERVICE-API-SECRET", self.installation.api_secret.clone()),
        ];
        let request = move |index: usize| {
            let body = json!({
                "notification": {"title": (first + index).to_string(), "message": "Your order is on its way."},
                "sendTo": {"recipients": [name(index % USERS)]},
                "override": {"channels": ["inApp", "email"]},
            });
            let credentials = credentials.each_ref().map(|(name, value)| (*name, value.as_str()));
            Request::post("/v3/notifications", &credentials, false, &body.to_string())
        };
        let (arrivals, noted) = (Arc::clone(&self.arrivals), Arc::clone(&answers));
        let answered = move |index: usize| {
            arrivals.published[first + index].store(arrivals.now(), Ordering::Release);
            noted.lock().unwrap()[index] = clock::now();
        };
        send_at_rate(self.address, count, per_second, request, answered).await;
        self.arrivals.all(numbers.end).await;
        eventually(SOON, "all emails are received", async || {
            (self.provider.outbox().captures().len() >= before + count).then_some(())
        })
        .await;
        let answers = answers.lock().unwrap();
        answers.clone()
    }

    /// Returns the time from each answer to the email at the provider in microseconds, shortest first. The outbox contains only these emails.
    pub(crate) fn until_provider(&self, answered: &[Timestamp], first: usize) -> Vec<u64> {
        let wait = |email: &Arc<Capture>| {
            let waited = email.received_at.millis() - answered[number(email) - first].millis();
            u64::try_from(waited.max(0)).unwrap() * 1_000
        };
        let mut waits: Vec<u64> = self.provider.outbox().captures().iter().map(wait).collect();
        waits.sort_unstable();
        waits
    }
}

/// Returns the number in the subject of an email.
fn number(email: &Capture) -> usize {
    let text = String::from_utf8_lossy(&email.raw);
    let line = text.lines().find_map(|line| line.strip_prefix("Subject: ")).expect("an email has a subject");
    line.trim().parse().unwrap()
}
