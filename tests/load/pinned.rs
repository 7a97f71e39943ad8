//! Rate, latency and costs while a transaction stays open for a long time, as `pg_dump` or a report keeps one open. Sends arrive at a fixed
//! rate, each with an idempotency key, an inbox item for a live client, an email, and a webhook for the outcome of the email. Each minute is
//! printed when it ends.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};
use stand_ins::outbox::Capture;
use stand_ins::smtp::SmtpStandIn;
use suite::cpu::Processes;
use testkit::eventually;
use tokio::time::{Instant, sleep_until};

use crate::arrivals::quantile;
use crate::connections::{Request, send_at_rate};
use crate::installation::Installation;
use crate::latency::{Run, prepare};
use crate::live::name;
use crate::series::Series;
use crate::webhooks::Backend;

const MINUTE: Duration = Duration::from_secs(60);
/// Users of the sends, who all have a live connection. They are few, so that their counters change all the time.
const USERS: usize = 50;
/// Sends before the first measurement, at 100 per second.
const FIRST: usize = 2_000;
/// Minutes without the transaction, before a short and before a long one. Ten minutes include a checkpoint of PostgreSQL and vacuums of large
/// tables.
const BEFORE: [usize; 2] = [1, 10];
/// Minutes of a long transaction.
const LONG: u32 = 10;
/// Time after the last send in which all work must be done: five minutes after the end of the transaction.
const DRAINED: Duration = Duration::from_secs(240);
/// Time after a minute in which its last sends may still arrive.
const LAST: Duration = Duration::from_secs(2);
/// Pause between two looks at the outbox, which keeps 10,000 emails.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Smallest rate of a minute with the transaction, of the median before.
const RATE: f64 = 0.95;

/// Tables whose rows change with each send.
const HOT: [&str; 6] =
    ["checkpoint", "inbox_counter", "delivery", "idempotency_key", "webhook_message", "webhook_wake"];

/// Results of the minutes before, during and after the transaction.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PinnedReport {
    pub(crate) per_second: u32,
    pub(crate) before: Minutes,
    pub(crate) during: Minutes,
    pub(crate) after: Minutes,
    /// Seconds from the last send until nothing was left to do.
    pub(crate) drained_seconds: f64,
}

/// One value for each minute.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Minutes {
    /// Answered sends per second.
    pub(crate) rate: Series,
    /// Milliseconds from the 202 to the live client. If the 202 is missing at the end of the minute, from the time at which the send was
    /// due.
    pub(crate) p50_millis: Series,
    pub(crate) p99_millis: Series,
    /// The same percentile of all sends of these minutes.
    pub(crate) p99_millis_of_all: f64,
    /// Inbox items, emails and webhooks that are missing at the end of the minute.
    pub(crate) backlog: Series,
    /// Blocks that PostgreSQL read, from its memory or the disk, for a send.
    pub(crate) blocks: Series,
    /// Microseconds of PostgreSQL's processor time for a send.
    pub(crate) postgres_micros: Series,
}

struct Bench<'a> {
    installation: &'a Installation,
    provider: &'a SmtpStandIn,
    backend: &'a Backend,
    run: &'a Run<'a>,
    answered: Arc<AtomicUsize>,
    /// Webhooks that were counted and then forgotten.
    webhooks: HashSet<String>,
    /// Numbers of the sends whose email has arrived.
    emails: HashSet<usize>,
    /// Id of the newest email in `emails`.
    newest_email: u64,
    /// Number of the first send of a phase, and the time at which it was due, by the clock of the arrivals.
    begin: (usize, u64),
    per_second: u32,
}

#[derive(Clone, Copy)]
struct Counts {
    at: Instant,
    answered: usize,
    blocks: i64,
    postgres: u64,
}

