//! Admission of a job before its claim: chooses the provider and checks that it may be called now.

use std::sync::Arc;
use std::time::Duration;

use domain::route::{Candidate, Choice};
use domain::{Answer, Outcome, Timestamp};
use service_kit::clock;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout_at};

use crate::gate::{Entry, TargetPath};
use crate::job::{Job, Worker};
use crate::provider::UsableProvider;
use crate::shares::Share;
use crate::{ChannelSender, Provider};

/// Maximum time for which a job waits for a busy provider. While it waits, the job occupies one of the lane's slots for
/// concurrent jobs.
const PATIENCE: Duration = Duration::from_secs(1);
/// Minimum delay before a job whose provider was busy is retried. The maximum delay is twice as long.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

pub(crate) enum Admission<'p> {
    /// The job may call this provider.
    Call(CallPermit<'p>),
    /// No provider may be called. Claim the attempt, and settle it with this answer.
    Instead {
        answer: Answer,
        /// Identifier of the only provider that the route allows, if that provider no longer serves the target; otherwise None.
        wanted: Option<String>,
    },
    /// Postpone the job.
    Later {
        /// Earliest time of the retry.
        at: Timestamp,
        /// Cause, for the metrics.
        cause: &'static str,
    },
    /// Return the job to the log at once: the process is stopping.
    Stopping,
}

/// Permission to make one call to a provider within its limits.
pub(crate) struct CallPermit<'p> {
    pub(crate) provider: &'p Provider,
    entry: Entry,
    room: Room,
}

/// Capacity for one call. It is released when the provider has answered.
pub(crate) struct Room {
    _slot: OwnedSemaphorePermit,
    _share: Share,
}

impl CallPermit<'_> {
    pub(crate) fn apart(admitted: Option<Self>) -> (Option<Entry>, Option<Room>) {
        admitted.map(|admitted| (admitted.entry, admitted.room)).unzip()
    }
}

impl<S: ChannelSender> Worker<S> {
    /// Chooses one of the providers that serve the target, and waits briefly until the chosen provider has capacity.
    pub(crate) async fn admit<'p>(&self, job: &Job<'_>, providers: &'p [UsableProvider]) -> Admission<'p> {
        let serving = self.serving(job, providers);
        let host = self.sender.host(&job.order.target);
        let mut ways = Vec::with_capacity(serving.len());
        for usable in &serving {
            ways.push(Arc::new(self.gates.way(usable, host.as_deref(), job.order.user).await));
        }
        let (place, entry) = loop {
            let now = clock::now();
            match job.order.route.choose(&candidates(&serving, &ways, now)) {
                Choice::Call(place) => {
                    // If the breaker has meanwhile admitted another job instead, choose a provider again.
                    if let Some(entry) = ways[place].enter(now) {
                        break (place, entry);
                    }
                }
                Choice::Wait(until) => {
                    let at = until + spread(until.since(now) / 10 + BUSY_PAUSE);
                    return Admission::Later { at, cause: "breaker" };
                }
                Choice::NoProvider => return without_provider(providers),
                Choice::Gone => {
                    let wanted = job.order.route.only.clone();
                    return Admission::Instead { answer: provider_gone(), wanted };
                }
            }
        };
        let patience = Instant::now() + PATIENCE;
        tokio::select! {
            admitted = wait(job, &serving[place].provider, &ways[place], entry, patience) => admitted,
            () = self.context.tasks.stopping() => Admission::Stopping,
        }
    }

    /// Returns the providers that serve the target, in the order in which they are tried.
    pub(crate) fn serving<'p>(
        &self,
        job: &Job<'_>,
        providers: &'p [UsableProvider],
    ) -> Vec<&'p UsableProvider> {
        let serves = |usable: &&UsableProvider| S::serves(&usable.provider.kind, &job.order.target);
        providers.iter().filter(serves).collect()
    }
}

fn candidates<'p>(
    serving: &[&'p UsableProvider],
    ways: &[Arc<TargetPath>],
    now: Timestamp,
) -> Vec<Candidate<'p>> {
    serving
        .iter()
        .zip(ways)
        .map(|(usable, way)| Candidate {
            identifier: &usable.provider.identifier,
            closed_until: way.closed_until(now),
        })
        .collect()
}

/// Waits until the provider has capacity for a call, at most until `patience`. If it has no capacity by then, returns
/// [`Admission::Later`].
async fn wait<'p>(
    job: &Job<'_>,
    provider: &'p Provider,
    way: &TargetPath,
    entry: Entry,
    patience: Instant,
) -> Admission<'p> {
    let gate = &way.gate;
    // If the user's share is used up, do not wait: jobs of one user that wait for each other could fill the lane.
    let share = match way.share(job.lane, clock::now()) {
        Ok(share) => share,
        Err(pause) => return Admission::Later { at: clock::now() + pause + spread(pause), cause: "share" },
    };
    let Ok(Ok(slot)) = timeout_at(patience, gate.slots(job.lane).acquire_owned()).await else {
        return Admission::Later { at: clock::now() + BUSY_PAUSE + spread(BUSY_PAUSE), cause: "busy" };
    };
    loop {
        match gate.take() {
            Ok(()) => {
                let room = Room { _slot: slot, _share: share };
                return Admission::Call(CallPermit { provider, entry, room });
            }
            Err(pause) if Instant::now() + pause <= patience => sleep(pause).await,
            Err(_) => return Admission::Later { at: gate.promise(clock::now()), cause: "rate" },
        }
    }
}

fn without_provider<'p>(providers: &[UsableProvider]) -> Admission<'p> {
    let answer = if providers.is_empty() {
        Answer::new(Outcome::RETRY, "no_provider", "no provider is enabled")
    } else {
        Answer::new(Outcome::RETRY, "not_served", "no enabled provider serves a target of this kind")
    };
    Admission::Instead { answer, wanted: None }
}

/// Returns the answer for a delivery whose only allowed provider is no longer enabled. No other provider may be called, because
/// the missing one may have accepted an earlier call.
pub(crate) fn provider_gone() -> Answer {
    let message = "the provider of the first attempt is no longer enabled";
    Answer::new(Outcome::RETRY, "provider_gone", message)
}

/// Returns a random part of `over`. Jobs that are postponed together get different parts, so that they are not retried
/// together.
fn spread(over: Duration) -> Duration {
    over.mul_f64(clock::random())
}
