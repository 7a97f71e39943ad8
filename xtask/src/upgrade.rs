use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};

use crate::{provision, steps};

const SPACE_MEBIBYTES: u64 = 8 * 1024;
const MANY_DELIVERIES: &str = "many_deliveries::";
const BESIDE: &str = "beside_another_release::";
/// Directory of the other release's programs.
const OTHER_PROGRAMS: &str = "TIDINGS_TEST_OTHER_PROGRAMS";

/// Upgrade a database with many deliveries in every state, and check that nothing is lost or sent twice.
///
/// Fills the schema of an earlier release on a private PostgreSQL and nats-server, runs `tidings migrate`, and starts the services of
/// this checkout with simulated providers. Does so twice: from the schema of the last release, and from that of the first one, so
/// that all migrations since then run. Prints the number of deliveries, the seconds that `tidings migrate` took, and the seconds until
/// all open deliveries had ended.
///
/// The PostgreSQL of the test does not wait for the disk (`fsync` is off), so the same migration takes longer in production.
///
/// With --beside, the command instead builds the programs of another revision, and runs two processes of each service under load. First
/// all processes are of the other revision. Then the database is upgraded, one process of each service is replaced by one of this
/// checkout, the two change places, and finally all are of this checkout. The other programs are built in a separate folder of the target directory,
/// with the toolchain of this checkout.
///
/// Exit codes: 0 nothing was lost or sent twice; 1 a check failed; 2 the run could not start.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask upgrade                          12,000 deliveries, in about a minute
  cargo xtask upgrade --deliveries 1000000     the long form
  cargo xtask upgrade --deliveries 1000000 --release
  cargo xtask upgrade --beside v0.5.0          the release of this tag beside this checkout")]
pub(crate) struct Arguments {
    /// Number of deliveries in the database [default: 12,000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(12_000..=10_000_000))]
    deliveries: Option<u32>,
    /// Run the programs of this git revision beside those of this checkout.
    #[arg(long, value_name = "REVISION", conflicts_with = "deliveries")]
    beside: Option<String>,
    /// Build with optimisations.
    #[arg(long)]
    release: bool,
}

/// Returns exit code 1 if one of the tests fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    steps::enough_space(crate::workspace(), SPACE_MEBIBYTES)?;
    provision::postgres_programs()?;
    provision::nats_program()?;
    let profile: &[&str] = if arguments.release { &steps::OPTIMIZED } else { &[] };
    let other = match &arguments.beside {
        Some(revision) => Some(other_programs(revision, profile)?),
        None => None,
    };
    steps::say("building every part");
    let suite = ["--workspace", "--test", "upgrades"];
    steps::run(steps::cargo().arg("build").args(suite).arg("--bins").args(profile))?;
    let mut test = steps::cargo();
    test.arg("test").args(suite).args(profile).args(["--", "--test-threads", "1", "--nocapture"]);
    match other {
        Some(programs) => test.args([BESIDE, "--include-ignored"]).env(OTHER_PROGRAMS, programs),
        None => test.arg(MANY_DELIVERIES),
    };
    if let Some(deliveries) = arguments.deliveries {
        test.env("TIDINGS_TEST_UPGRADE_DELIVERIES", deliveries.to_string());
    }
    let passed = test.status().context("cannot start the run")?.success();
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds in a separate folder of the target directory, and returns the directory that contains the programs.
fn other_programs(revision: &str, profile: &[&str]) -> anyhow::Result<PathBuf> {
    let git = || {
        let mut git = Command::new("git");
        git.current_dir(crate::workspace());
        git
    };
    let commit = git().args(["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")]).output();
    let commit = String::from_utf8(commit.context("cannot run git")?.stdout)?.trim().to_owned();
    ensure!(
        !commit.is_empty(),
        "--beside: this repository has no revision {revision}; `git tag` lists the releases"
    );
    let folder = steps::target_directory()?.join("releases").join(&commit);
    let sources = folder.join("sources");
    std::fs::create_dir_all(&sources)?;
    let mut archive = git()
        .args(["archive", "--format=tar", &commit])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run git")?;
    let files = archive.stdout.take().context("git has no output")?;
    steps::run(Command::new("tar").arg("--extract").arg("--directory").arg(&sources).stdin(files))?;
    ensure!(archive.wait()?.success(), "git cannot read the files of {revision}");
    steps::say(&format!("building the programs of {revision}"));
    let target = folder.join("target");
    let mut build = steps::cargo();
    build.current_dir(&sources).env("CARGO_TARGET_DIR", &target);
    steps::run(build.args(["build", "--locked", "--bin", "tidings"]).args(profile))?;
    Ok(target.join(if profile.is_empty() { "debug" } else { profile[1] }))
}

#[cfg(test)]
mod tests {
    use super::{BESIDE, MANY_DELIVERIES, OTHER_PROGRAMS};

    #[test]
    fn the_tests_to_run_exist() {
        for tests in [MANY_DELIVERIES, BESIDE] {
            let module = tests.trim_end_matches("::");
            assert!(include_str!("../../tests/upgrades/main.rs").contains(&format!("mod {module};")));
        }
        let beside = include_str!("../../tests/upgrades/beside_another_release.rs");
        assert!(beside.contains(&format!("\"{OTHER_PROGRAMS}\"")));
    }
}
