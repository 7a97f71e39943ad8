//! Tests of providers. A worker of the channel makes the call, because it also makes the calls of deliveries: from its machine, with its
//! network, certificates and configuration.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{Answer, Outcome};
use event_log::Question;
use futures_util::FutureExt as _;
use service_kit::provider_test::{TestRequest, TestResult};
use service_kit::{Context, clock};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::attempt::Worker;
use crate::{ChannelSender, Outbound, Probe, Provider};

/// Maximum number of tests that a worker makes at the same time.
const AT_ONCE: usize = 4;
const LONGEST: Duration = Duration::from_secs(300);
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Answers requests for tests until the process stops.
pub(crate) async fn answer<S: ChannelSender>(context: Context, worker: Arc<Worker<S>>) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    while !token.is_cancelled() {
        match token.run_until_cancelled(listen(&context, &worker, &places)).await {
            None | Some(Ok(())) => break,
            Some(Err(error)) => {
                tracing::debug!(%error, "cannot listen for provider tests; trying again");
            }
        }
        token.run_until_cancelled(sleep(RETRY_INTERVAL)).await;
    }
    Ok(())
}

async fn listen<S: ChannelSender>(
    context: &Context,
    worker: &Arc<Worker<S>>,
    places: &Arc<Semaphore>,
) -> Result<(), event_log::Error> {
    let mut questions = context.log.questions(S::CHANNEL).await?;
    while let Some(question) = questions.next().await {
        let Ok(place) = Arc::clone(places).try_acquire_owned() else {
            let message = format!("the worker makes {AT_ONCE} tests already");
            reply(question, &failed(Outcome::RETRY, "busy", message)).await;
            continue;
        };
        let (own, worker) = (context.clone(), Arc::clone(worker));
        context.spawn("provider test", async move {
            let result = result(&own, &*worker, &question.payload).await;
            // A caller that has its result may ask for the next test at once.
            drop(place);
            reply(question, &result).await;
            Ok(())
        });
    }
    Ok(())
}

async fn reply(question: Question, result: &TestResult) {
    let sent = match serde_json::to_vec(result) {
        Ok(result) => question.answer(Bytes::from(result)).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = sent {
        tracing::warn!(error, "cannot report the result of a provider test; the operator sees no answer");
    }
}

async fn result<S: ChannelSender>(context: &Context, worker: &Worker<S>, request: &[u8]) -> TestResult {
    let Ok(request) = serde_json::from_slice::<TestRequest>(request) else {
        return failed(Outcome::Failed, "request", "this release cannot read the request for the test");
    };
    let limit = Duration::from_millis(request.limit_millis).min(LONGEST);
    let test = AssertUnwindSafe(timeout(limit, test(context, worker, &request))).catch_unwind();
    match context.tasks.token().run_until_cancelled(test).await {
        Some(Ok(Ok(result))) => result.unwrap_or_else(|answer| TestResult::Failed(answer.storable())),
        Some(Ok(Err(_elapsed))) => {
            failed(Outcome::RETRY, "timeout", format!("no answer within {}", written(limit)))
        }
        Some(Err(_panic)) => {
            tracing::error!(app = %request.app, provider = request.provider, "a provider test panicked");
            failed(Outcome::Unknown, "panic", "the test panicked; the log of the worker has the cause")
        }
        None => failed(Outcome::RETRY, "stopped", "the worker stopped before an answer came"),
    }
}

async fn test<S: ChannelSender>(
    context: &Context,
    worker: &Worker<S>,
    request: &TestRequest,
) -> Result<TestResult, Answer> {
    let stored = context.store.control().provider(request.app, &request.provider).await;
    let stored =
        stored.map_err(|error| Answer::new(Outcome::RETRY, "database", format!("PostgreSQL: {error}")))?;
    let row = stored.filter(|stored| stored.channel == S::CHANNEL).map(|stored| stored.row);
    let row = row.ok_or_else(|| Answer::new(Outcome::Failed, "removed", "the provider was removed"))?;
    let provider = Provider::open(&context.master_key, request.app, row)
        .map_err(|error| Answer::new(Outcome::PauseProvider, "settings", format!("{error:#}")))?;
    let probe = Probe {
        provider: &provider,
        outbound: Outbound::new(context.config.outbound.allow_private),
        now: clock::now(),
        installation: Some((&context.store, &context.master_key)),
    };
    worker.sender().probe(&probe).await.map(TestResult::Passed)
}

fn failed(outcome: Outcome, code: &str, message: impl Into<String>) -> TestResult {
    TestResult::Failed(Answer::new(outcome, code, message))
}

fn written(limit: Duration) -> String {
    if limit.subsec_millis() == 0 {
        format!("{} s", limit.as_secs())
    } else {
        format!("{} ms", limit.as_millis())
    }
}
