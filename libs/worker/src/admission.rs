//! Admission of a job before its claim: chooses the provider and checks that it may be called now.

use std::sync::Arc;
use std::time::Duration;

use domain::route::{Candidate, Choice};
use domain::{Answer, Lane, Outcome, Timestamp};
use service_kit::clock;
use tokio::time::{Instant, sleep, timeout_at};

use crate::call_slots::{CallSlot, CallSlots, LongSlot};
use crate::gate::{BreakerPermit, Gate, Gates, TargetPath};
use crate::job::Job;
use crate::provider::UsableProvider;
use crate::shares::Share;
use crate::stop::Stop;
use crate::{ChannelSender, Provider};

/// Maximum time for which a job waits for a busy provider, before its claim or after it. While it waits, the job occupies one of
/// the lane's slots for concurrent jobs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Minimum delay before a job whose provider was busy is retried. The maximum delay is twice as long.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Decision for an admitted job.
pub(crate) enum Admission<'p> {
    /// Call this provider.
    Call(CallPermit<'p>),
    /// Claim the attempt, and settle it with this answer, because no provider may be called.
    WithoutCall {
        answer: Answer,
        /// Identifier of the only provider that the route allows, if that provider no longer serves the target; otherwise None.
        wanted: Option<String>,
    },
}

/// Reason for not admitting a job.
pub(crate) enum NotAdmitted {
    Postponed {
        /// Earliest time of the retry.
        at: Timestamp,
        /// Cause, for the metrics.
        cause: &'static str,
    },
    Stopping,
}

/// Permission to make one call to a provider within its limits.
pub(crate) struct CallPermit<'p> {
    pub(crate) provider: &'p Provider,
    entry: BreakerPermit,
    capacity: CallCapacity,
}

/// The provider to call for a claimed delivery.
pub(crate) struct ProviderToCall<'p> {
    pub(crate) provider: &'p Provider,
    /// None if the ledger records another provider than the admitted one. The recorded provider is then called without admission.
    pub(crate) permit: Option<CallPermit<'p>>,
}

/// Capacity for one call. It is released when the provider has answered.
pub(crate) struct CallCapacity {
    gate: Arc<Gate>,
    lane: Lane,
    slot: CallSlot,
    share: Share,
}

impl CallCapacity {
    /// Waits until the host and the provider may be called, at most until `latest`. Returns false if one of them has become too slow.
    pub(crate) async fn await_slot(&mut self, latest: Instant) -> bool {
        if !self.share.await_host(latest).await {
            return false;
        }
        let may_start = self.slot.start(latest).await;
        if !may_start {
            self.gate.pace.record(PATIENCE);
        }
        may_start
    }

    /// Records that the call starts.
    pub(crate) fn start_call(&mut self) {
        self.share.start_call();
    }

    /// Records that the call takes long, until the result is dropped.
    pub(crate) fn become_long(&self) -> LongSlot {
        self.gate.slots(self.lane).become_long()
    }
}

impl CallPermit<'_> {
    pub(crate) fn into_parts(admitted: Option<Self>) -> (Option<BreakerPermit>, Option<CallCapacity>) {
        admitted.map(|admitted| (admitted.entry, admitted.capacity)).unzip()
    }
}

/// Chooses one of the providers that serve the target, and waits briefly until the chosen provider has capacity.
pub(crate) async fn admit<'p, S: ChannelSender>(
    sender: &S,
    gates: &Gates,
    stop: &Stop,
    job: &Job<'_>,
    providers: &'p [UsableProvider],
) -> Result<Admission<'p>, NotAdmitted> {
    let serving = serving::<S>(job, providers);
    let host = sender.host(&job.order.target);
    let mut paths = Vec::with_capacity(serving.len());
    for usable in &serving {
        paths.push(Arc::new(gates.target_path(usable, host.as_deref(), job.order.user).await));
    }
    let (place, entry) = loop {
        let now = clock::now();
        match job.order.route.choose(&candidates(&serving, &paths, now)) {
            Choice::Call(place) => {
                // If the breaker has meanwhile admitted another job instead, choose a provider again.
                if let Some(entry) = paths[place].enter(now) {
                    break (place, entry);
                }
            }
            Choice::Wait(until) => {
                let at = until + spread(until.since(now) / 10 + BUSY_PAUSE);
                return Err(NotAdmitted::Postponed { at, cause: "breaker" });
            }
            Choice::NoProvider => return Ok(without_provider(providers)),
            Choice::OnlyProviderMissing => {
                let wanted = job.order.route.only.clone();
                return Ok(Admission::WithoutCall { answer: provider_gone(), wanted });
            }
        }
    };
    let patience = Instant::now() + PATIENCE;
    tokio::select! {
        admitted = wait(job, &serving[place].provider, &paths[place], entry, patience) => admitted.map(Admission::Call),
        () = stop.begins() => Err(NotAdmitted::Stopping),
    }
}

/// Returns the providers that serve the target, in the order in which they are tried.
pub(crate) fn serving<'p, S: ChannelSender>(
    job: &Job<'_>,
    providers: &'p [UsableProvider],
) -> Vec<&'p UsableProvider> {
    let serves = |usable: &&UsableProvider| S::serves(&usable.provider.kind, &job.order.target);
    providers.iter().filter(serves).collect()
}

