//! `cargo xtask upgrade`: tests upgrades of a large database.

use std::process::ExitCode;

use anyhow::Context;

use crate::{provision, steps};

/// Disk space for the build and for a million deliveries.
const SPACE_MEBIBYTES: u64 = 8 * 1024;
const TESTS: &str = "many_deliveries::";

/// Upgrade a database with many deliveries in every state, and check that nothing is lost or sent twice.
///
/// Fills the schema of an earlier release on a private PostgreSQL and nats-server, runs `tidings migrate`, and starts the services of
/// this checkout with simulated providers. Does so twice: from the schema of the last release, and from that of the first one, so
/// that all migrations since then run. Prints the number of deliveries, the seconds that `tidings migrate` took, and the seconds until
/// all open deliveries had ended.
///
/// The PostgreSQL of the test does not wait for the disk (`fsync` is off), so the same migration takes longer in production.
///
/// Exit codes: 0 nothing was lost or sent twice; 1 a check failed; 2 the run could not start.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask upgrade                          12,000 deliveries, in about a minute
  cargo xtask upgrade --deliveries 1000000     the long form
  cargo xtask upgrade --deliveries 1000000 --release")]
pub(crate) struct Arguments {
    /// Number of deliveries in the database [default: 12,000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(12_000..=10_000_000))]
    deliveries: Option<u32>,
    /// Build with optimisations.
    #[arg(long)]
    release: bool,
}

/// Runs the tests one after the other, and returns exit code 1 if one of them fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    steps::enough_space(crate::workspace(), SPACE_MEBIBYTES)?;
    provision::postgres_programs()?;
    provision::nats_program()?;
    steps::say("building every part");
    let profile: &[&str] = if arguments.release { &steps::OPTIMIZED } else { &[] };
    let suite = ["--workspace", "--test", "upgrades"];
    steps::run(steps::cargo().arg("build").args(suite).arg("--bins").args(profile))?;
    let mut test = steps::cargo();
    test.arg("test").args(suite).args(profile).args(["--", TESTS, "--test-threads", "1", "--nocapture"]);
    if let Some(deliveries) = arguments.deliveries {
        test.env("TIDINGS_TEST_UPGRADE_DELIVERIES", deliveries.to_string());
    }
    let passed = test.status().context("cannot start the run")?.success();
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::TESTS;

    #[test]
    fn the_tests_to_run_exist() {
        let module = TESTS.trim_end_matches("::");
        assert!(include_str!("../../tests/upgrades/main.rs").contains(&format!("mod {module};")));
    }
}
