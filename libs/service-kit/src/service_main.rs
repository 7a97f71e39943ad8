//! The `main` of every service.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::telemetry::{self, TelemetryGuard};
use crate::{Config, Context, server};

/// The exit code for a wrong command line or configuration, where a restart cannot help.
const USAGE: u8 = 2;
/// For blocking calls that are still running once every task has ended.
const RUNTIME_STOPPED_WITHIN: Duration = Duration::from_secs(2);

#[derive(Parser)]
#[command(version, about = "A service of Tidings", disable_help_subcommand = true)]
struct Arguments {
    /// The configuration file; without it, the one that TIDINGS_CONFIG names, if any.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the service `name` until SIGTERM, SIGINT or a failure: reads command line and configuration, starts
/// telemetry, connects, serves metrics and health, and calls `run`.
///
/// The exit code is 0 after an orderly stop, 2 where command line or configuration are wrong, else 1.
pub fn service_main<F, Fut>(name: &'static str, run: F) -> ExitCode
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let (config, guard) = match prepare(name) {
        Ok(prepared) => prepared,
        Err(error) => {
            // There is no log yet.
            eprintln!("{name}: {error:#}");
            return ExitCode::from(USAGE);
        }
    };
    let code = match run_to_end(name, config, run) {
        Ok(()) => {
            tracing::info!(service = name, "stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(service = name, error = format!("{error:#}"), "stopped by a failure");
            ExitCode::FAILURE
        }
    };
    drop(guard);
    code
}

fn prepare(name: &'static str) -> anyhow::Result<(Config, TelemetryGuard)> {
    let matches = Arguments::command().name(name).get_matches();
    let arguments = Arguments::from_arg_matches(&matches)?;
    let config = Config::load(arguments.config.as_deref())?;
    let guard = telemetry::init(name, &config)?;
    Ok((config, guard))
}

fn run_to_end<F, Fut>(name: &'static str, config: Config, run: F) -> anyhow::Result<()>
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let runtime = tokio::runtime::Runtime::new()?;
    let result = runtime.block_on(serve(name, config, run));
    runtime.shutdown_timeout(RUNTIME_STOPPED_WITHIN);
    result
}

async fn serve<F, Fut>(name: &'static str, config: Config, run: F) -> anyhow::Result<()>
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let context = Box::pin(Context::connect(config)).await?;
    context.tasks.stop_on_signals()?;
    // What a service does at once is done before anybody is told that it is ready.
    let service = run(context.clone());
    server::start(&context).await?;
    context.serve(name, |_| service);
    context.finish().await?;
    context.store.close().await;
    Ok(())
}
