//! Sending of due messages: claims them, and calls their endpoints.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use credentials::secrets::webhook_secret_context;
use domain::AppId;
use metrics::{counter, histogram};
use secrecy::ExposeSecret;
use service_kit::metrics::{WEBHOOK_ATTEMPTS, WEBHOOK_CALL_SECONDS};
use service_kit::{Context, clock};
use store::webhooks::{AttemptResult, DueMessage};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use worker::Outbound;

use crate::Settings;
use crate::call::{Answer, Caller, Message};
use crate::settler::{Settler, settler};
use crate::signature::Secret;

/// Interval at which the process looks for due messages.
const PAUSE: Duration = Duration::from_millis(200);
/// Random variation of each delay, as a fraction of the scheduled delay.
const SPREAD: f64 = 0.2;

/// Task that sends due messages to endpoints.
pub(crate) struct WebhookSender {
    context: Context,
    settings: Arc<Settings>,
    caller: Caller,
}

/// Resources of one attempt: settings, HTTP client and settler.
#[derive(Clone)]
struct Attempt {
    settings: Arc<Settings>,
    caller: Caller,
    settler: Settler,
}

/// Decrypted secrets of an endpoint; None if its calls cannot be signed. All messages claimed together share them.
type Secrets = Option<Arc<Vec<Secret>>>;

impl WebhookSender {
    pub(crate) fn new(context: &Context, settings: Settings) -> anyhow::Result<WebhookSender> {
        let outbound = Outbound::new(context.config.outbound.allow_private);
        let caller = Caller::new(outbound, settings.call_limit)
            .context("cannot create the HTTP client of webhooks")?;
        Ok(WebhookSender { context: context.clone(), settings: Arc::new(settings), caller })
    }

    /// Sends messages until the process stops, then finishes the calls in progress.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let token = self.context.tasks.token().clone();
        let (settler, settling) = settler(self.context.store.clone(), Arc::clone(&self.settings));
        self.context.spawn("webhook settler", settling);
        let attempt = Attempt { settings: Arc::clone(&self.settings), caller: self.caller.clone(), settler };
        let mut running: JoinSet<()> = JoinSet::new();
        while !token.is_cancelled() {
            while let Some(ended) = running.try_join_next() {
                reap(ended);
            }
            let free_slots = self.settings.max_concurrency.saturating_sub(running.len());
            let claimed = match free_slots {
                0 => Vec::new(),
                free_slots => self.claim_due(free_slots).await,
            };
            let more = !claimed.is_empty();
            let mut opened = HashMap::<(AppId, i64), Secrets>::new();
            for due in claimed {
                let secrets = opened.entry((due.app, due.endpoint)).or_insert_with(|| self.secrets(&due));
                let attempt = attempt.clone();
                let secrets = secrets.clone();
                running.spawn(async move { attempt.run(due, secrets).await });
            }
            if !more {
                // When a call ends, the next message about the same delivery or item may become due.
                tokio::select! {
                    () = token.cancelled() => {}
                    () = sleep(PAUSE) => {}
                    Some(ended) = running.join_next() => reap(ended),
                }
            }
        }
        while let Some(ended) = running.join_next().await {
            reap(ended);
        }
        Ok(())
    }

    async fn claim_due(&self, free_slots: usize) -> Vec<DueMessage> {
        let most = u32::try_from(free_slots).unwrap_or(u32::MAX);
        match self.context.store.webhooks().take_webhooks(most, self.settings.pace).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "cannot claim webhooks; trying again");
                Vec::new()
            }
        }
    }

    fn secrets(&self, due: &DueMessage) -> Secrets {
        let context = webhook_secret_context(due.app, due.endpoint);
        let open = |sealed: &Vec<u8>| {
            let opened = self.context.master_key.open(&context, sealed)?;
            let text = std::str::from_utf8(opened.expose_secret()).ok();
            text.and_then(Secret::parse).context("a stored secret is malformed")
        };
        let secrets = due.target.sealed.iter().map(open).collect::<anyhow::Result<Vec<_>>>();
        let secrets = secrets.and_then(|secrets| {
            anyhow::ensure!(!secrets.is_empty(), "the endpoint has no secret");
            Ok(Arc::new(secrets))
        });
        secrets
            .inspect_err(|error| {
                let error = format!("{error:#}");
                tracing::error!(
                    app = %due.app,
                    endpoint = due.endpoint,
                    error,
                    "cannot load the secrets of an endpoint; retrying its webhooks later"
                );
            })
            .ok()
    }
}

impl Attempt {
    async fn run(&self, due: DueMessage, secrets: Secrets) {
        let began = Instant::now();
        let answer = match secrets {
            Some(secrets) => {
                let message = Message { id: due.id, body: &due.body, secrets: &secrets };
                self.caller.post(&due.target.url, message).await
            }
            None => Answer::unsigned(),
        };
        histogram!(WEBHOOK_CALL_SECONDS).record(began.elapsed().as_secs_f64());
        let settled = self.attempt_result(&due, &answer);
        counter!(WEBHOOK_ATTEMPTS, "outcome" => name(settled)).increment(1);
        match settled {
            AttemptResult::Accepted => {
                tracing::debug!(app = %due.app, id = %due.id, "the endpoint accepted the webhook");
            }
            AttemptResult::Retry { .. } => {
                tracing::info!(
                    app = %due.app,
                    endpoint = due.endpoint,
                    id = %due.id,
                    code = answer.code,
                    "the endpoint did not accept the webhook; retrying later"
                );
            }
            AttemptResult::GivenUp | AttemptResult::EndpointGone => {
                tracing::warn!(
                    app = %due.app,
                    endpoint = due.endpoint,
                    id = %due.id,
                    code = answer.code,
                    "gave up on a webhook; its endpoint did not accept it"
                );
            }
        }
        self.settler.settle(due, settled, answer.code).await;
    }

    fn attempt_result(&self, due: &DueMessage, answer: &Answer) -> AttemptResult {
        if answer.is_accepted() {
            return AttemptResult::Accepted;
        }
        if answer.is_gone() {
            return AttemptResult::EndpointGone;
        }
        let place = usize::try_from(due.attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        match self.settings.schedule.get(place) {
            None => AttemptResult::GivenUp,
            Some(delay) => {
                let spread = delay.mul_f64(1.0 - SPREAD + 2.0 * SPREAD * clock::random());
                let after = spread.max(answer.retry_after.unwrap_or_default());
                AttemptResult::Retry { after, pause: answer.retry_after }
            }
        }
    }
}

fn name(settled: AttemptResult) -> &'static str {
    match settled {
        AttemptResult::Accepted => "taken",
        AttemptResult::Retry { .. } => "again",
        AttemptResult::GivenUp => "given_up",
        AttemptResult::EndpointGone => "gone",
    }
}

/// Logs a call that panicked. Its message is due again when its lease ends.
fn reap(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a webhook call panicked; sending the webhook again when its lease ends");
    }
}
