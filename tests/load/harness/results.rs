//! Reads from the tables, and from the provider's list, what became of the jobs of each phase.

use std::collections::{HashMap, HashSet};

use futures_util::TryStreamExt as _;
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Observed;
use super::backlog::Call;
use super::options::Options;
use super::phase::Kind;
use super::producer::{Accepted, Producer};
use super::samples::{Spread, median};
use super::site::Site;

/// Results of one phase.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PhaseResult {
    pub(crate) phase: Kind,
    pub(crate) seconds: f64,
    /// Jobs of the sends that the producer made.
    pub(crate) offered: u64,
    /// Jobs that became due and were not offered, because too many sends had no answer. None for a backlog.
    pub(crate) not_offered: Option<u64>,
    /// Jobs of sends that got another answer than 202, or none.
    pub(crate) refused: u64,
    /// Jobs whose send was answered with 202 in the phase.
    pub(crate) accepted: u64,
    /// Jobs that were recorded as sent by a transaction that began in the phase, and committed.
    pub(crate) completed: u64,
    /// Those of them in the bulk lane.
    pub(crate) completed_in_bulk: u64,
    pub(crate) per_second: f64,
    /// Median rate of the whole intervals between samples. None if the phase is shorter than one.
    pub(crate) sampled_per_second: Option<f64>,
    /// Milliseconds from the acceptance to the start of the transaction that records the provider's answer.
    pub(crate) p50_millis: f64,
    pub(crate) p95_millis: f64,
    pub(crate) p99_millis: f64,
    /// None without a sample.
    pub(crate) depth: Option<Spread>,
    /// None without a sample.
    pub(crate) dead_rows: Option<Spread>,
    /// Microseconds of processor time of services, nats-server and PostgreSQL for a completed job.
    pub(crate) micros: [f64; 3],
    /// Completed jobs per second of processor time of all of them.
    pub(crate) per_cpu_second: f64,
    /// Attempts that the provider refused, until no job of the phase was left.
    pub(crate) failed_attempts: u64,
    /// Accepted jobs of the phase that have not ended, or were recorded as sent although the provider's list does not contain them.
    pub(crate) lost: u64,
    /// Accepted jobs of the phase that ended, but not as sent.
    pub(crate) not_sent: u64,
    /// Calls of the provider that repeated one which it had accepted, until the next phase.
    pub(crate) repeated: u64,
    /// Seconds from the end of the phase until every accepted job had ended. None if it was not measured, or not reached.
    pub(crate) emptied_seconds: Option<f64>,
    /// Faults that had an effect. None if the phase has no faults that are counted.
    pub(crate) faults: Option<u64>,
}

/// Results of all phases.
pub(crate) async fn of(
    site: &Site,
    producer: &Producer,
    observed: &[Observed],
    options: &Options,
) -> Vec<PhaseResult> {
    let mut connection = site.connect().await;
    let calls = Calls::read(site);
    let ends = Ends::read(&mut connection, &calls).await;
    let sends = producer.sends();
    let mut results = Vec::new();
    for (place, phase) in observed.iter().enumerate() {
        let next = observed.get(place + 1).map_or(i64::MAX, |next| next.begin.millis());
        let mut result = measured(&mut connection, phase, options.sample().as_secs()).await;
        let of_phase = |at: i64| (phase.begin.millis()..next).contains(&at);
        for send in sends.iter().filter(|send| of_phase(send.at.millis())) {
            result.accepted += send.jobs;
            ends.judge(send, &mut result);
        }
        result.repeated = calls.repeated.iter().filter(|at| of_phase(**at)).count() as u64;
        results.push(result);
    }
    results
}

/// The provider's list of accepted calls.
struct Calls {
    deliveries: HashSet<Uuid>,
    /// Times of the calls that the provider had accepted before, in milliseconds since 1970.
    repeated: Vec<i64>,
}

impl Calls {
    fn read(site: &Site) -> Calls {
        let text = std::fs::read_to_string(&site.accepted).unwrap();
        let mut calls = Calls { deliveries: HashSet::new(), repeated: Vec::new() };
        for line in text.lines() {
            let call: Call = serde_json::from_str(line).unwrap();
            if !calls.deliveries.insert(call.delivery) {
                calls.repeated.push(call.at);
            }
        }
        calls
    }
}

/// Ends of the deliveries of each send.
struct Ends(HashMap<Uuid, End>);

/// Numbers of deliveries of one send.
#[derive(Clone, Copy, Default)]
struct End {
    ended: u64,
    sent: u64,
    /// Recorded as sent, but missing in the provider's list.
    unlisted: u64,
}

impl Ends {
    async fn read(connection: &mut PgConnection, calls: &Calls) -> Ends {
        let statement =
            "SELECT send_id, id, status FROM delivery WHERE status NOT IN ('queued', 'sending', 'retrying')";
        let mut rows = sqlx::query_as::<_, (Uuid, Uuid, String)>(statement).fetch(connection);
        let mut ends: HashMap<Uuid, End> = HashMap::new();
        while let Some((send, delivery, status)) = rows.try_next().await.unwrap() {
            let end = ends.entry(send).or_default();
            let is_sent = status == "sent";
            end.ended += 1;
            end.sent += u64::from(is_sent);
            end.unlisted += u64::from(is_sent && !calls.deliveries.contains(&delivery));
        }
        Ends(ends)
    }

