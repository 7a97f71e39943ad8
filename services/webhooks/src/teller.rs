//! Taking what is due, calling endpoints, and settling what came of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use metrics::{counter, histogram};
use secrecy::ExposeSecret;
use service_kit::metrics::{WEBHOOK_ATTEMPTS, WEBHOOK_CALL_SECONDS};
use service_kit::secrets::webhook_secret_context;
use service_kit::{Context, clock};
use store::webhook::{Due, Settled};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use worker::Outbound;

use crate::Settings;
use crate::call::{Answer, Caller, Message};
use crate::signature::Secret;

/// Between two looks for what is due.
const PAUSE: Duration = Duration::from_millis(200);
/// How long to try to settle; with the call it must fit into the time that a process has to stop.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);
/// Between two tries to settle.
const SETTLE_PAUSE: Duration = Duration::from_millis(500);
/// By how much delays differ from the schedule.
const SPREAD: f64 = 0.2;

/// Tells endpoints what is due.
pub(crate) struct Teller {
    context: Context,
    settings: Arc<Settings>,
    caller: Caller,
}

/// What one attempt needs.
#[derive(Clone)]
struct Attempt {
    context: Context,
    settings: Arc<Settings>,
    caller: Caller,
}

impl Teller {
    pub(crate) fn new(context: &Context, settings: Settings) -> anyhow::Result<Teller> {
        let outbound = Outbound::new(context.config.outbound.allow_private);
        let caller = Caller::new(outbound, settings.call_limit).context("webhooks cannot be called")?;
        Ok(Teller { context: context.clone(), settings: Arc::new(settings), caller })
    }

    /// Tells until the process stops, then finishes what is under way.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let token = self.context.tasks.token().clone();
        let attempt = Attempt {
            context: self.context.clone(),
            settings: Arc::clone(&self.settings),
            caller: self.caller.clone(),
        };
        let mut running: JoinSet<()> = JoinSet::new();
        while !token.is_cancelled() {
            while let Some(ended) = running.try_join_next() {
                reap(ended);
            }
            let room = self.settings.max_concurrency.saturating_sub(running.len());
            let taken = match room {
                0 => Vec::new(),
                room => self.take(room).await,
            };
            let more = !taken.is_empty();
            for due in taken {
                let attempt = attempt.clone();
                running.spawn(async move { attempt.make(&due).await });
            }
            if !more {
                // One that ends may let the next of its subject go.
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

    async fn take(&self, room: usize) -> Vec<Due> {
        let most = u32::try_from(room).unwrap_or(u32::MAX);
        match self.context.store.take_webhooks(most, self.settings.pace).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "no webhooks can be taken");
                Vec::new()
            }
        }
    }
}

impl Attempt {
    async fn make(&self, due: &Due) {
        let began = Instant::now();
        let answer = match self.secrets(due) {
            Ok(secrets) => {
                let message = Message { id: due.id, body: &due.body, secrets: &secrets };
                self.caller.tell(&due.url, message).await
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(app = %due.app, endpoint = due.endpoint, error, "a webhook cannot be signed");
                Answer::unsigned()
            }
        };
        histogram!(WEBHOOK_CALL_SECONDS).record(began.elapsed().as_secs_f64());
        let settled = self.verdict(due, &answer);
        counter!(WEBHOOK_ATTEMPTS, "outcome" => name(settled)).increment(1);
        match settled {
            Settled::Taken => tracing::debug!(app = %due.app, id = %due.id, "a webhook was taken"),
            Settled::Again { .. } => {
                tracing::info!(app = %due.app, endpoint = due.endpoint, id = %due.id, code = answer.code, "told again later");
            }
            Settled::GivenUp | Settled::Gone => {
                tracing::warn!(app = %due.app, endpoint = due.endpoint, id = %due.id, code = answer.code, "a webhook is given up");
            }
        }
        self.settle(due, settled, &answer.code).await;
    }

    fn secrets(&self, due: &Due) -> anyhow::Result<Vec<Secret>> {
        let context = webhook_secret_context(due.app, due.endpoint);
        let open = |sealed: &Vec<u8>| {
            let opened = self.context.master_key.open(&context, sealed)?;
            let text = std::str::from_utf8(opened.expose_secret()).ok();
            text.and_then(Secret::parse).context("a secret is none")
        };
        let secrets = due.sealed.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
        anyhow::ensure!(!secrets.is_empty(), "the endpoint has no secret");
        Ok(secrets)
    }

    fn verdict(&self, due: &Due, answer: &Answer) -> Settled {
        if answer.is_taken() {
            return Settled::Taken;
        }
        if answer.is_gone() {
            return Settled::Gone;
        }
        let place = usize::try_from(due.attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        match self.settings.schedule.get(place) {
            None => Settled::GivenUp,
            Some(delay) => {
                let spread = delay.mul_f64(1.0 - SPREAD + 2.0 * SPREAD * clock::random());
                let after = spread.max(answer.retry_after.unwrap_or_default());
                Settled::Again { after, pause: answer.retry_after }
            }
        }
    }

    /// Settles for as long as the message is ours.
    async fn settle(&self, due: &Due, settled: Settled, code: &str) {
        let ours = self.settings.pace.lease.saturating_sub(self.settings.call_limit);
        let end = Instant::now() + ours.min(SETTLE_LIMIT);
        loop {
            match self.context.store.settle_webhook(due, settled, code, self.settings.pace).await {
                Ok(true) => return,
                Ok(false) => {
                    return tracing::debug!(id = %due.id, "somebody else holds the webhook, or it is gone");
                }
                Err(error) if Instant::now() >= end => {
                    return tracing::warn!(id = %due.id, %error, "not settled; the webhook is told again");
                }
                Err(error) => tracing::debug!(id = %due.id, %error, "not settled yet"),
            }
            sleep(SETTLE_PAUSE).await;
        }
    }
}

fn name(settled: Settled) -> &'static str {
    match settled {
        Settled::Taken => "taken",
        Settled::Again { .. } => "again",
        Settled::GivenUp => "given_up",
        Settled::Gone => "gone",
    }
}

/// A call that panicked comes again after its lease.
fn reap(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a webhook ended early");
    }
}
