//! The tasks of a process, and its end: all of them together, within a limit.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::panics;

/// How long tasks may take to finish once the process stops.
pub(crate) const STOPPED_WITHIN: Duration = Duration::from_secs(30);

/// How a process ended, where it did not end well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShutdownError {
    /// A task ended with an error or a panic; the log says which and why.
    #[error("{0} failed")]
    Failed(&'static str),
    /// Tasks were still running at the end of the limit.
    #[error("still running 30 s after the stop: {}", .0.join(", "))]
    Hung(Vec<&'static str>),
}

/// Every task of the process. One that fails stops all: a process never lives on half alive. Clones share the tasks.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    token: CancellationToken,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    running: Vec<&'static str>,
    failed: Option<&'static str>,
}

impl Tasks {
    /// No tasks yet.
    #[must_use]
    pub fn new() -> Tasks {
        Tasks::default()
    }

    /// From here on SIGTERM and SIGINT stop the process in order.
    ///
    /// # Errors
    /// The operating system refused.
    pub fn stop_on_signals(&self) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let tasks = self.clone();
        self.spawn("signals", async move {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
                () = tasks.stopping() => return Ok(()),
            };
            tracing::info!(signal = name, "stopping");
            tasks.stop();
            Ok(())
        });
        Ok(())
    }

    /// Runs `task` until it ends. Where it ends with an error or a panic, this is logged under its name and the
    /// whole process stops with exit code 1.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = anyhow::Result<()>> + Send + 'static) {
        self.with_state(|state| state.running.push(name));
        let tasks = self.clone();
        self.tracker.spawn(async move {
            let result = AssertUnwindSafe(task).catch_unwind().await;
            let failure = match result {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!("{error:#}")),
                Err(panic) => Some(format!("panicked: {}", panics::message(&*panic))),
            };
            tasks.ended(name, failure);
        });
    }

    fn ended(&self, name: &'static str, failure: Option<String>) {
        self.with_state(|state| {
            if let Some(place) = state.running.iter().position(|running| *running == name) {
                state.running.swap_remove(place);
            }
            if failure.is_some() {
                state.failed.get_or_insert(name);
            }
        });
        if let Some(error) = failure {
            tracing::error!(task = name, error, "a task failed; stopping the process");
            self.stop();
        }
    }

    /// Returns once the process is to stop.
    pub async fn stopping(&self) {
        self.token.cancelled().await;
    }

    /// Cancelled once the process is to stop.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Asks every task to finish.
    pub fn stop(&self) {
        self.token.cancel();
    }

    /// Waits for the stop, then at most 30 s for the tasks.
    ///
    /// # Errors
    /// A task failed, or did not finish in time.
    pub async fn finish(&self) -> Result<(), ShutdownError> {
        self.stopping().await;
        self.tracker.close();
        let in_time = tokio::time::timeout(STOPPED_WITHIN, self.tracker.wait()).await.is_ok();
        self.with_state(|state| match state.failed {
            Some(name) => Err(ShutdownError::Failed(name)),
            None if in_time => Ok(()),
            None => Err(ShutdownError::Hung(state.running.clone())),
        })
    }

    fn with_state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
