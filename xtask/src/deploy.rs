use std::process::{Command, ExitCode};

use clap::ValueEnum;

use crate::{provision, steps};

const APT_TOOLS: &str = "\
apt-get install -y --no-install-recommends prometheus systemd
if command -v systemctl >/dev/null; then systemctl disable --now prometheus prometheus-node-exporter || true; fi";
const SPACE_MEBIBYTES: u64 = 8_192;

/// A part of the deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Alert rules, systemd units and the Helm chart, without a container
    Files,
    /// The tarball and the .deb, installed into a bare root file system
    Package,
    /// docker-compose.yml: first start, scaling, kill -9, an upgrade under load
    Compose,
    /// Every pod of the Helm chart, as a container under the constraints of its spec
    Pods,
    /// The image for trials, which runs `tidings up` with PostgreSQL and nats-server inside
    Up,
    /// Three NATS servers, of which the leader is killed, then two are killed, then one is paused
    Cluster,
    /// The Dockerfile, including compilation, which takes 20 minutes or more
    Image,
}

/// Test what operators deploy: files, packages, containers and a NATS cluster.
///
/// Every part except `files` needs root. If no Docker engine runs, these parts install one below target/deploy. Run this command
/// before each release.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask deploy-test                  everything but the compilation in the Dockerfile
  cargo xtask deploy-test files            what CI runs
  cargo xtask deploy-test compose cluster")]
pub(crate) struct Arguments {
    /// Parts to test [default: files package compose pods up cluster]
    #[arg(value_enum)]
    parts: Vec<Part>,
}

/// Returns the error of the first part that fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let usual = [Part::Files, Part::Package, Part::Compose, Part::Pods, Part::Up, Part::Cluster];
    let parts = if arguments.parts.is_empty() { &usual[..] } else { &arguments.parts };
    provision::postgres_programs()?;
    provision::nats_program()?;
    if parts != [Part::Files] {
        steps::enough_space(crate::workspace(), SPACE_MEBIBYTES)?;
    }
    steps::say("building the program");
    // Use the same build as `cargo xtask test`, so that the programs are built only once.
    steps::run(steps::cargo().args(["build", "--workspace", "--bins", "--tests"]))?;
    for part in parts {
        steps::say(&format!(
            "testing {}",
            part.to_possible_value().map_or_else(String::new, |part| part.get_name().to_owned())
        ));
        match part {
            Part::Files => files()?,
            Part::Package => script("package")?,
            Part::Compose => script("compose")?,
            Part::Pods => script("pods")?,
            Part::Up => script("up-image")?,
            Part::Cluster => script("cluster")?,
            Part::Image => script("dockerfile")?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn files() -> anyhow::Result<()> {
    let found =
        || steps::succeeds("promtool", &["--version"]) && steps::succeeds("systemd-analyze", &["--version"]);
    if !found() && !provision::apt(APT_TOOLS, found) {
        steps::say("promtool or systemd-analyze is missing and cannot be installed automatically");
    }
    let rules = "deploy/observability";
    steps::run(in_checkout("promtool").args(["check", "rules", &format!("{rules}/rules/tidings.yml")]))?;
    steps::run(in_checkout("promtool").args(["test", "rules", &format!("{rules}/tests/tidings.yml")]))?;
    script("units")?;
    // `with-test-cluster` provides the database in which Helm keeps its records.
    let debug = steps::target_directory()?.join("debug");
    let mut chart = in_checkout(debug.join("with-test-cluster"));
    steps::run(chart.arg("tests/deploy/chart/check.py").env("TIDINGS", debug.join("tidings")))
}

fn script(name: &str) -> anyhow::Result<()> {
    let mut command = in_checkout("bash");
    let program = steps::target_directory()?.join("debug").join("tidings");
    steps::run(command.arg(format!("tests/deploy/{name}")).arg(program))
}

fn in_checkout(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(crate::workspace());
    command
}
