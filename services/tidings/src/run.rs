use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::services::Service;

/// Run one service until SIGTERM or SIGINT.
///
/// The service waits up to 60 s for PostgreSQL and NATS, serves /metrics, /healthz and /readyz on metrics.listen, and
/// finishes its work in progress within 30 s of a signal. If the program is called through a link named after a
/// service, such as tidings-gateway, it runs that service.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:
  0  stopped by a signal
  1  failed; the last line of the log gives the cause
  2  the command line or the configuration is not valid

Examples:
  tidings run gateway --config /etc/tidings/tidings.toml
  TIDINGS_DATABASE__URL_FILE=/run/secrets/database-url tidings run email")]
pub(crate) struct Arguments {
    /// Service to run
    #[arg(value_enum)]
    service: Service,
    #[command(flatten)]
    configuration: Configuration,
}

#[derive(Debug, clap::Args)]
struct Configuration {
    /// Configuration file (TOML) [default: the file that TIDINGS_CONFIG names, if any]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Command line if the program is called through a link: `tidings-gateway --config FILE`.
#[derive(Debug, Parser)]
#[command(version, about = "A service of Tidings; see tidings run --help", disable_help_subcommand = true)]
struct Link {
    #[command(flatten)]
    configuration: Configuration,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    arguments.service.run(arguments.configuration.config.as_deref())
}

pub(crate) fn run_link(service: Service) -> ExitCode {
    service.run(Link::parse().configuration.config.as_deref())
}
