//! `cargo xtask crash`: the promise, put to the test.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::{provision, steps};

/// For the build, the servers' data and the logs of a long run.
const SPACE_MEBIBYTES: u64 = 6 * 1024;
const TEST: &str = "run::nothing_is_lost_or_shown_twice";

/// Kill everything, lose nothing, show nothing twice.
///
/// Runs every part of Tidings as processes of its own, on a private PostgreSQL and nats-server, with providers that fail
/// now and then. While clients send, processes are killed, stopped for a while, cut off from their servers, and die at the
/// worst moments; so do PostgreSQL and nats-server. Then everything that clients, users, providers, database and log know is
/// held against the promise, check by check.
///
/// The seed is printed first, and repeats the schedule of a run. The report goes to standard output and to
/// target/crash/report.json. What a run that fails has written, logs among it, stays in target/crash.
///
/// Exit codes: 0 the promise held; 1 it did not, or something did not come back; 2 the run could not be made.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask crash                            20,000 notifications and 40 kills, in about 4 minutes
  cargo xtask crash --seed 7                   the schedule of an earlier run
  cargo xtask crash --long                     200,000 notifications and 300 kills, in an optimised build
  cargo xtask crash --notifications 2000
  cargo xtask crash --nats-server /opt/nats-server-2.12/nats-server")]
pub(crate) struct Arguments {
    /// The long run: 200,000 notifications, a kill every half second.
    #[arg(long)]
    long: bool,
    /// Repeats the schedule of the run that printed it.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many notifications are sent at least, where that is not to be the usual number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    notifications: Option<u64>,
    /// The nats-server program, where that is not to be the installed one.
    #[arg(long, value_name = "PATH")]
    nats_server: Option<PathBuf>,
    /// Build with optimisations, as the long run does.
    #[arg(long)]
    release: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    steps::enough_space(crate::workspace(), SPACE_MEBIBYTES)?;
    // A server that others use must not be killed, so that there has to be one of our own.
    provision::postgres_programs()?;
    match &arguments.nats_server {
        Some(program) => ensure!(program.is_file(), "{} is no program", program.display()),
        None => provision::nats_program()?,
    }
    steps::say("building every part");
    let profile: &[&str] = if arguments.long || arguments.release { &steps::OPTIMIZED } else { &[] };
    // Built together with the suite, the programs have the crash points in them.
    let suite = ["--workspace", "--test", "crash"];
    steps::run(steps::cargo().arg("build").args(suite).arg("--bins").args(profile))?;
    let report = steps::target_directory()?.join("crash").join("report.json");
    forget(&report)?;
    let mut test = steps::cargo();
    test.arg("test").args(suite).args(profile).args(["--", "--exact", TEST, "--nocapture"]);
    set(&mut test, arguments)?;
    let passed = test.status().context("cannot start the run")?.success();
    Ok(if passed && holds(&report)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Removes the report of an earlier run, which must not be taken for this one's.
fn forget(report: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(report) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", report.display()))
        }
        _ => Ok(()),
    }
}

/// Whether a run that passed has reported, and that everything held: where no test has that name, none fails.
fn holds(report: &Path) -> anyhow::Result<bool> {
    let text = std::fs::read_to_string(report);
    let text =
        text.with_context(|| format!("no run was made: there is no report at {}", report.display()))?;
    Ok(text.contains("\"broken\":{}"))
}

fn set(test: &mut Command, arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(seed) = arguments.seed {
        test.env("TIDINGS_TEST_CRASH_SEED", seed.to_string());
    }
    if let Some(notifications) = arguments.notifications {
        test.env("TIDINGS_TEST_CRASH_NOTIFICATIONS", notifications.to_string());
    }
    if arguments.long {
        test.env("TIDINGS_TEST_CRASH_LONG", "1");
    }
    if let Some(program) = &arguments.nats_server {
        let program =
            program.canonicalize().with_context(|| format!("{} cannot be found", program.display()))?;
        test.env("TIDINGS_TEST_NATS_SERVER", program);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{forget, holds};

    #[test]
    fn a_run_holds_that_wrote_a_report_of_its_own_with_nothing_broken() {
        let report = std::env::temp_dir().join(format!("crash-report-{}.json", std::process::id()));
        std::fs::write(&report, r#"{"seed":1,"held":["a"],"broken":{"b":2}}"#).unwrap();
        assert!(!holds(&report).unwrap());
        std::fs::write(&report, r#"{"seed":1,"held":["a","b"],"broken":{}}"#).unwrap();
        assert!(holds(&report).unwrap());
        forget(&report).unwrap();
        forget(&report).unwrap();
        assert!(holds(&report).unwrap_err().to_string().starts_with("no run was made"));
    }
}
