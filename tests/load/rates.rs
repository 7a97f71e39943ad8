//! Costs and latency at rates far below the sustained one: processor time and commits of a send with an inbox item and an email.

use domain::StreamName;
use serde::Serialize;
use sqlx::{Connection, PgConnection};
use stand_ins::smtp::SmtpStandIn;
use suite::cpu::Processes;

use crate::arrivals::quantile;
use crate::installation::{Installation, PARTITIONS};
use crate::latency::{Run, USERS, prepare};
use crate::series::Series;

const RATES: [u32; 3] = [100, 300, 1_000];
/// Seconds of sends at each rate, unless the stand-in would keep fewer emails.
const SPAN: u32 = 20;
const MOST: u32 = 8_000;
/// Sends before the first measurement, which open connections and fill caches.
const FIRST: usize = 200;

/// Results of one rate, by round.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RateReport {
    pub(crate) per_second: u32,
    /// Milliseconds from the 202 to the live client.
    pub(crate) inbox_p50_millis: Series,
    pub(crate) inbox_p99_millis: Series,
    /// Milliseconds from the 202 to the provider.
    pub(crate) provider_p99_millis: Series,
    /// Microseconds of processor time for a send.
    pub(crate) service_micros: Series,
    pub(crate) nats_micros: Series,
    pub(crate) postgres_micros: Series,
    /// Transactions that PostgreSQL committed for a send.
    pub(crate) commits: Series,
    /// Messages in the log for a send.
    pub(crate) messages: Series,
}

pub(crate) async fn measure(rounds: u32, old: u32) -> Vec<RateReport> {
    let (installation, provider) = &prepare(old).await;
    let mut reports = RATES.map(|per_second| RateReport { per_second, ..RateReport::default() });
    let sends: u32 = RATES.into_iter().map(sends_of).sum();
    for round in 1..=rounds {
        eprintln!("rates: round {round} of {rounds}");
        let run = Run::start(installation, provider, FIRST + sends as usize, USERS).await;
        run.send(0..FIRST, 100.0).await;
        installation.analyse().await;
        let mut next = FIRST;
        for report in &mut reports {
            installation.settle().await;
            next = report.measure(installation, provider, &run, next).await;
        }
    }
    reports.into()
}

fn sends_of(per_second: u32) -> u32 {
    (per_second * SPAN).min(MOST)
}

impl RateReport {
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    async fn measure(
        &mut self,
        installation: &Installation,
        provider: &SmtpStandIn,
        run: &Run<'_>,
        first: usize,
    ) -> usize {
        let numbers = first..first + sends_of(self.per_second) as usize;
        let each = |before: u64, after: u64| (after - before) as f64 / numbers.len() as f64;
        let (nats, postgres) = (Processes::named("nats-server"), Processes::named("postgres"));
        let used = || {
            let services = run.services.iter().map(|service| Processes::below(service.id()).micros()).sum();
            let [nats, postgres] = [nats, postgres].map(|some| some.map_or(0, Processes::micros));
            [services, nats, postgres]
        };
        provider.outbox().clear().unwrap();
        let (before, counted) = (used(), counts(installation).await);
        let answered = run.send(numbers.clone(), f64::from(self.per_second)).await;
        let (after, counts) = (used(), counts(installation).await);
        let series = [&mut self.service_micros, &mut self.nats_micros, &mut self.postgres_micros];
        for (place, series) in series.into_iter().enumerate() {
            series.push(each(before[place], after[place]));
        }
        self.commits.push(each(counted.0, counts.0));
        self.messages.push(each(counted.1, counts.1));
        let in_inbox = run.arrivals.since_publication(numbers.clone());
        self.inbox_p50_millis.push(quantile(&in_inbox, 0.5));
        self.inbox_p99_millis.push(quantile(&in_inbox, 0.99));
        self.provider_p99_millis.push(quantile(&run.until_provider(&answered, first), 0.99));
        numbers.end
    }
}

/// Returns the numbers of committed transactions and of messages in the log. A backend reports its commits at most once a second, so
/// that the last ones can be missing.
async fn counts(installation: &Installation) -> (u64, u64) {
    let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
    let commits: i64 =
        sqlx::query_scalar("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    connection.close().await.unwrap();
    let mut messages = 0;
    for stream in StreamName::all(PARTITIONS) {
        messages += installation.log.state(stream).await.unwrap().last_seq;
    }
    (u64::try_from(commits).unwrap(), messages)
}
