use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::containers::Container;
use crate::interrupt::Interrupt;
use crate::provision::{self, Source};
use crate::steps;

const SPACE_MEBIBYTES: u64 = 1024;

/// Run Tidings on this machine, with everything that it needs.
///
/// Finds or installs PostgreSQL and nats-server, builds Tidings, and runs all of its services in one process, with private
/// servers and local stand-ins for the providers. If DATABASE_URL and NATS_URL are set, they name servers to use instead of
/// private ones. Ctrl-C stops everything that this command started. The next start continues with the same data.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask up
  cargo xtask up --port 3000 --data-dir /var/tmp/tidings
  DATABASE_URL=postgres://me@localhost/tidings cargo xtask up --release")]
pub(crate) struct Arguments {
    /// Port of the API.
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Data directory of the private servers [default: .tidings in the checkout].
    #[arg(long, value_name = "DIR", env = "TIDINGS_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Build with optimisations.
    #[arg(long)]
    release: bool,
}

/// Does not return without containers, because the process is replaced by `tidings up`, which then gets all signals itself.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let data = match arguments.data_dir {
        Some(directory) => std::path::absolute(directory)?,
        None => crate::private_directory(),
    };
    std::fs::create_dir_all(&data).with_context(|| format!("cannot create {}", data.display()))?;
    steps::enough_space(&data, SPACE_MEBIBYTES)?;
    steps::enough_space(crate::workspace(), SPACE_MEBIBYTES)?;
    if let Some(port) = arguments.port {
        TcpListener::bind(("127.0.0.1", port))
            .with_context(|| format!("cannot use port {port}; choose another one with --port"))?;
    }
    let database = provision::postgres("DATABASE_URL")?;
    let broker = provision::nats("NATS_URL")?;

    let mut tidings = build(arguments.release)?;
    tidings.arg("up").arg("--data-dir").arg(&data);
    if let Some(port) = arguments.port {
        tidings.args(["--port", &port.to_string()]);
    }
    if database != Source::Docker && broker != Source::Docker {
        return Err(tidings.exec()).context("cannot start tidings");
    }
    let interrupt = Interrupt::watch()?;
    let mut containers = Vec::new();
    if database == Source::Docker {
        let postgres = Container::postgres(&data)?;
        tidings.env("DATABASE_URL", &postgres.url);
        containers.push(postgres);
    }
    if broker == Source::Docker {
        let nats = Container::nats(&data)?;
        tidings.env("NATS_URL", &nats.url);
        containers.push(nats);
    }
    interrupt.passed_on_to(&mut tidings)
}

fn build(release: bool) -> anyhow::Result<Command> {
    steps::say("building Tidings; the first time takes a few minutes");
    let mut cargo = steps::cargo();
    cargo.args(["build", "--package", "tidings", "--bin", "tidings"]);
    if release {
        cargo.arg("--release");
    }
    steps::run(&mut cargo)?;
    Ok(Command::new(
        steps::target_directory()?.join(if release { "release" } else { "debug" }).join("tidings"),
    ))
}
