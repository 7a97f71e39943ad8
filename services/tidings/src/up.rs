mod api_address;
mod data_directory;
pub(crate) mod demo;
pub(crate) mod greeting;
mod ports;
mod running;
mod servers;
mod shop;
mod signals;

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use service_kit::connections::CONNECTED_WITHIN;
use service_kit::{Config, telemetry};

use crate::dev_file::DevFile;
use crate::migrate::{self, Partitions};
use crate::print::print;
use data_directory::DataDirectory;
use ports::KeptPorts;
use running::RunningServices;
use servers::Servers;
pub(crate) use signals::Signals;
use stand_ins::interface;

/// A development machine needs no parallel inbox projection.
const PARTITIONS: u32 = 1;
/// Applies unless the configuration file or a variable sets it.
const QUIET: [(&str, &str); 2] = [("TIDINGS_LOG__FORMAT", "text"), ("TIDINGS_LOG__LEVEL", "warn")];

/// Run everything on this machine until Ctrl-C: all services in one process, with private PostgreSQL and nats-server,
/// a demo app, and local stand-ins for the providers.
///
/// If DATABASE_URL or NATS_URL is set, the command uses that server instead of a private one. The next start on the
/// same data directory continues with the same data.
#[derive(Debug, clap::Args)]
#[command(after_help = "While it runs, dev.json in the data directory holds addresses and credentials.

Examples:
  tidings up
  tidings up --port 3000 --data-dir /var/tmp/tidings")]
pub(crate) struct Arguments {
    /// Data directory
    #[arg(long, value_name = "DIR", env = crate::data_directory::VARIABLE, default_value = crate::data_directory::DEFAULT)]
    data_dir: PathBuf,
    /// Port of the API, 0 for a free one [default: 8080, or a free one if 8080 is in use]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Port of the outbox [default: that of the last start, or a free one]
    #[arg(long, value_name = "N")]
    outbox_port: Option<u16>,
    /// Port of the demo shop [default: that of the last start, or a free one]
    #[arg(long, value_name = "N")]
    demo_port: Option<u16>,
    /// Port of the console [default: that of the last start, or a free one]
    #[arg(long, value_name = "N")]
    console_port: Option<u16>,
    /// Listen on all interfaces, for containers: every machine that reaches a port can use the demo app and read its messages
    #[arg(long)]
    all_interfaces: bool,
    /// Number of inbox partitions, fixed at the first start [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    partitions: Option<u32>,
    /// Configuration file (TOML) [default: the file that TIDINGS_CONFIG names, if any]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let mut config = configuration(arguments)?;
    let _telemetry = telemetry::init("tidings", &config)?;
    let directory = DataDirectory::claim(&arguments.data_dir)?;
    DevFile::remove(directory.path())?;
    let api = api_address::choose(arguments.port)?;
    let ip = if arguments.all_interfaces { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
    config.gateway.listen = (ip, api.port()).into();
    interface::listen_on(ip.into());
    // There is no load balancer that would have to notice the stop, so the gateway stops without a delay.
    config.gateway.drain = Duration::ZERO;
    if config.gateway.public_url.is_none() {
        config.gateway.public_url = Some(format!("http://{api}").parse()?);
    }
    // The number of partitions comes from `--partitions`, not from the configuration.
    config.streams.partitions_are_set = false;
    // The stand-ins have private addresses.
    config.outbound.allow_private = true;
    let mut ports = KeptPorts::read(directory.ports())?;
    config.metrics.listen = (ip, ports.choose("metrics", None)?).into();
    let console = ports.choose("console", arguments.console_port)?;
    config.console.listen = (ip, console).into();
    if config.console.public_url.is_none() {
        let base = &config.console.base_path;
        config.console.public_url = Some(format!("http://127.0.0.1:{console}{base}").parse()?);
    }
    config.security.master_key_file = Some(directory.master_key_file()?);
    // Dropping the servers kills them, but their data stays on disk.
    let mut servers = tokio::select! {
        () = signals.received() => return print_status("stopped while starting"),
        started = Servers::start(&directory, &mut config) => started?,
    };
    let outcome = Box::pin(serve(arguments, config, &directory, (ports, &mut servers), &mut signals)).await;
    print_status("stopping")?;
    DevFile::remove(directory.path())?;
    let stopped = servers.stop().await;
    outcome.and(stopped)?;
    print_status("stopped")
}

fn configuration(arguments: &Arguments) -> anyhow::Result<Config> {
    let quiet = QUIET.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Ok(Config::from_sources_over(quiet, arguments.config.as_deref(), std::env::vars_os())?)
}

async fn serve(
    arguments: &Arguments,
    config: Config,
    directory: &DataDirectory,
    (mut ports, servers): (KeptPorts, &mut Servers),
    signals: &mut Signals,
) -> anyhow::Result<()> {
    let partitions = match arguments.partitions {
        Some(partitions) => Partitions::Exactly(partitions),
        None => Partitions::AsInstalledElse(PARTITIONS),
    };
    let start = async {
        print_status("preparing schema and streams")?;
        migrate::install(&config, partitions, false, CONNECTED_WITHIN).await?;
        print_status("starting the services")?;
        Box::pin(RunningServices::start(config, directory, arguments, &mut ports)).await
    };
    let running = tokio::select! {
        () = signals.received() => return Ok(()),
        started = start => started.context("cannot start Tidings")?,
    };
    running.dev.write(directory.path())?;
    print(&greeting::text(&running.dev, directory.path()))?;
    let outcome = tokio::select! {
        () = signals.received() => Ok(()),
        () = running.context.tasks.stopping() => Ok(()),
        failure = servers.failure() => Err(failure),
    };
    outcome.and(running.stop().await)
}

fn print_status(line: &str) -> anyhow::Result<()> {
    print(&format!("tidings: {line}\n"))
}
