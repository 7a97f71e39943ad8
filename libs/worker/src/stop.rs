//! The time since which the process has been stopping.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use service_kit::Tasks;

pub(crate) struct Stop {
    tasks: Tasks,
    /// Time at which a job first noticed that the process is stopping.
    since: OnceLock<Instant>,
}

impl Stop {
    pub(crate) fn new(tasks: &Tasks) -> Stop {
        Stop { tasks: tasks.clone(), since: OnceLock::new() }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.tasks.token().is_cancelled()
    }

    /// Waits until the process begins to stop.
    pub(crate) async fn begins(&self) {
        self.tasks.stopping().await;
    }

    /// Waits until the process has been stopping for `grace`.
    pub(crate) async fn has_lasted(&self, grace: Duration) {
        self.begins().await;
        let since = *self.since.get_or_init(Instant::now);
        tokio::time::sleep_until((since + grace).into()).await;
    }
}
