//! Tests of providers, which a worker of the channel makes.

use std::time::Duration;

use domain::{Answer, AppId, Channel, Outcome};
use event_log::{AskError, EventLog};
use fairness::principal::Principal;
use fairness::quota::{Lease, PARTS, Quota};
use service_kit::provider_test::{self, TestError, TestRequest, TestResult};

use crate::installation::service;
use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations, Permission};

/// Time limit of a test that an operator makes in the console.
pub const TEST_LIMIT: Duration = Duration::from_secs(20);
/// Maximum number of tests at the same time.
const AT_ONCE: usize = 4;
/// Number of characters of a text from a worker that are kept.
const LONGEST: usize = 2_000;

/// Asks workers to test providers.
#[derive(Clone)]
pub struct ProviderTests {
    operations: Operations,
    log: EventLog,
    places: Quota,
}

/// A provider that was tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderTest {
    pub channel: Channel,
    pub kind: String,
    /// A sentence about the settings that the call has confirmed, or the failure.
    pub result: Result<String, FailedTest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTest {
    /// Class of the answer, as attempts have it.
    pub outcome: &'static str,
    pub code: String,
    pub message: String,
    pub advice: String,
}

impl ProviderTests {
    #[must_use]
    pub fn new(operations: Operations, log: EventLog) -> ProviderTests {
        ProviderTests { operations, log, places: Quota::new(AT_ONCE, PARTS) }
    }

    /// Lets a worker of the channel call the provider with the stored settings, even if it is disabled. Nothing is sent to a person.
    ///
    /// # Errors
    /// Returns [`Object::Provider`] if the app has no such provider. A worker that does not answer is a failed test.
    pub async fn test(
        &self,
        caller: &Caller,
        app: AppId,
        identifier: &str,
        limit: Duration,
    ) -> Result<ProviderTest, OperationError> {
        caller.may(Permission::ManageProviders, app)?;
        let _place = self.place(app)?;
        let stored = database(self.operations.store.control().provider(app, identifier)).await?;
        let stored = stored.ok_or(OperationError::NotFound(Object::Provider))?;
        let (channel, kind) = (stored.channel, stored.row.kind);
        let limit_millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let request = TestRequest { app, provider: identifier.to_owned(), limit_millis };
        let result = match provider_test::ask(&self.log, channel, &request).await {
            Ok(TestResult::Passed(proved)) => Ok(printable(&proved)),
            Ok(TestResult::Failed(answer)) => Err(failed(&answer)),
            Err(error) => Err(unanswered(channel, error)?),
        };
        Ok(ProviderTest { channel, kind, result })
    }

    /// Takes a place among the tests. An app gets at most half of them.
    fn place(&self, app: AppId) -> Result<Lease, OperationError> {
        self.places.take(&Principal::backend(app), 1).map_err(|_| OperationError::crowded())
    }
}

fn unanswered(channel: Channel, error: TestError) -> Result<FailedTest, OperationError> {
    let worker = service(channel);
    let (code, message, advice) = match error {
        TestError::Unanswered(AskError::Unavailable(error)) => {
            let message = "the worker cannot be asked, because the event log is unavailable; try again";
            return Err(OperationError::later(message, error));
        }
        TestError::Unanswered(AskError::NoListener) => (
            "no_worker",
            format!("no {worker} worker answered; is `tidings run {worker}` running?"),
            format!("start the worker with `tidings run {worker}`, then test again"),
        ),
        error => (
            "no_answer",
            format!("the {worker} worker gave no answer: {error}"),
            format!("read the log of the {worker} worker, and test again"),
        ),
    };
    Ok(FailedTest { outcome: Outcome::RETRY.name(), code: code.to_owned(), message, advice })
}

fn failed(answer: &Answer) -> FailedTest {
    let Answer { outcome, code, message, .. } = answer;
    let advice = advice(outcome, code).to_owned();
    FailedTest { outcome: outcome.name(), code: printable(code), message: printable(message), advice }
}

/// Replaces control characters, because each client of the log can answer, and the texts are shown on terminals.
fn printable(text: &str) -> String {
    let visible = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    visible.take(LONGEST).collect()
}

/// Returns what an operator can do about an answer.
fn advice(outcome: &Outcome, code: &str) -> &'static str {
    match (outcome, code) {
        (_, "not_public") => {
            "the host has a private address: set outbound.allow_private if this host is yours"
        }
        (_, "insecure_url" | "insecure_login") => {
            "use a URL or a `security` setting with TLS; set outbound.allow_private only for your own hosts"
        }
        (_, "settings") => "correct the settings with `tidings provider set`",
        (_, "busy" | "stopped") => "test again in a few seconds",
        (_, "panic" | "database" | "request") => "read the log of the worker",
        (Outcome::PauseProvider, _) => {
            "check the credentials and the account; until they are valid, deliveries fail over to the app's next provider"
        }
        (Outcome::Retry { .. } | Outcome::Unknown | Outcome::Repeat { .. }, _) => {
            "check host, port and network, or try again later; until the provider answers, deliveries are retried"
        }
        (Outcome::Failed | Outcome::TargetGone(_) | Outcome::Sent { .. }, _) => {
            "the provider was reached but refused the call: check the settings"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_workers_have_no_control_characters_and_an_end() {
        let answer = Answer::new(Outcome::PauseProvider, "53\u{1b}[2J5", "a\nb".repeat(LONGEST));
        let failed = failed(&answer);
        assert_eq!((failed.code.as_str(), failed.message.len()), ("53 [2J5", LONGEST));
        assert!(failed.message.starts_with("a ba b") && failed.advice.starts_with("check the credentials"));
    }

    #[test]
    fn a_missing_worker_is_named_with_its_command() {
        let failed = unanswered(Channel::WebPush, AskError::NoListener.into()).unwrap();
        assert_eq!(failed.message, "no web-push worker answered; is `tidings run web-push` running?");
    }
}