fn candidates<'p>(
    serving: &[&'p UsableProvider],
    paths: &[Arc<TargetPath>],
    now: Timestamp,
) -> Vec<Candidate<'p>> {
    serving
        .iter()
        .zip(paths)
        .map(|(usable, path)| Candidate {
            identifier: &usable.provider.identifier,
            closed_until: path.closed_until(now),
        })
        .collect()
}

/// Waits until the provider has capacity for a call, at most until `patience`.
async fn wait<'p>(
    job: &Job<'_>,
    provider: &'p Provider,
    path: &TargetPath,
    entry: BreakerPermit,
    patience: Instant,
) -> Result<CallPermit<'p>, NotAdmitted> {
    let postponed = |at, cause| Err(NotAdmitted::Postponed { at, cause });
    let gate = &path.gate;
    // If the user's share is used up, do not wait: jobs of one user that wait for each other could fill the lane. For the same
    // reason, wait only briefly for a host while calls to it are under way.
    let share = match path.share(job.lane, gate.may_claim_ahead(), patience).await {
        Ok(share) => share,
        Err(pause) => return postponed(clock::now() + pause + spread(pause), "share"),
    };
    // The calls of a slow provider end after minutes. A job that waited for one of them would take the place of jobs of other apps.
    if let Some(pause) = gate.slots(job.lane).turn_away_if_stuck() {
        return postponed(clock::now() + pause + spread(pause), "slow");
    }
    let slot = call_slot(gate.slots(job.lane), &share, gate.may_claim_ahead());
    let Ok(Some(slot)) = timeout_at(patience, slot).await else {
        return postponed(after_busy_pause(), "busy");
    };
    loop {
        match gate.take() {
            Ok(()) => {
                let capacity = CallCapacity { gate: Arc::clone(gate), lane: job.lane, slot, share };
                return Ok(CallPermit { provider, entry, capacity });
            }
            Err(pause) if Instant::now() + pause <= patience => sleep(pause).await,
            Err(_) => return postponed(gate.next_free_time(clock::now()), "rate"),
        }
    }
}

/// Waits for a call slot of the provider, or for a place to claim ahead of the call. A delivery that has to wait for its host must not
/// occupy a slot meanwhile.
async fn call_slot(slots: &CallSlots, share: &Share, may_claim_ahead: bool) -> Option<CallSlot> {
    if share.is_ahead() { slots.reserve_ahead().await } else { slots.reserve(may_claim_ahead).await }
}

fn without_provider<'p>(providers: &[UsableProvider]) -> Admission<'p> {
    let answer = if providers.is_empty() {
        Answer::new(Outcome::RETRY, "no_provider", "no provider is enabled")
    } else {
        Answer::new(Outcome::RETRY, "not_served", "no enabled provider serves a target of this kind")
    };
    Admission::WithoutCall { answer, wanted: None }
}

/// Returns the answer for a delivery whose only allowed provider is no longer enabled. No other provider may be called, because
/// the missing one may have accepted an earlier call.
pub(crate) fn provider_gone() -> Answer {
    let message = "the provider of the first attempt is no longer enabled";
    Answer::new(Outcome::RETRY, "provider_gone", message)
}

/// Returns the provider to call: the one that the ledger records. This is the admitted provider, unless the attempt was already
/// started with another. If the ledger records no provider, or one that is no longer enabled, returns the answer to record.
pub(crate) fn provider_to_call<'p>(
    providers: &'p [UsableProvider],
    recorded: Option<&str>,
    permit: Option<CallPermit<'p>>,
    otherwise: Answer,
) -> Result<ProviderToCall<'p>, Answer> {
    match (recorded, permit) {
        (Some(recorded), Some(permit)) if permit.provider.identifier == recorded => {
            Ok(ProviderToCall { provider: permit.provider, permit: Some(permit) })
        }
        (Some(recorded), _) => {
            let mut all = providers.iter().map(|usable| &usable.provider);
            let named = all.find(|provider| provider.identifier == recorded);
            named.map(|provider| ProviderToCall { provider, permit: None }).ok_or_else(provider_gone)
        }
        (None, _) => Err(otherwise),
    }
}

/// Returns the time of the next try after the provider was busy.
pub(crate) fn after_busy_pause() -> Timestamp {
    clock::now() + BUSY_PAUSE + spread(BUSY_PAUSE)
}

/// Returns a random part of `over`. Jobs that are postponed together get different parts, so that they are not retried
/// together.
fn spread(over: Duration) -> Duration {
    over.mul_f64(clock::random())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use domain::UserNumber;

    use super::*;
    use crate::shares::Shares;

    #[tokio::test]
    async fn deliveries_that_wait_for_their_host_leave_call_slots_to_other_hosts() {
        let (shares, slots) = (Arc::new(Shares::of(4)), CallSlots::new(4));
        let reserve = async |user, host| {
            let latest = Instant::now() + PATIENCE;
            let share =
                Shares::take(&shares, UserNumber(user), Some((host, true)), true, latest).await.unwrap();
            let slot = call_slot(&slots, &share, true).await.unwrap();
            (share, slot)
        };
        let mut held = Vec::new();
        for user in 1..=5 {
            held.push(reserve(user, "https://push.example").await);
        }
        held.push(reserve(6, "https://other.example").await);
        let is_ahead: Vec<bool> = held.iter().map(|(_, slot)| slot.is_ahead()).collect();
        assert_eq!(is_ahead, [false, false, false, true, true, false]);
    }
}