pub(crate) async fn measure(minutes: u32, per_second: u32) -> PinnedReport {
    let (installation, provider) = &prepare(0).await;
    service_kit::install_crypto_provider();
    let backend = &Backend::start(installation, 1).await;
    let before = BEFORE[usize::from(minutes >= LONG)];
    let phases = [before, minutes as usize, 1].map(|minutes| minutes * 60 * per_second as usize);
    let run = &Run::start(installation, provider, FIRST + phases.iter().sum::<usize>(), USERS).await;
    let answered = Arc::default();
    let mut bench = Bench {
        installation,
        provider,
        backend,
        run,
        answered,
        webhooks: HashSet::new(),
        emails: HashSet::new(),
        newest_email: 0,
        begin: (0, 0),
        per_second,
    };
    let mut report = PinnedReport { per_second, ..PinnedReport::default() };
    bench.send(0..FIRST, 100).await;
    bench.drain(FIRST).await;
    installation.settle().await;
    eprintln!("{}", header());

    let mut next = FIRST;
    next = bench.phase("before", next, phases[0], &mut report.before).await;
    let mut reader = PgConnection::connect(installation.database_url()).await.unwrap();
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM checkpoint").await.unwrap();
    next = bench.phase("pinned", next, phases[1], &mut report.during).await;
    reader.execute("COMMIT").await.unwrap();
    next = bench.phase("after", next, phases[2], &mut report.after).await;
    let ended = Instant::now();
    bench.drain(next).await;
    report.drained_seconds = ended.elapsed().as_secs_f64();
    report
}

impl Bench<'_> {
    /// Makes sends at the rate of the run, and measures each minute of them. Returns the number of the next send.
    async fn phase(&mut self, name: &str, first: usize, count: usize, minutes: &mut Minutes) -> usize {
        let a_minute = 60 * self.per_second as usize;
        let sending = self.send(first..first + count, self.per_second);
        let sending = tokio::spawn(sending);
        let began = Instant::now();
        self.begin = (first, self.run.arrivals.now());
        let mut before = self.counts().await;
        for (number, start) in (first..first + count).step_by(a_minute).enumerate() {
            self.wait_until(began + MINUTE * u32::try_from(number + 1).unwrap()).await;
            let now = self.counts().await;
            self.wait_until(now.at + LAST).await;
            self.note(name, start..start + a_minute, (before, now), minutes).await;
            before = now;
        }
        while !sending.is_finished() {
            self.wait_until(Instant::now() + LOOK_EVERY).await;
        }
        sending.await.unwrap();
        minutes.p99_millis_of_all = quantile(&self.waits(first..first + count), 0.99);
        first + count
    }

    fn send(&self, numbers: Range<usize>, per_second: u32) -> impl Future<Output = ()> + Send + 'static {
        let address = self.run.address;
        let [key, secret] = [&self.installation.api_key, &self.installation.api_secret].map(Clone::clone);
        let (first, count) = (numbers.start, numbers.len());
        let request = move |index: usize| {
            let number = first + index;
            let body = json!({
                "notification": {"title": number.to_string(), "message": "Your order is on its way."},
                "sendTo": {"recipients": [name(number % USERS)]},
                "override": {"channels": ["inApp", "email"]},
            });
            let number = number.to_string();
            let headers = [
                ("X-SERVICE-API-KEY", key.as_str()),
                ("X-SERVICE-API-SECRET", secret.as_str()),
                ("Idempotency-Key", number.as_str()),
            ];
            Request::post("/v3/notifications", &headers, false, &body.to_string())
        };
        let (arrivals, answered) = (Arc::clone(&self.run.arrivals), Arc::clone(&self.answered));
        let note = move |index: usize| {
            arrivals.published[first + index].store(arrivals.now(), Ordering::Release);
            answered.fetch_add(1, Ordering::AcqRel);
        };
        async move { send_at_rate(address, count, per_second.into(), request, note).await }
    }

    async fn wait_until(&mut self, until: Instant) {
        while Instant::now() < until {
            self.note_emails();
            sleep_until(until.min(Instant::now() + LOOK_EVERY)).await;
        }
    }

    /// Notes the new emails, before the outbox forgets them.
    fn note_emails(&mut self) {
        let captures = self.provider.outbox().captures();
        let newest = captures.first().map_or(self.newest_email, |newest| newest.id);
        let mut noted = 0;
        for email in captures.iter().take_while(|email| email.id > self.newest_email) {
            self.emails.insert(number(email));
            noted += 1;
        }
        assert_eq!(noted, newest - self.newest_email, "the outbox forgot emails that were not noted");
        self.newest_email = newest;
    }

    /// Items, emails and webhooks that are missing after the answers to this number of sends. Repeated ones do not count. The receiver
    /// forgets the webhooks that were counted.
    fn backlog(&mut self, answered: usize) -> usize {
        self.webhooks.extend(self.backend.take_ids());
        self.note_emails();
        let emails = self.emails.len();
        let arrived = self.run.arrivals.count();
        [arrived, emails, self.webhooks.len()].into_iter().map(|done| answered.saturating_sub(done)).sum()
    }

    async fn drain(&mut self, sends: usize) {
        eventually(DRAINED, "nothing is left to do", async || (self.backlog(sends) == 0).then_some(())).await;
    }

    async fn counts(&self) -> Counts {
        let mut connection = PgConnection::connect(self.installation.database_url()).await.unwrap();
        let blocks = "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()";
        let blocks = sqlx::query_scalar(blocks).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let postgres = Processes::named("postgres").map_or(0, Processes::micros);
        Counts { at: Instant::now(), answered: self.answered.load(Ordering::Acquire), blocks, postgres }
    }

    /// Returns the dead row versions of the hot tables, as PostgreSQL counts them.
    async fn dead(&self) -> String {
        let mut connection = PgConnection::connect(self.installation.database_url()).await.unwrap();
        let dead = "SELECT relname::text, n_dead_tup FROM pg_stat_user_tables WHERE relname = ANY($1) ORDER BY relname";
        let rows: Vec<(String, i64)> =
            sqlx::query_as(dead).bind(HOT).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows.iter().map(|(table, dead)| format!("{table} {dead}")).collect::<Vec<_>>().join(", ")
    }

    /// Returns the times from the 202 to the live client in microseconds, shortest first.
    fn waits(&self, numbers: Range<usize>) -> Vec<u64> {
        let (first, begin) = self.begin;
        let due = |number: usize| begin + (number - first) as u64 * 1_000_000 / u64::from(self.per_second);
        self.run.arrivals.so_far(numbers, due)
    }

    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    async fn note(
        &mut self,
        phase: &str,
        numbers: Range<usize>,
        (before, now): (Counts, Counts),
        minutes: &mut Minutes,
    ) {
        let sends = (now.answered - before.answered).max(1) as f64;
        let backlog = self.backlog(now.answered);
        let waits = self.waits(numbers);
        minutes.rate.push(sends / (now.at - before.at).as_secs_f64());
        minutes.p50_millis.push(quantile(&waits, 0.5));
        minutes.p99_millis.push(quantile(&waits, 0.99));
        minutes.backlog.push(backlog as f64);
        minutes.blocks.push((now.blocks - before.blocks) as f64 / sends);
        minutes.postgres_micros.push((now.postgres - before.postgres) as f64 / sends);
        let values = minutes.columns().map(|series| format!("{:>10.1}", series.last())).join("");
        eprintln!("{phase:<8}{values}  {}", self.dead().await);
    }
}

