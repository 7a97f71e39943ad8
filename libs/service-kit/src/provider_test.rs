//! Messages of provider tests: which provider a worker should call, and the result. They contain no secrets.

use std::time::Duration;

use bytes::Bytes;
use domain::{Answer, AppId, Channel};
use event_log::{AskError, EventLog};
use serde::{Deserialize, Serialize};

/// Time beyond the limit of a test for the way to the worker and back.
const MARGIN: Duration = Duration::from_secs(2);

/// A request to test a stored provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestRequest {
    pub app: AppId,
    pub provider: String,
    /// Time limit of the call in milliseconds.
    pub limit_millis: u64,
}

/// Result of a provider test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TestResult {
    /// A sentence about the settings that the call has confirmed.
    Passed(String),
    Failed(Answer),
}

/// Reason why a test has no result.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    #[error(transparent)]
    Unanswered(#[from] AskError),
    #[error("the worker's answer cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// Asks a worker of the channel to test a provider.
pub async fn ask(log: &EventLog, channel: Channel, request: &TestRequest) -> Result<TestResult, TestError> {
    let question = Bytes::from(serde_json::to_vec(request)?);
    let within = Duration::from_millis(request.limit_millis).saturating_add(MARGIN);
    let answer = log.ask(channel, question, within).await?;
    Ok(serde_json::from_slice(&answer)?)
}
