//! `cargo xtask test`: every test, on a machine where nothing is prepared.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};

use crate::containers::Container;
use crate::interrupt::Interrupt;
use crate::provision::{self, Source};
use crate::{python, steps};

/// Names a PostgreSQL in which tests may create databases.
const DATABASE: &str = "TIDINGS_TEST_DATABASE_URL";
/// `docker` runs the servers in containers; unset, they are programs of this machine.
const SERVERS: &str = "TIDINGS_TEST_SERVERS";
/// Extra arguments of the build if the servers run in containers.
const CONTAINERS: [&str; 2] = ["--features", "testkit/containers"];
const SPACE_MEBIBYTES: u64 = 4096;

/// Run the tests, on real servers.
///
/// Finds or installs PostgreSQL and nats-server, builds the services, starts one private PostgreSQL for the whole run
/// (unless TIDINGS_TEST_DATABASE_URL names a running one) and stops it afterwards. Uses cargo-nextest where it is
/// installed, else `cargo test`. TIDINGS_TEST_NATS_SERVER may name another nats-server program to test on. What goes over
/// the wire is checked by Python packages, which are fetched into the target directory, unless TIDINGS_TEST_PYTHON names
/// a Python that has them. The service worker is tested in Chromium, which is found or installed likewise.
///
/// With TIDINGS_TEST_SERVERS=docker, the PostgreSQL of the run and every nats-server come from containers, in the versions that
/// docker-compose.yml names. That takes a Docker engine on this machine, which must run Linux. A PostgreSQL that a test stops or
/// kills is a program of this machine all the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask test
  cargo xtask test -p store
  cargo xtask test --no-fail-fast
  TIDINGS_TEST_SERVERS=docker cargo xtask test
  TIDINGS_TEST_NATS_SERVER=/opt/nats-server-2.12/nats-server cargo xtask test -p event-log")]
pub(crate) struct Arguments {
    /// Passed on to `cargo nextest run` (or `cargo test`).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    passed_on: Vec<String>,
}

/// Does not return where it becomes the run of the tests, whose exit code it has either way.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    steps::enough_space(crate::workspace(), SPACE_MEBIBYTES)?;
    let extra = if in_containers()? { &CONTAINERS[..] } else { &[] };
    let database = provision::postgres(DATABASE)?;
    if std::env::var_os("TIDINGS_TEST_NATS_SERVER").is_none() {
        provision::nats_program()?;
    }
    if runs_the_suite(&arguments.passed_on)
        && !provision::is_set(python::PYTHON)
        && let Err(error) = python::environment()
    {
        steps::say(&format!("the tests of the wire will fail without their Python packages: {error:#}"));
    }
    if let Err(error) = provision::pgbouncer() {
        steps::say(&format!("the tests of the store behind it will fail: {error:#}"));
    }
    if runs_the_suite(&arguments.passed_on)
        && let Err(error) = provision::chromium()
    {
        steps::say(&format!("the tests in a browser will fail without it: {error:#}"));
    }
    steps::say("building the programs that tests start");
    steps::run(steps::cargo().arg("build").args(programs(&arguments.passed_on)).args(extra))?;

    let nextest = steps::succeeds("cargo-nextest", &["nextest", "--version"]);
    if !nextest {
        steps::say(
            "cargo-nextest is not installed, so `cargo test` runs the tests, one crate after the other",
        );
    }
    let mut tests = command(arguments, nextest, extra)?;
    if database != Source::Docker {
        return Err(tests.exec()).context("cannot start the tests");
    }
    let interrupt = Interrupt::watch()?;
    let postgres = Container::postgres(&crate::private_directory().join("test"))?;
    interrupt.passed_on_to(tests.env(DATABASE, &postgres.url))
}

/// The run of the tests, by way of the program that holds a PostgreSQL for as long as its command runs.
fn command(arguments: &Arguments, nextest: bool, extra: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(steps::target_directory()?.join("debug").join("with-test-cluster"));
    command.current_dir(crate::workspace());
    let cargo = steps::cargo();
    command.arg(cargo.get_program()).args(if nextest { &["nextest", "run"][..] } else { &["test"][..] });
    if !chooses_packages(&arguments.passed_on) {
        command.arg("--workspace");
    }
    command.args(extra).args(&arguments.passed_on);
    Ok(command)
}

fn in_containers() -> anyhow::Result<bool> {
    match std::env::var(SERVERS) {
        Err(_) => Ok(false),
        Ok(servers) if servers == "docker" => {
            ensure!(provision::has_docker(), "{SERVERS}=docker: no Docker engine answers; see `docker info`");
            Ok(true)
        }
        Ok(servers) => {
            bail!("{SERVERS}={servers}: it can be \"docker\", or left out for servers of this machine")
        }
    }
}

/// The suite starts every program; the crates by themselves start none but those of testkit. Built together with the
/// tests, they have what the suite asks of them, and are built once.
fn programs(passed_on: &[String]) -> &'static [&'static str] {
    if runs_the_suite(passed_on) {
        &["--workspace", "--bins", "--tests"]
    } else {
        &["--package", "testkit", "--package", "stand-ins", "--bins"]
    }
}

fn runs_the_suite(passed_on: &[String]) -> bool {
    !chooses_packages(passed_on) || passed_on.iter().any(|argument| argument.contains("suite"))
}

fn chooses_packages(passed_on: &[String]) -> bool {
    passed_on.iter().any(|argument| argument.starts_with("-p") || argument.starts_with("--package"))
}
