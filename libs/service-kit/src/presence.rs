//! Reports of processes about themselves, in answer to roll calls. Nothing is stored: a process that does not answer is missing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use domain::Timestamp;
use event_log::EventLog;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::{Build, Context, clock};

/// Time that a roll call waits for answers.
pub const ANSWERED_WITHIN: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Report of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessReport {
    /// Random id of the process.
    pub instance: String,
    /// Name of the machine or container.
    pub host: String,
    /// Names of the services that run in the process, as `tidings run` has them.
    pub services: BTreeSet<String>,
    pub version: String,
    pub started_at: Timestamp,
    /// Backlogs that the process measures, latest values. Several processes may measure the same one.
    #[serde(default)]
    pub backlogs: Vec<Backlog>,
}

/// Work that waits for its readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backlog {
    /// Stream, `timers` or `webhooks`.
    pub name: String,
    pub waiting: u64,
    /// Age of the oldest waiting message in seconds.
    pub oldest_seconds: f64,
    /// Share of the capacity that is used, 0 to 1; None if there is no limit.
    pub fill: Option<f64>,
}

/// Services and backlogs of this process. All clones share them.
#[derive(Clone)]
pub struct Presence {
    instance: String,
    started_at: Timestamp,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    services: BTreeSet<String>,
    backlogs: Vec<Backlog>,
}

impl Presence {
    pub(crate) fn new() -> Presence {
        Presence { instance: clock::new_id().to_string(), started_at: clock::now(), state: Arc::default() }
    }

    pub(crate) fn add(&self, service: &str) {
        let name = service.strip_prefix("tidings-").unwrap_or(service).replace(' ', "-");
        self.state().services.insert(name);
    }

    /// Replaces the backlog of the same name.
    pub fn note(&self, backlog: Backlog) {
        let mut state = self.state();
        match state.backlogs.iter_mut().find(|known| known.name == backlog.name) {
            Some(known) => *known = backlog,
            None => state.backlogs.push(backlog),
        }
    }

    fn report(&self, build: Build) -> ProcessReport {
        let state = self.state();
        ProcessReport {
            instance: self.instance.clone(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            services: state.services.clone(),
            version: build.version.to_owned(),
            started_at: self.started_at,
            backlogs: state.backlogs.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers roll calls until the process stops.
pub(crate) async fn answer(context: Context, build: Build) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    while !token.is_cancelled() {
        match token.run_until_cancelled(answer_calls(&context, build)).await {
            None | Some(Ok(())) => break,
            Some(Err(error)) => tracing::debug!(%error, "cannot answer roll calls; trying again"),
        }
        token.run_until_cancelled(sleep(RETRY_INTERVAL)).await;
    }
    Ok(())
}

async fn answer_calls(context: &Context, build: Build) -> Result<(), event_log::Error> {
    let mut calls = context.log.roll_calls().await?;
    while let Some(call) = calls.next().await {
        match serde_json::to_vec(&context.presence.report(build)) {
            Ok(report) => call.answer(Bytes::from(report)).await?,
            Err(error) => tracing::error!(%error, "cannot write the report of the process; not answering"),
        }
    }
    Ok(())
}

/// Returns the reports of all processes that answer in time, and leaves out those that this release cannot read.
pub async fn roll_call(log: &EventLog) -> Result<Vec<ProcessReport>, event_log::Error> {
    let answers = log.roll_call(ANSWERED_WITHIN).await?;
    Ok(answers.iter().filter_map(|answer| serde_json::from_slice(answer).ok()).collect())
}
