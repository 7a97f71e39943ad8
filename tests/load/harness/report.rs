//! The report, as a table and as a line of JSON.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use domain::Timestamp;
use serde::Serialize;
use service_kit::clock;

use super::options::Options;
use super::phase::Kind;
use super::producer::Producer;
use super::results::PhaseResult;
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
    workers: u32,
    depth: u64,
    batch: u64,
    work_millis: u64,
    lease_seconds: u64,
    /// Jobs of sends that got another answer than 202, or none.
    pub(crate) refused: u64,
    /// Lost jobs of the warmup, which is not reported otherwise.
    lost_in_warmup: u64,
    pub(crate) phases: Vec<PhaseResult>,
}

impl HarnessReport {
    pub(crate) async fn new(
        options: &Options,
        site: &Site,
        producer: &Producer,
        results: Vec<PhaseResult>,
    ) -> HarnessReport {
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
            depth: options.depth,
            batch: options.batch,
            work_millis: options.work_ms,
            lease_seconds: options.lease.as_secs(),
            refused: producer.refused(),
            lost_in_warmup: warmups.iter().map(|warmup| warmup.lost).sum(),
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
            "{} jobs/s offered, {} calls at once, depth {}, sends to {} recipients at most, {} ms of work, lease {} s",
            self.rate, self.workers, self.depth, self.batch, self.work_millis, self.lease_seconds
        )?;
        self.show_load(f)?;
        self.show_ends(f)
    }
}

impl HarnessReport {
    fn show_load(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<20}{:>10}{:>8}{:>9}{:>22}{:>15}{:>18}{:>20}{:>12}",
            "",
            "jobs/s",
            "median",
            "of clean",
            "ms p50/p95/p99",
            "depth",
            "dead rows",
            "µs own/nats/pg",
            "jobs/CPU s"
        )?;
        let clean = self.phases.iter().find(|phase| phase.phase == Kind::Clean);
        for phase in &self.phases {
            let of_clean = clean.map_or_else(String::new, |clean| {
                format!("{:.2}", phase.sampled_per_second / clean.sampled_per_second)
            });
            let latency = [phase.p50_millis, phase.p95_millis, phase.p99_millis];
            writeln!(
                f,
                "{:<20}{:>10.0}{:>8.0}{:>9}{:>22}{:>15}{:>18}{:>20}{:>12.0}",
                phase.phase.name(),
                phase.per_second,
                phase.sampled_per_second,
                of_clean,
                latency.map(|millis| format!("{millis:.0}")).join("/"),
                format!("{}, {}", phase.depth_median, phase.depth_peak),
                format!("{}, {}", phase.dead_rows_median, phase.dead_rows_peak),
                phase.micros.map(|micros| format!("{micros:.0}")).join("/"),
                phase.per_cpu_second,
            )?;
        }
        Ok(())
    }

    fn show_ends(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<20}{:>10}{:>11}{:>9}{:>8}{:>8}{:>10}{:>10}{:>10}{:>8}",
            "",
            "accepted",
            "completed",
            "in bulk",
            "failed",
            "lost",
            "not sent",
            "repeated",
            "empty s",
            "faults"
        )?;
        for phase in &self.phases {
            let emptied = phase.emptied_seconds.map_or_else(String::new, |seconds| format!("{seconds:.1}"));
            writeln!(
                f,
                "{:<20}{:>10}{:>11}{:>9}{:>8}{:>8}{:>10}{:>10}{:>10}{:>8}",
                phase.phase.name(),
                phase.accepted,
                phase.completed,
                phase.completed_in_bulk,
                phase.failed_attempts,
                phase.lost,
                phase.not_sent,
                phase.repeated,
                emptied,
                phase.faults.map_or_else(String::new, |faults| faults.to_string()),
            )?;
        }
        for phase in self.phases.iter().filter(|phase| phase.faults == Some(0)) {
            writeln!(f, "{}: no fault had an effect", phase.phase.name())?;
        }
        writeln!(
            f,
            "{} jobs were not accepted, and {} of the warmup were lost",
            self.refused, self.lost_in_warmup
        )
    }
}
