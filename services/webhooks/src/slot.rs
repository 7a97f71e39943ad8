//! Sends the messages that were claimed for it, one after another, to one endpoint.

use std::collections::VecDeque;
use std::sync::Arc;

use credentials::webhook::Secret;
use domain::AppId;
use metrics::{counter, histogram};
use service_kit::clock;
use service_kit::metrics::{WEBHOOK_ATTEMPTS, WEBHOOK_CALL_SECONDS};
use store::webhooks::{AttemptResult, DueMessage};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::Settings;
use crate::call::{Answer, Caller, Message};
use crate::settler::{Settler, Settling};

/// Variation of each delay, as a fraction of the scheduled delay.
const SPREAD: f64 = 0.2;

/// None if the endpoint's calls cannot be signed.
pub(crate) type Secrets = Option<Arc<Vec<Secret>>>;

#[derive(Clone)]
pub(crate) struct Slot {
    pub(crate) settings: Arc<Settings>,
    pub(crate) caller: Caller,
    pub(crate) settler: Settler,
    pub(crate) stop: CancellationToken,
}

pub(crate) struct EndedSlot {
    pub(crate) endpoint: (AppId, i64),
    pub(crate) taken: u32,
    /// True if the endpoint accepted all messages in half of the slot's time.
    pub(crate) was_fast: bool,
}

impl Slot {
    /// Releases the messages that are not sent if a call fails, the time is over, or the process stops, so that they do not wait behind a
    /// slow call. Ends when all messages are settled. `began` is the time before the claim.
    pub(crate) async fn run(
        self,
        messages: Vec<DueMessage>,
        secrets: Secrets,
        began: Instant,
    ) -> Option<EndedSlot> {
        let first = messages.first()?;
        let endpoint = (first.app, first.endpoint);
        let taken = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        let mut waiting = VecDeque::from(messages);
        let mut settling = Vec::with_capacity(waiting.len());
        let started = Instant::now();
        let end = began + self.settings.slot_limit;
        let mut accepted = 0;
        // A call that starts later could outlast its claim.
        let latest = began + self.settings.pace.lease.saturating_sub(self.settings.call_limit);
        let mut goes_on = !self.stop.is_cancelled() && started < latest;
        while goes_on && let Some(due) = waiting.pop_front() {
            let mut call = std::pin::pin!(self.call(due, &secrets));
            let (is_accepted, handed_over) = tokio::select! {
                biased;
                ended = call.as_mut() => ended,
                () = sleep_until(end), if !waiting.is_empty() => {
                    tokio::join!(call, self.release(&mut waiting, &mut settling)).0
                }
            };
            settling.extend(handed_over);
            accepted += u32::from(is_accepted);
            goes_on = is_accepted && Instant::now() < end && !self.stop.is_cancelled();
        }
        self.release(&mut waiting, &mut settling).await;
        let was_fast = accepted == taken && started.elapsed() * 2 < self.settings.slot_limit;
        for settled in settling {
            // The settler sends no value. It drops its half of the channel when the attempt is settled.
            drop(settled.await);
        }
        Some(EndedSlot { endpoint, taken, was_fast })
    }

    /// Returns true if the endpoint accepted the message.
    async fn call(&self, due: DueMessage, secrets: &Secrets) -> (bool, Option<Settling>) {
        let began = Instant::now();
        let answer = match secrets {
            Some(secrets) => {
                let message = Message { id: due.id, body: &due.body, secrets };
                self.caller.post(&due.target.url, message).await
            }
            None => Answer::unsigned(),
        };
        histogram!(WEBHOOK_CALL_SECONDS).record(began.elapsed().as_secs_f64());
        let settled = self.attempt_result(&due, &answer);
        counter!(WEBHOOK_ATTEMPTS, "outcome" => name(settled)).increment(1);
        report(&due, settled, &answer);
        (settled == AttemptResult::Accepted, self.settler.settle(due, settled, answer.code).await)
    }

    async fn release(&self, waiting: &mut VecDeque<DueMessage>, settling: &mut Vec<Settling>) {
        for due in waiting.drain(..) {
            settling.extend(self.settler.settle(due, AttemptResult::NotSent, String::new()).await);
        }
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

fn report(due: &DueMessage, settled: AttemptResult, answer: &Answer) {
    match settled {
        AttemptResult::NotSent => {}
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
}

fn name(settled: AttemptResult) -> &'static str {
    match settled {
        AttemptResult::Accepted => "taken",
        AttemptResult::Retry { .. } | AttemptResult::NotSent => "again",
        AttemptResult::GivenUp => "given_up",
        AttemptResult::EndpointGone => "gone",
    }
}
