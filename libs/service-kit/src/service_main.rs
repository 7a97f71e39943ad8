use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::telemetry::{self, TelemetryGuard};
use crate::{Config, Context, allocator, metrics, server};

/// Exit code after which a restart cannot help.
const USAGE: u8 = 2;
/// Time limit for blocking calls that still run after every task has ended.
const RUNTIME_STOPPED_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
pub struct Build {
    pub version: &'static str,
    /// Commit, or `unknown`.
    pub revision: &'static str,
}

/// Runs the service `name` until SIGTERM, SIGINT or a failure. The exit code is 0 after a graceful stop, 2 if the configuration is not
/// usable, and 1 after any other failure.
pub fn service_main<F, Fut>(name: &'static str, build: Build, file: Option<&Path>, run: F) -> ExitCode
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    allocator::use_small_pages();
    let (config, guard) = match prepare(name, file) {
        Ok(prepared) => prepared,
        Err(error) => {
            // Logging is not set up yet.
            eprintln!("{name}: {error:#}");
            return ExitCode::from(USAGE);
        }
    };
    let code = match run_to_end(name, build, config, run) {
        Ok(()) => {
            tracing::info!(service = name, "the service has stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(service = name, error = format!("{error:#}"), "a failure stopped the service");
            ExitCode::FAILURE
        }
    };
    drop(guard);
    code
}

fn prepare(name: &'static str, file: Option<&Path>) -> anyhow::Result<(Config, TelemetryGuard)> {
    let config = Config::load(file)?;
    let guard = telemetry::init(name, &config)?;
    Ok((config, guard))
}

fn run_to_end<F, Fut>(name: &'static str, build: Build, config: Config, run: F) -> anyhow::Result<()>
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let runtime = tokio::runtime::Runtime::new()?;
    let result = runtime.block_on(serve(name, build, config, run));
    runtime.shutdown_timeout(RUNTIME_STOPPED_WITHIN);
    result
}

async fn serve<F, Fut>(name: &'static str, build: Build, config: Config, run: F) -> anyhow::Result<()>
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let context = Box::pin(Context::connect(config)).await?;
    metrics::name_build(name, build);
    context.tasks.stop_on_signals()?;
    // Call `run` before the process reports that it is ready, because the gateway opens its socket in this call.
    let service = run(context.clone());
    server::start(&context).await?;
    context.serve(name, |_| service);
    context.report_presence(build);
    context.finish().await?;
    context.store.close().await;
    Ok(())
}
