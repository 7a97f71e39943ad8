//! Whether this process can do its work.

use std::sync::Arc;
use std::time::Duration;

use event_log::EventLog;
use serde::Serialize;
use store::Store;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::Tasks;

/// Limit for one answer of a server.
const PING_LIMIT: Duration = Duration::from_secs(1);
/// How long an answer is told again, so that probes cannot become load.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// Answers readiness probes. Clones share the last answer.
#[derive(Clone)]
pub struct Readiness {
    store: Store,
    log: EventLog,
    tasks: Tasks,
    last: Arc<Mutex<Option<(Instant, Report)>>>,
}

/// The answer to a readiness probe, which serializes as its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether requests may come here.
    pub ready: bool,
    /// What is in the way.
    pub not_ready: Vec<NotReady>,
}

/// One thing in the way. Causes are in the log, as anybody may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotReady {
    /// `database`, `log` or `process`.
    pub name: &'static str,
    /// `unreachable`, `no answer in time` or `stopping`.
    pub reason: &'static str,
}

impl Readiness {
    /// Asks these servers, and `tasks` whether the process is stopping.
    #[must_use]
    pub fn new(store: Store, log: EventLog, tasks: Tasks) -> Readiness {
        Readiness { store, log, tasks, last: Arc::default() }
    }

    /// Asks database and log at the same time, each for 1 s at most; within 1 s of the last answer, repeats that.
    pub async fn check(&self) -> Report {
        let mut last = self.last.lock().await;
        let report = match &*last {
            Some((at, report)) if at.elapsed() < KEPT_FOR => report.clone(),
            _ => {
                let report = self.ask().await;
                *last = Some((Instant::now(), report.clone()));
                report
            }
        };
        drop(last);
        self.unless_stopping(report)
    }

    async fn ask(&self) -> Report {
        let (database, log) = tokio::join!(ping("database", self.store.ping()), ping("log", self.log.ping()));
        let not_ready: Vec<_> = database.into_iter().chain(log).collect();
        Report { ready: not_ready.is_empty(), not_ready }
    }

    fn unless_stopping(&self, mut report: Report) -> Report {
        if self.tasks.token().is_cancelled() {
            report.ready = false;
            report.not_ready.push(NotReady { name: "process", reason: "stopping" });
        }
        report
    }
}

async fn ping<E: std::fmt::Display>(
    name: &'static str,
    answer: impl Future<Output = Result<(), E>>,
) -> Option<NotReady> {
    let reason = match timeout(PING_LIMIT, answer).await {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => {
            tracing::warn!(server = name, %error, "not ready");
            "unreachable"
        }
        Err(_) => {
            tracing::warn!(server = name, "not ready: no answer in time");
            "no answer in time"
        }
    };
    Some(NotReady { name, reason })
}
