//! Whether this process can do its work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// False in a gateway.
    needs_servers: Arc<AtomicBool>,
    last: Arc<Mutex<Option<(Instant, Report)>>>,
}

/// The answer to a readiness probe, which serializes as its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether requests may come here.
    pub ready: bool,
    /// Failing dependencies.
    pub not_ready: Vec<NotReady>,
}

/// One thing that does not work. Causes are in the log only, because anyone may ask.
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
        Readiness { store, log, tasks, needs_servers: Arc::new(AtomicBool::new(true)), last: Arc::default() }
    }

    /// From now on the process is ready while a server is away, and its report only lists that server. A gateway answers 503 with
    /// `Retry-After` in that time; if it also said that it is not ready, a short outage of PostgreSQL would take all gateways
    /// out of the load balancer at once, and callers would get its refusals instead.
    pub fn serve_without_servers(&self) {
        self.needs_servers.store(false, Ordering::Relaxed);
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
        if database.is_some() {
            self.log_what_the_database_says().await;
        }
        let not_ready: Vec<_> = database.into_iter().chain(log).collect();
        Report { ready: not_ready.is_empty() || !self.needs_servers.load(Ordering::Relaxed), not_ready }
    }

    /// A pool without a free connection only times out. What the server says to a new one, such as that it has no room for more,
    /// names the cause.
    async fn log_what_the_database_says(&self) {
        match timeout(PING_LIMIT, self.store.try_connection()).await {
            Ok(Ok(())) => {
                tracing::warn!("PostgreSQL accepts new connections; those of the pool are busy or broken");
            }
            Ok(Err(error)) => tracing::warn!(%error, "PostgreSQL refuses a new connection"),
            Err(_) => {}
        }
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