    fn judge(&self, send: &Accepted, result: &mut PhaseResult) {
        let End { ended, sent, unlisted } = self.0.get(&send.send).copied().unwrap_or_default();
        result.lost += send.jobs.saturating_sub(ended) + unlisted;
        result.not_sent += ended - sent;
    }
}

/// Measures a phase. Its jobs are judged later.
#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
async fn measured(connection: &mut PgConnection, phase: &Observed, sample: u64) -> PhaseResult {
    let (begin, end) = (phase.begin.millis(), phase.end.millis());
    let seconds = (end - begin) as f64 / 1e3;
    let emptied = end + i64::try_from(phase.emptied.unwrap_or_default().as_millis()).unwrap();
    let (completed, in_bulk, p50, p95, p99) = latency(connection, begin, end).await;
    let each = |micros: u64| if completed == 0 { 0.0 } else { micros as f64 / completed as f64 };
    let used: u64 = phase.micros.iter().sum();
    PhaseResult {
        phase: phase.kind,
        seconds,
        offered: phase.offers.offered,
        not_offered: phase.offers.not_offered,
        refused: phase.offers.refused,
        completed,
        completed_in_bulk: in_bulk,
        per_second: completed as f64 / seconds,
        sampled_per_second: sampled(connection, begin, end, sample).await,
        p50_millis: p50,
        p95_millis: p95,
        p99_millis: p99,
        depth: phase.samples.depth(),
        dead_rows: phase.samples.dead_rows(),
        micros: phase.micros.map(each),
        per_cpu_second: if used == 0 { 0.0 } else { completed as f64 * 1e6 / used as f64 },
        failed_attempts: failed(connection, begin, emptied).await,
        emptied_seconds: phase.emptied.map(|time| time.as_secs_f64()),
        faults: phase.faults,
        ..PhaseResult::default()
    }
}

/// Returns the number of completed jobs, those in the bulk lane, and three quantiles of their latency in milliseconds.
async fn latency(connection: &mut PgConnection, begin: i64, end: i64) -> (u64, u64, f64, f64, f64) {
    let (all, bulk, quantiles): (i64, i64, Option<Vec<f64>>) = sqlx::query_as(
        "SELECT count(*), count(*) FILTER (WHERE lane = 'bulk'),
           percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY millis)
         FROM (
           SELECT r.lane, extract(epoch FROM d.settled_at - r.accepted_at)::float8 * 1000 AS millis
           FROM delivery d JOIN request r USING (app_id, send_id)
           WHERE d.status = 'sent' AND d.settled_at >= to_timestamp($1::bigint / 1000.0) AND d.settled_at < to_timestamp($2::bigint / 1000.0)
         ) AS ended",
    )
    .bind(begin)
    .bind(end)
    .fetch_one(connection)
    .await
    .unwrap();
    let [p50, p95, p99] = quantiles.unwrap_or(vec![0.0; 3]).try_into().unwrap();
    (u64::try_from(all).unwrap(), u64::try_from(bulk).unwrap(), p50, p95, p99)
}

/// Median rate of the whole intervals of `sample` seconds. None if there are none.
#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
async fn sampled(connection: &mut PgConnection, begin: i64, end: i64, sample: u64) -> Option<f64> {
    let length = i64::try_from(sample).unwrap() * 1_000;
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT floor((extract(epoch FROM settled_at) * 1000 - $1::bigint) / $3::bigint)::bigint AS place, count(*) FROM delivery
         WHERE status = 'sent' AND settled_at >= to_timestamp($1::bigint / 1000.0) AND settled_at < to_timestamp($2::bigint / 1000.0)
         GROUP BY place",
    )
    .bind(begin)
    .bind(end)
    .bind(length)
    .fetch_all(connection)
    .await
    .unwrap();
    let counts: HashMap<i64, u64> =
        rows.into_iter().map(|(place, count)| (place, u64::try_from(count).unwrap())).collect();
    let mut whole: Vec<u64> =
        (0..(end - begin) / length).map(|place| counts.get(&place).copied().unwrap_or_default()).collect();
    median(&mut whole).map(|count| count / sample as f64)
}

/// Number of attempts that ended without success.
async fn failed(connection: &mut PgConnection, begin: i64, end: i64) -> u64 {
    let failed: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM attempt
         WHERE outcome <> 'sent' AND ended_at >= to_timestamp($1::bigint / 1000.0) AND ended_at < to_timestamp($2::bigint / 1000.0)",
    )
    .bind(begin)
    .bind(end)
    .fetch_one(connection)
    .await
    .unwrap();
    u64::try_from(failed).unwrap()
}
