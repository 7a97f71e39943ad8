//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use super::phase::{Kind, Named, Phase};

/// Connections of an SMTP provider in two processes with 32 each.
const MOST_WORKERS: u32 = 64;

/// Runs phases of offered load, pressure and faults in the shape of hardbyte/postgresql-job-queue-benchmarking, and reports for each
/// the completed jobs per second, their latency, and jobs that were lost or done twice.
#[derive(Parser, Debug)]
#[command(
    name = "harness",
    after_help = "Phases:
  warmup, clean, high-load, idle-in-tx, active-readers, recovery, kill-worker, start-worker, postgres-restart,
  repeated-kill, pg-backend-kill, pool-exhaustion, retry-storm, priority-starvation, saturated

Examples:
  cargo xtask bench harness
  cargo xtask bench harness --phase warmup --phase saturated=60s --workers 16
  cargo xtask bench harness --phase warmup=30s --phase clean=1m --phase pg-backend-kill=1m --phase recovery=1m
  cargo xtask bench harness --full --sample 5 --json target/harness.json"
)]
pub(crate) struct Options {
    /// Phase, and its length if it differs from the default. Repeat it for several phases, in their order; all phases by default
    #[arg(long = "phase", value_name = "NAME[=LENGTH]")]
    named: Vec<Named>,
    /// Length of each phase that is named without one, in seconds
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Use the lengths of the original, for a run of six and a half hours
    #[arg(long, conflicts_with = "seconds")]
    full: bool,
    /// Jobs to offer per second
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: u32,
    /// Concurrent calls to the provider in a lane, of which each of the two workers makes half: an even number, at most 64
    #[arg(long, default_value_t = MOST_WORKERS, value_parser = workers)]
    pub(crate) workers: u32,
    /// Jobs of the backlog that the phases saturated and priority-starvation keep
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) depth: u64,
    /// Most recipients of a send. A send to more than 100 would use the bulk lane
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) batch: u64,
    /// Milliseconds that the provider takes for a job
    #[arg(long, default_value_t = 1)]
    pub(crate) work_ms: u64,
    /// Time after which another worker continues the jobs of a worker that died
    #[arg(long, default_value = "15s", value_parser = humantime::parse_duration)]
    pub(crate) lease: Duration,
    /// Seconds between two samples, and of each interval whose rate counts for the median
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    sample: u64,
    /// Keep PostgreSQL's default settings, in place of those of the original
    #[arg(long)]
    pub(crate) default_postgres: bool,
    /// Run PostgreSQL without fsync, for the short form
    #[arg(long, hide = true)]
    pub(crate) unsynced: bool,
    /// Append the results to this file, as one line of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Flag that cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let length = |kind: Kind| match self.seconds {
            Some(seconds) => Duration::from_secs(seconds),
            None if self.full => kind.full(),
            None => kind.short(),
        };
        let named = self.named.iter().map(|Named(kind, given)| (*kind, *given));
        let all = Kind::value_variants().iter().map(|kind| (*kind, None));
        let chosen: Vec<_> = if self.named.is_empty() { all.collect() } else { named.collect() };
        chosen
            .into_iter()
            .map(|(kind, given)| Phase { kind, length: given.unwrap_or_else(|| length(kind)) })
            .collect()
    }

    pub(crate) fn sample(&self) -> Duration {
        Duration::from_secs(self.sample)
    }

    /// Concurrent calls while both lanes have jobs. The lanes of a process share its connections to the provider.
    pub(crate) fn calls_in_both_lanes(&self) -> u32 {
        (self.workers * 2).min(MOST_WORKERS)
    }
}

fn workers(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(workers @ 2..=MOST_WORKERS) if workers.is_multiple_of(2) => Ok(workers),
        Ok(_) => Err(format!(
            "must be an even number from 2 to {MOST_WORKERS}, because each of the two email workers makes half \
             of the calls, and opens at most {} connections to an SMTP provider",
            MOST_WORKERS / 2
        )),
        Err(error) => Err(error.to_string()),
    }
}

// The benchmark has no tests, so that an import here would be unused in it.
#[cfg(test)]
mod tests {
    #[test]
    fn odd_numbers_of_workers_and_more_than_connections_are_refused() {
        for (text, number) in [("2", 2), ("6", 6), ("64", 64)] {
            assert_eq!(super::workers(text), Ok(number));
        }
        for wrong in ["0", "1", "5", "63", "65", "66", "256", "x"] {
            assert!(super::workers(wrong).is_err(), "{wrong}");
        }
        assert!(super::workers("128").unwrap_err().contains("an even number from 2 to 64"));
    }

    #[test]
    fn both_lanes_together_make_no_more_calls_than_there_are_connections() {
        let most = |workers| {
            let words = ["harness", "--workers", workers];
            <super::Options as clap::Parser>::parse_from(words).calls_in_both_lanes()
        };
        assert_eq!(["2", "16", "32", "48", "64"].map(most), [4, 32, 64, 64, 64]);
    }
}
