//! The report, as a table and as a line of JSON.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use domain::Timestamp;
use serde::Serialize;
use service_kit::clock;

use super::judgement;
use super::options::Options;
use super::phase::Kind;
use super::producer::Producer;
use super::results::PhaseResult;
use super::samples::Spread;
use super::site::Site;
use crate::machine::processor;

/// Description of the machine, the options, and the results of all phases.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HarnessReport {
    at: Timestamp,
    cores: usize,
    processor: String,
    postgres: String,
    rate: u32,
    /// Concurrent calls in a lane.
    workers: u32,
    calls_in_both_lanes: u32,
    depth: u64,
    batch: u64,
    work_millis: u64,
    lease_seconds: u64,
    sample_seconds: u64,
    /// Jobs of sends that got another answer than 202, or none.
    pub(crate) refused: u64,
    /// Lost jobs of the warmup, which is not reported otherwise.
    lost_in_warmup: u64,
    /// Reasons for which the run fails, also those in the warmup.
    pub(crate) problems: Vec<String>,
    pub(crate) phases: Vec<PhaseResult>,
}

impl HarnessReport {
    pub(crate) async fn new(
        options: &Options,
        site: &Site,
        producer: &Producer,
        results: Vec<PhaseResult>,
    ) -> HarnessReport {
        let problems = judgement::problems(&results);
        let (warmups, phases): (Vec<_>, Vec<_>) =
            results.into_iter().partition(|result| result.phase == Kind::Warmup);
        let postgres = sqlx::query_scalar("SHOW server_version").fetch_one(&mut site.connect().await).await;
        HarnessReport {
            at: clock::now(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: processor(),
            postgres: postgres.unwrap(),
            rate: options.rate,
            workers: options.workers,
            calls_in_both_lanes: options.calls_in_both_lanes(),
            depth: options.depth,
            batch: options.batch,
            work_millis: options.work_ms,
            lease_seconds: options.lease.as_secs(),
            sample_seconds: options.sample().as_secs(),
            refused: producer.refused(),
            lost_in_warmup: warmups.iter().map(|warmup| warmup.lost).sum(),
            problems,
            phases,
        }
    }

    /// Lost jobs of all phases, including the warmup.
    pub(crate) fn lost(&self) -> u64 {
        self.lost_in_warmup + self.phases.iter().map(|phase| phase.lost).sum::<u64>()
    }

    /// Appends the report to a file, as one line.
    pub(crate) fn append_to(&self, path: &Path) -> std::io::Result<()> {
        let mut line = serde_json::to_string(self)?;
        line.push('\n');
        OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
    }
}

impl fmt::Display for HarnessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{} · {} cores · {} · PostgreSQL {}",
            self.at, self.cores, self.processor, self.postgres
        )?;
        writeln!(
            f,
            "{} jobs/s to offer, {} calls at once in a lane and {} in both, depth {}",
            self.rate, self.workers, self.calls_in_both_lanes, self.depth
        )?;
        writeln!(
            f,
            "sends to {} recipients at most, {} ms of work, lease {} s, a sample every {} s",
            self.batch, self.work_millis, self.lease_seconds, self.sample_seconds
        )?;
        self.show_load(f)?;
        self.show_ends(f)?;
        for problem in &self.problems {
            writeln!(f, "failed: {problem}")?;
        }
        Ok(())
    }
}

/// Titles and widths of the columns after the name of the phase.
type Columns<const N: usize> = [(&'static str, usize); N];

const LOAD: Columns<8> = [
    ("jobs/s", 10),
    ("median", 8),
    ("of clean", 9),
    ("ms p50/p95/p99", 22),
    ("depth", 15),
    ("dead rows", 18),
    ("µs own/nats/pg", 20),
    ("jobs/CPU s", 12),
];

const ENDS: Columns<12> = [
    ("offered", 10),
    ("not offered", 13),
    ("refused", 9),
    ("accepted", 10),
    ("completed", 11),
    ("in bulk", 9),
    ("failed", 8),
    ("lost", 8),
    ("not sent", 10),
    ("repeated", 10),
    ("empty s", 9),
    ("faults", 8),
];

impl HarnessReport {
    fn show_load(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        row(f, &LOAD, "", LOAD.map(|(title, _)| title.to_owned()))?;
        let clean = self.phases.iter().find(|phase| phase.phase == Kind::Clean);
        let clean = clean.and_then(|clean| clean.sampled_per_second).filter(|rate| *rate > 0.0);
        for phase in &self.phases {
            let of_clean = phase.sampled_per_second.zip(clean).map(|(rate, clean)| rate / clean);
            let latency = [phase.p50_millis, phase.p95_millis, phase.p99_millis];
            let cells = [
                format!("{:.0}", phase.per_second),
                or_dash(phase.sampled_per_second, |rate| format!("{rate:.0}")),
                or_dash(of_clean, |ratio| format!("{ratio:.2}")),
                latency.map(|millis| format!("{millis:.0}")).join("/"),
                or_dash(phase.depth, spread),
                or_dash(phase.dead_rows, spread),
                phase.micros.map(|micros| format!("{micros:.0}")).join("/"),
                format!("{:.0}", phase.per_cpu_second),
            ];
            row(f, &LOAD, &phase.phase.name(), cells)?;
        }
        Ok(())
    }

    fn show_ends(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        row(f, &ENDS, "", ENDS.map(|(title, _)| title.to_owned()))?;
        for phase in &self.phases {
            let cells = [
                phase.offered.to_string(),
                or_dash(phase.not_offered, |jobs| jobs.to_string()),
                phase.refused.to_string(),
                phase.accepted.to_string(),
                phase.completed.to_string(),
                phase.completed_in_bulk.to_string(),
                phase.failed_attempts.to_string(),
                phase.lost.to_string(),
                phase.not_sent.to_string(),
                phase.repeated.to_string(),
                or_dash(phase.emptied_seconds, |seconds| format!("{seconds:.1}")),
                or_dash(phase.faults, |faults| faults.to_string()),
            ];
            row(f, &ENDS, &phase.phase.name(), cells)?;
        }
        for phase in self.phases.iter().filter(|phase| phase.faults == Some(0)) {
            writeln!(f, "{}: no fault had an effect", phase.phase.name())?;
        }
        writeln!(f, "{} jobs were not accepted, and {} were lost", self.refused, self.lost())
    }
}

fn row<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    columns: &Columns<N>,
    name: &str,
    cells: [String; N],
) -> fmt::Result {
    write!(f, "{name:<20}")?;
    for (cell, &(_, width)) in cells.into_iter().zip(columns) {
        write!(f, "{cell:>width$}")?;
    }
    writeln!(f)
}

fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

fn spread(Spread { median, peak }: Spread) -> String {
    format!("{median:.0}, {peak}")
}
