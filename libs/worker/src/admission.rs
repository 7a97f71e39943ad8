//! Admission of a job before its claim. A job that may not call its provider yet is postponed.

use std::sync::Arc;

use domain::route::{Candidate, Choice};
use domain::{Answer, Outcome, Timestamp};
use metrics::counter;
use service_kit::clock;
use service_kit::metrics::POSTPONED;
use store::deliveries::ledger::HeldClaim;
use store::deliveries::timer::Wait;
use tokio::time::Instant;

use crate::budget::{CallBudget, CallBudgets, CallGuard, PATIENCE};
use crate::lane::{Job, JobEnd};
use crate::lease::Stop;
use crate::ledger_batches::LedgerBatches;
use crate::provider::UsableProvider;
use crate::refusal::Refusal;
use crate::{ChannelSender, Provider, outcome};

pub(crate) enum Admission<'p> {
    Call(ProviderToCall<'p>),
    /// Settle the attempt with this answer, because no provider may be called.
    WithoutCall {
        answer: Answer,
        /// Identifier of the only provider that the route allows, if that provider no longer serves the target.
        wanted: Option<String>,
    },
}

pub(crate) enum NotAdmitted {
    Refused(Refusal),
    Stopping,
}

pub(crate) struct ProviderToCall<'p> {
    pub(crate) provider: &'p Provider,
    pub(crate) guard: CallGuard,
}

pub(crate) async fn admit<'p, S: ChannelSender>(
    sender: &S,
    budgets: &CallBudgets,
    stop: &Stop,
    job: &Job<'_>,
    providers: &'p [UsableProvider],
) -> Result<Admission<'p>, NotAdmitted> {
    let serving = serving::<S>(job, providers);
    let host = sender.host(&job.order.target);
    let mut candidates = Vec::with_capacity(serving.len());
    for usable in serving {
        candidates.push((&usable.provider, budgets.of(usable, host.as_deref(), job).await));
    }
    let (provider, mut guard) = loop {
        let now = clock::now();
        match job.order.route.choose(&choices(&candidates, now)) {
            Choice::Call(place) => {
                // If the breaker has meanwhile admitted another job instead, choose a provider again.
                let (provider, budget) = &candidates[place];
                if let Some(guard) = budget.enter(now) {
                    break (*provider, guard);
                }
            }
            Choice::Wait(until) => {
                let first = first_to_open(&candidates, until, now);
                return Err(NotAdmitted::Refused(Refusal::closed_until(until, now, first)));
            }
            Choice::NoProvider => return Ok(without_provider(providers)),
            Choice::OnlyProviderMissing => {
                let wanted = job.order.route.only.clone();
                return Ok(Admission::WithoutCall { answer: provider_gone(), wanted });
            }
        }
    };
    let reserved = tokio::select! {
        reserved = guard.reserve(Instant::now() + PATIENCE) => reserved,
        () = stop.begins() => return Err(NotAdmitted::Stopping),
    };
    reserved.map_err(NotAdmitted::Refused)?;
    Ok(Admission::Call(ProviderToCall { provider, guard }))
}

pub(crate) fn serving<'p, S: ChannelSender>(
    job: &Job<'_>,
    providers: &'p [UsableProvider],
) -> Vec<&'p UsableProvider> {
    let serves = |usable: &&UsableProvider| S::serves(&usable.provider.kind, &job.order.target);
    providers.iter().filter(serves).collect()
}

fn choices<'p>(candidates: &[(&'p Provider, Arc<CallBudget>)], now: Timestamp) -> Vec<Candidate<'p>> {
    let choice = |(provider, budget): &(&'p Provider, Arc<CallBudget>)| Candidate {
        identifier: &provider.identifier,
        closed_until: budget.closed_until(now),
    };
    candidates.iter().map(choice).collect()
}

/// Returns the provider whose breaker admits a call at `until`, and the code of its failure.
fn first_to_open(
    candidates: &[(&Provider, Arc<CallBudget>)],
    until: Timestamp,
    now: Timestamp,
) -> Option<(String, Option<String>)> {
    let mut candidates = candidates.iter();
    let (provider, budget) = candidates.find(|(_, budget)| budget.closed_until(now) == Some(until))?;
    Some((provider.identifier.clone(), budget.failure_code()))
}

fn without_provider<'p>(providers: &[UsableProvider]) -> Admission<'p> {
    let answer = if providers.is_empty() {
        Answer::new(Outcome::RETRY, "no_provider", "no provider is enabled")
    } else {
        Answer::new(Outcome::RETRY, "not_served", "no enabled provider serves a target of this kind")
    };
    Admission::WithoutCall { answer, wanted: None }
}

/// Retries rather than calls another provider, because the missing one may have accepted an earlier call.
pub(crate) fn provider_gone() -> Answer {
    let message = "the provider of the first attempt is no longer enabled";
    Answer::new(Outcome::RETRY, "provider_gone", message)
}

/// The provider that the ledger records goes before the admitted one: an earlier call of the attempt may have gone to it.
pub(crate) fn provider_to_call<'p>(
    providers: &'p [UsableProvider],
    recorded: Option<&str>,
    admitted: Option<ProviderToCall<'p>>,
    otherwise: Answer,
) -> Result<ProviderToCall<'p>, Answer> {
    match (recorded, admitted) {
        (Some(recorded), Some(admitted)) if admitted.provider.identifier == recorded => Ok(admitted),
        (Some(recorded), _) => {
            let mut all = providers.iter().map(|usable| &usable.provider);
            let named = all.find(|provider| provider.identifier == recorded);
            // This provider is called without admission.
            let guard = CallGuard::default();
            named.map(|provider| ProviderToCall { provider, guard }).ok_or_else(provider_gone)
        }
        (None, _) => Err(otherwise),
    }
}

/// A job that is returned to the log would count against `max_ack_pending` while it waits. If the delivery expires before `at`, the timer
/// is due at the expiry, and the delivery then ends as expired.
pub(crate) async fn postpone(
    ledger: &LedgerBatches,
    job: &Job<'_>,
    Refusal { at, cause, reason, provider, code }: Refusal,
) -> JobEnd {
    let due_at = job.order.expires_at.map_or(at, |expires_at| at.min(expires_at));
    let wait = Wait { delivery: job.order.delivery_id, reason, provider, code };
    let timer = match job.timer(due_at, Box::new(job.order.clone()), wait) {
        Ok(timer) => timer,
        Err(error) => {
            tracing::error!(%error, "cannot encode the job; retrying the job");
            return JobEnd::ReturnLater;
        }
    };
    match ledger.timers.call(timer).await {
        Ok(()) => {
            counter!(POSTPONED, "channel" => job.channel.as_str(), "cause" => cause).increment(1);
            tracing::debug!(%due_at, cause, "postponed the job");
            JobEnd::Acknowledge
        }
        Err(error) => {
            tracing::warn!(%error, "cannot postpone the job; retrying the job");
            JobEnd::ReturnLater
        }
    }
}

pub(crate) async fn return_claim(ledger: &LedgerBatches, job: &Job<'_>, claim: HeldClaim) -> JobEnd {
    match ledger.store.deliveries().release(claim).await {
        Ok(true) => postpone(ledger, job, Refusal::busy()).await,
        Ok(false) => outcome::after_losing_the_claim(ledger, job).await,
        Err(error) => {
            tracing::warn!(%error, "cannot return a claim; retrying the job");
            JobEnd::ReturnLater
        }
    }
}
