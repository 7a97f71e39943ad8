//! `cargo xtask crash`: tests the delivery guarantees under crashes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::{provision, steps};

/// Disk space for the build, the servers' data and the logs of a long run.
const SPACE_MEBIBYTES: u64 = 6 * 1024;
const TEST: &str = "run::nothing_is_lost_or_shown_twice";

/// Kill every process, and check that nothing is lost or shown twice.
///
/// Runs every part of Tidings in separate processes, on a private PostgreSQL and nats-server, with providers that fail now and
/// then. While clients send, processes are killed, paused and cut off from their servers, and kill themselves at crash points.
/// PostgreSQL and nats-server are killed and paused too. Afterwards, the records of clients, users, providers, database and
/// log are checked against the guarantees.
///
/// The run first prints its seed. Pass the seed to --seed to repeat the schedule. The report goes to standard output and to
/// target/crash/report.json. The files of a failed run, including logs, stay in target/crash.
///
/// Exit codes: 0 the guarantees held; 1 a guarantee was broken, or a process did not recover; 2 the run could not start.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask crash                            20,000 notifications and 40 kills, in about 4 minutes
  cargo xtask crash --seed 7                   the schedule of an earlier run
  cargo xtask crash --long                     200,000 notifications and 300 kills, in an optimised build
  cargo xtask crash --notifications 2000
  cargo xtask crash --nats-server /opt/nats-server-2.12/nats-server")]
pub(crate) struct Arguments {
    /// Do the long run: 200,000 notifications, a kill every half second.
    #[arg(long)]
    long: bool,
    /// Repeat the schedule of the run that printed this seed.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Minimum number of notifications [default: 20,000, or 200,000 for the long run].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    notifications: Option<u64>,
    /// The nats-server program [default: the installed one].
    #[arg(long, value_name = "PATH")]
    nats_server: Option<PathBuf>,
    /// Build with optimisations, as the long run does.
    #[arg(long)]
    release: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    steps::enough_space(crate::workspace(), SPACE_MEBIBYTES)?;
    // The run kills its servers, so it must not use shared servers.
    provision::postgres_programs()?;
    match &arguments.nats_server {
        Some(program) => ensure!(program.is_file(), "{} is not a program", program.display()),
        None => provision::nats_program()?,
    }
    steps::say("building every part");
    let profile: &[&str] = if arguments.long || arguments.release { &steps::OPTIMIZED } else { &[] };
    // Build the programs together with the suite, so that they contain the crash points.
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

/// Removes the report of an earlier run, so that it is not mistaken for the report of this run.
fn forget(report: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(report) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", report.display()))
        }
        _ => Ok(()),
    }
}

/// Returns true if the run wrote a report without broken guarantees. The check is needed because cargo also succeeds if no test
/// has the given name.
fn holds(report: &Path) -> anyhow::Result<bool> {
    let text = std::fs::read_to_string(report);
    let text = text.with_context(|| format!("no run was made: no report exists at {}", report.display()))?;
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
        let program = program.canonicalize().with_context(|| format!("cannot find {}", program.display()))?;
        test.env("TIDINGS_TEST_NATS_SERVER", program);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{forget, holds};

    #[test]
    fn a_run_passes_only_with_its_own_report_without_broken_guarantees() {
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