impl Minutes {
    fn columns(&self) -> [&Series; 6] {
        [&self.rate, &self.p50_millis, &self.p99_millis, &self.backlog, &self.blocks, &self.postgres_micros]
    }
}

impl PinnedReport {
    /// Rate, 99th percentile and blocks of the minutes with the transaction, divided by the medians before it. The rate is that of the
    /// slowest minute, and the blocks are those of the last. The second percentile is that of the worst minute; the first is that of all
    /// sends, also before the transaction.
    pub(crate) fn ratios(&self) -> [f64; 4] {
        let (before, during) = (&self.before, &self.during);
        [
            during.rate.lowest() / before.rate.median(),
            during.p99_millis_of_all / before.p99_millis_of_all,
            during.p99_millis.highest() / before.p99_millis.median(),
            during.blocks.last() / before.blocks.median(),
        ]
    }

    /// The rate does not depend on the machine, because far fewer sends arrive than it carries. The other values do.
    pub(crate) fn check(&self) {
        let [rate, ..] = self.ratios();
        assert!(rate >= RATE, "the slowest minute with the transaction has {rate:.2} of the rate before");
    }
}

/// Returns the number of the send, which is the subject of its email.
fn number(email: &Capture) -> usize {
    let mut lines = email.raw.split(|byte| *byte == b'\n');
    let subject = lines.find_map(|line| line.strip_prefix(b"Subject: ")).expect("an email has a subject");
    std::str::from_utf8(subject).unwrap().trim().parse().unwrap()
}

pub(crate) fn header() -> String {
    let names = ["sends/s", "p50 ms", "p99 ms", "backlog", "blocks", "µs"];
    format!("{:<8}{}  dead rows", "", names.map(|name| format!("{name:>10}")).join(""))
}
