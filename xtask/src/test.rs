use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};

use crate::containers::Container;
use crate::interrupt::Interrupt;
use crate::provision::{self, Source};
use crate::{mail_servers, node, python, steps};

/// Names a PostgreSQL in which tests may create databases.
const DATABASE: &str = "TIDINGS_TEST_DATABASE_URL";
/// `docker` means containers. If the variable is not set, tests start the installed programs.
const SERVERS: &str = "TIDINGS_TEST_SERVERS";
const CONTAINERS: [&str; 2] = ["--features", "testkit/containers"];
const SPACE_MEBIBYTES: u64 = 4096;
/// A file system in memory.
const IN_MEMORY: &str = "/dev/shm";
const MEMORY_MEBIBYTES: u64 = 12 * 1024;

/// Run the tests on real servers.
///
/// Finds or installs PostgreSQL and nats-server, builds the services, starts one private PostgreSQL for the whole run (unless
/// TIDINGS_TEST_DATABASE_URL names a running one) and stops it afterwards. Uses cargo-nextest if it is installed, otherwise
/// `cargo test`. TIDINGS_TEST_NATS_SERVER may name another nats-server program. Tests of messages on the wire need Python
/// packages, which are downloaded into the target directory, unless TIDINGS_TEST_PYTHON names a Python that has them. Tests of
/// the service worker need Chromium, which is also found or installed. Tests with mail servers need Debian and root; the servers are
/// unpacked below `.tidings/tools`, but not installed.
///
/// Databases and event logs of the tests are in memory, below /dev/shm, if 12 GiB are free there; unless TMPDIR names another folder.
///
/// With TIDINGS_TEST_SERVERS=docker, the PostgreSQL of the run and every nats-server run in containers, in the versions of
/// docker-compose.yml. This needs Linux and a Docker engine on this machine. Tests that stop or kill PostgreSQL still start the
/// one that is installed on this machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask test
  cargo xtask test -p store
  cargo xtask test --no-fail-fast
  TIDINGS_TEST_SERVERS=docker cargo xtask test
  TIDINGS_TEST_NATS_SERVER=/opt/nats-server-2.12/nats-server cargo xtask test -p event-log")]
pub(crate) struct Arguments {
    /// Arguments for `cargo nextest run` (or `cargo test`).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    passed_on: Vec<String>,
}

/// Does not return without containers, because the process is replaced by the test run.
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
        steps::say(&format!(
            "the tests of messages on the wire will fail, because Python packages are missing: {error:#}"
        ));
    }
    if let Err(error) = provision::pgbouncer() {
        steps::say(&format!("the tests of the store behind PgBouncer will fail: {error:#}"));
    }
    if runs_the_suite(&arguments.passed_on)
        && let Err(error) = node::packages()
    {
        steps::say(&format!(
            "the tests of the browser clients will fail, because npm packages are missing: {error:#}"
        ));
    }
    if runs_the_suite(&arguments.passed_on)
        && let Err(error) = provision::chromium()
    {
        steps::say(&format!("the tests in a browser will fail: {error:#}"));
    }
    if runs_the_suite(&arguments.passed_on)
        && let Err(error) = mail_servers::unpacked()
    {
        steps::say(&format!("the tests with mail servers will fail: {error:#}"));
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

/// `with-test-cluster` runs the command, and keeps a PostgreSQL running until the command ends.
fn command(arguments: &Arguments, nextest: bool, extra: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(steps::target_directory()?.join("debug").join("with-test-cluster"));
    command.current_dir(crate::workspace());
    let cargo = steps::cargo();
    command.arg(cargo.get_program()).args(if nextest { &["nextest", "run"][..] } else { &["test"][..] });
    if !chooses_packages(&arguments.passed_on) {
        command.arg("--workspace");
    }
    command.args(extra).args(&arguments.passed_on);
    if let Some(folder) = folder_in_memory() {
        command.env("TMPDIR", folder);
    }
    Ok(command)
}

/// Tests create and drop thousands of databases. On a disk, that takes four times the processor time, even without fsync.
fn folder_in_memory() -> Option<&'static Path> {
    let chosen = provision::is_set("TMPDIR") || std::env::var_os(SERVERS).is_some();
    let folder = Path::new(IN_MEMORY);
    let memory = std::fs::read_to_string("/proc/meminfo").ok()?;
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = available.split_whitespace().next()?.parse().ok()?;
    let has_room = kibibytes / 1024 >= MEMORY_MEBIBYTES
        && folder.is_dir()
        && steps::enough_space(folder, MEMORY_MEBIBYTES).is_ok();
    (has_room && !chosen).then_some(folder)
}

fn in_containers() -> anyhow::Result<bool> {
    match std::env::var(SERVERS) {
        Err(_) => Ok(false),
        Ok(servers) if servers == "docker" => {
            ensure!(provision::has_docker(), "{SERVERS}=docker: no Docker engine answers; see `docker info`");
            Ok(true)
        }
        Ok(servers) => {
            bail!("{SERVERS}={servers}: set it to \"docker\", or leave it unset for servers of this machine")
        }
    }
}

/// The suite starts all programs. They are built together with the tests, so that they have the suite's features and are built only once.
/// Tests of single crates start only the programs of `testkit` and `stand-ins`.
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
