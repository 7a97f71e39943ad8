use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::panics;

/// Time limit for tasks to finish after the process was asked to stop.
pub(crate) const STOPPED_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShutdownError {
    /// A task ended with an error or a panic, which was logged.
    #[error("{0} failed")]
    Failed(&'static str),
    #[error("tasks still running 30 s after the process began to stop: {}", .0.join(", "))]
    Hung(Vec<&'static str>),
}

/// If one task fails, all tasks stop, so that a process never runs with only some of its tasks. All clones share the tasks.
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
    #[must_use]
    pub fn new() -> Tasks {
        Tasks::default()
    }

    /// SIGTERM and SIGINT stop the process gracefully from now on.
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
            tracing::info!(signal = name, "received a signal; stopping");
            tasks.stop();
            Ok(())
        });
        Ok(())
    }

    /// Runs `task` until it ends. After an error or a panic, logs the failure under `name` and stops the whole process with exit code 1.
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

    pub async fn stopping(&self) {
        self.token.cancelled().await;
    }

    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub fn stop(&self) {
        self.token.cancel();
    }

    /// Waits until the process must stop, and then at most 30 s until all tasks have ended.
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
