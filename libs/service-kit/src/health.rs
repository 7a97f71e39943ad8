use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use event_log::EventLog;
use serde::Serialize;
use store::Store;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::Tasks;

const PING_LIMIT: Duration = Duration::from_secs(1);
/// Time for which a report is reused, so that frequent probes cause no load.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// Answers readiness probes. All clones share the last report.
#[derive(Clone)]
pub struct Readiness {
    store: Store,
    log: EventLog,
    tasks: Tasks,
    /// False for a gateway, which stays ready while a server is unavailable.
    needs_servers: Arc<AtomicBool>,
    last: Arc<Mutex<Option<(Instant, Report)>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub ready: bool,
    pub not_ready: Vec<FailingDependency>,
}

/// The cause is only logged, because the endpoint is public.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailingDependency {
    /// `database`, `log` or `process`.
    pub name: &'static str,
    /// `unreachable`, `no answer in time` or `stopping`.
    pub reason: &'static str,
}

impl Readiness {
    #[must_use]
    pub fn new(store: Store, log: EventLog, tasks: Tasks) -> Readiness {
        Readiness { store, log, tasks, needs_servers: Arc::new(AtomicBool::new(true)), last: Arc::default() }
    }

    /// Keeps the process ready while a server is unavailable. A gateway then answers 503 with `Retry-After`; if it were not ready, a short
    /// outage of PostgreSQL would remove all gateways from the load balancer at once.
    pub fn serve_without_servers(&self) {
        self.needs_servers.store(false, Ordering::Relaxed);
    }

    /// Each ping takes at most 1 s. Returns the last report if it is less than 1 s old.
    pub async fn check(&self) -> Report {
        let mut last = self.last.lock().await;
        let report = match &*last {
            Some((at, report)) if at.elapsed() < KEPT_FOR => report.clone(),
            _ => {
                let report = self.ping().await;
                *last = Some((Instant::now(), report.clone()));
                report
            }
        };
        drop(last);
        self.unless_stopping(report)
    }

    async fn ping(&self) -> Report {
        let (database, log) = tokio::join!(ping("database", self.store.ping()), ping("log", self.log.ping()));
        if database.is_some() {
            self.log_database_cause().await;
        }
        let not_ready: Vec<_> = database.into_iter().chain(log).collect();
        Report { ready: not_ready.is_empty() || !self.needs_servers.load(Ordering::Relaxed), not_ready }
    }

    /// Opens a new connection: if the pool has no free connection, a ping only times out, but PostgreSQL's answer to a new connection names
    /// the cause, such as too many connections.
    async fn log_database_cause(&self) {
        match timeout(PING_LIMIT, self.store.try_connection()).await {
            Ok(Ok(())) => {
                tracing::warn!(
                    "the database ping failed, but PostgreSQL accepts a new connection, so the pool is exhausted or broken"
                );
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the database ping failed, and PostgreSQL refuses a new connection");
            }
            Err(_) => {}
        }
    }

    fn unless_stopping(&self, mut report: Report) -> Report {
        if self.tasks.token().is_cancelled() {
            report.ready = false;
            report.not_ready.push(FailingDependency { name: "process", reason: "stopping" });
        }
        report
    }
}

async fn ping<E: std::fmt::Display>(
    name: &'static str,
    answer: impl Future<Output = Result<(), E>>,
) -> Option<FailingDependency> {
    let reason = match timeout(PING_LIMIT, answer).await {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => {
            tracing::warn!(server = name, %error, "a server is unreachable; the readiness report lists it");
            "unreachable"
        }
        Err(_) => {
            tracing::warn!(server = name, "a server did not answer in time; the readiness report lists it");
            "no answer in time"
        }
    };
    Some(FailingDependency { name, reason })
}
