//! `with-test-cluster COMMAND…` runs COMMAND with the URL of a private PostgreSQL in `TIDINGS_TEST_DATABASE_URL`, unless that is already
//! set. With `TIDINGS_TEST_SERVERS=docker`, PostgreSQL runs in a container. The exit code is that of the command.

use std::process::ExitCode;

use anyhow::Context;
use local_servers::Postgres;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

const SHARED: &str = "TIDINGS_TEST_DATABASE_URL";

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let mut command =
        tokio::process::Command::new(arguments.next().context("usage: with-test-cluster COMMAND…")?);
    command.args(arguments);
    if std::env::var_os(SHARED).is_some() {
        return run(command).await;
    }
    #[cfg(feature = "containers")]
    if std::env::var("TIDINGS_TEST_SERVERS").is_ok_and(|servers| servers == "docker") {
        let postgres = local_servers::PostgresContainer::start().await?;
        command.env(SHARED, postgres.url());
        return run(command).await;
    }
    let files = tempfile::Builder::new().prefix("tidings-test-cluster-").tempdir()?;
    let postgres = Postgres::start_fast(&files.path().join("postgres")).await?;
    command.env(SHARED, postgres.url());
    run(command).await
}

/// Runs the command and waits until it ends, even after a signal, because PostgreSQL must not stop before the command. SIGTERM is
/// forwarded to the command. Ctrl-C is not forwarded, because the terminal itself sends it to the command.
async fn run(mut command: tokio::process::Command) -> anyhow::Result<ExitCode> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut child = command.spawn().context("cannot start the command")?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            interrupted = tokio::signal::ctrl_c() => interrupted?,
            _ = terminated.recv() => {
                if let Some(id) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
                    kill_process(id, Signal::TERM)?;
                }
            }
        }
    };
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
