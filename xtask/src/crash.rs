use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::{provision, steps};

const SPACE_MEBIBYTES: u64 = 6 * 1024;
const TEST: &str = "run::nothing_is_lost_or_shown_twice";
const TOO_SLOW: u8 = 3;

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
/// Before the first fault, the run measures how fast this machine is now. On a slow machine, it stretches its times by a factor of
/// up to three. On a machine that is still slower, the run judges nothing and ends at once. The report names each check that had
/// too little to judge by. Such a check does not fail the run.
///
/// Exit codes: 0 no guarantee was broken; 1 a guarantee was broken, a process did not recover, or too few faults occurred; 2 the
/// run could not start; 3 this machine is too slow, and nothing was judged.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask crash                            20,000 notifications and 40 kills, in about 4 minutes
  cargo xtask crash --seed 7                   the schedule of an earlier run
  cargo xtask crash --long                     200,000 notifications and 2,300 kills in 25 minutes, in an optimised build
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
    Ok(match result(passed, &report)? {
        RunResult::Held => ExitCode::SUCCESS,
        RunResult::Broken => ExitCode::FAILURE,
        RunResult::TooSlow => ExitCode::from(TOO_SLOW),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum RunResult {
    Held,
    Broken,
    /// The machine is too slow, and nothing was judged.
    TooSlow,
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

/// A passed run needs a report, because cargo also succeeds if no test has the given name. A failed run may have no report.
fn result(passed: bool, report: &Path) -> anyhow::Result<RunResult> {
    let text = match std::fs::read_to_string(report) {
        Err(error) if !passed && error.kind() == ErrorKind::NotFound => return Ok(RunResult::Broken),
        text => text.with_context(|| format!("no run was made: no report exists at {}", report.display()))?,
    };
    let is_judged = text.contains("\"tooSlow\":null");
    Ok(if !is_judged {
        RunResult::TooSlow
    } else if passed && text.contains("\"broken\":{}") {
        RunResult::Held
    } else {
        RunResult::Broken
    })
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
    use super::{RunResult, forget, result};

    #[test]
    fn the_result_of_a_run_comes_from_its_own_report() {
        let report = std::env::temp_dir().join(format!("crash-report-{}.json", std::process::id()));
        std::fs::write(&report, r#"{"seed":1,"tooSlow":null,"held":["a"],"broken":{"b":2}}"#).unwrap();
        assert_eq!(result(true, &report).unwrap(), RunResult::Broken);
        std::fs::write(&report, r#"{"seed":1,"tooSlow":null,"held":["a","b"],"broken":{}}"#).unwrap();
        assert_eq!(result(true, &report).unwrap(), RunResult::Held);
        assert_eq!(result(false, &report).unwrap(), RunResult::Broken);
        std::fs::write(&report, r#"{"seed":1,"tooSlow":"20 % are free","held":[],"broken":{}}"#).unwrap();
        assert_eq!(result(false, &report).unwrap(), RunResult::TooSlow);
        forget(&report).unwrap();
        forget(&report).unwrap();
        assert!(result(true, &report).unwrap_err().to_string().starts_with("no run was made"));
        assert_eq!(result(false, &report).unwrap(), RunResult::Broken);
    }
}
