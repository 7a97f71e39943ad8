//! Before a claim: which provider is asked, and whether it may be asked now.

use std::sync::Arc;
use std::time::Duration;

use domain::route::{Candidate, Choice};
use domain::{Answer, Outcome, Timestamp};
use service_kit::clock;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout_at};

use crate::gate::{Entry, Way};
use crate::job::{Job, Worker};
use crate::provider::Usable;
use crate::shares::Share;
use crate::{ChannelSender, Provider};

/// How long a job waits in its place for a provider that is busy; then it leaves the place to others.
const PATIENCE: Duration = Duration::from_secs(1);
/// Until a job comes again that found a provider busy, at least; twice as long at most.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// What a job may do.
pub(crate) enum Admission<'p> {
    /// Call this provider.
    Call(Admitted<'p>),
    /// Claim its attempt, and settle it with this answer: nobody can be asked.
    Instead {
        /// What is recorded.
        answer: Answer,
        /// The provider that should have been asked.
        wanted: Option<String>,
    },
    /// Come again.
    Later {
        /// Not before.
        at: Timestamp,
        /// For the metrics.
        cause: &'static str,
    },
    /// Go back at once: the process stops.
    Stopping,
}

/// The right to call a provider, as far as that one is concerned.
pub(crate) struct Admitted<'p> {
    pub(crate) provider: &'p Provider,
    entry: Entry,
    room: Room,
}

/// Room for a call, held until its answer is there.
pub(crate) struct Room {
    _slot: OwnedSemaphorePermit,
    _share: Share,
}

impl Admitted<'_> {
    pub(crate) fn apart(admitted: Option<Self>) -> (Option<Entry>, Option<Room>) {
        admitted.map(|admitted| (admitted.entry, admitted.room)).unzip()
    }
}

impl<S: ChannelSender> Worker<S> {
    /// Chooses among the providers that serve the target, and waits a moment for the chosen one.
    pub(crate) async fn admit<'p>(&self, job: &Job<'_>, providers: &'p [Usable]) -> Admission<'p> {
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
                    // Another job may have been let through first.
                    if let Some(entry) = ways[place].enter(now) {
                        break (place, entry);
                    }
                }
                Choice::Wait(until) => {
                    let at = until + spread(until.since(now) / 10 + BUSY_PAUSE);
                    return Admission::Later { at, cause: "breaker" };
                }
                Choice::NoProvider => return nobody(providers),
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

    /// The providers that reach the target, in the order in which they are tried.
    pub(crate) fn serving<'p>(&self, job: &Job<'_>, providers: &'p [Usable]) -> Vec<&'p Usable> {
        let serves = |usable: &&Usable| S::serves(&usable.provider.kind, &job.order.target);
        providers.iter().filter(serves).collect()
    }
}

fn candidates<'p>(serving: &[&'p Usable], ways: &[Arc<Way>], now: Timestamp) -> Vec<Candidate<'p>> {
    serving
        .iter()
        .zip(ways)
        .map(|(usable, way)| Candidate {
            identifier: &usable.provider.identifier,
            closed_until: way.closed_until(now),
        })
        .collect()
}

/// Waits for a free call of the provider, as long as the patience lasts.
async fn wait<'p>(
    job: &Job<'_>,
    provider: &'p Provider,
    way: &Way,
    entry: Entry,
    patience: Instant,
) -> Admission<'p> {
    let gate = &way.gate;
    // Not waited for: jobs of one user must not fill the lane while they wait for each other.
    let share = match way.share(job.lane, clock::now()) {
        Ok(share) => share,
        Err(pause) => return Admission::Later { at: clock::now() + pause + spread(pause), cause: "share" },
    };
    let Ok(Ok(slot)) = timeout_at(patience, gate.slots(job.lane).acquire_owned()).await else {
        return Admission::Later { at: clock::now() + BUSY_PAUSE + spread(BUSY_PAUSE), cause: "busy" };
    };
    loop {
        let now = clock::now();
        match gate.take(now) {
            Ok(()) => {
                let room = Room { _slot: slot, _share: share };
                return Admission::Call(Admitted { provider, entry, room });
            }
            Err(pause) if Instant::now() + pause <= patience => sleep(pause).await,
            Err(_) => return Admission::Later { at: gate.promise(now), cause: "rate" },
        }
    }
}

fn nobody<'p>(providers: &[Usable]) -> Admission<'p> {
    let answer = if providers.is_empty() {
        Answer::new(Outcome::RETRY, "no_provider", "no provider is enabled")
    } else {
        Answer::new(Outcome::RETRY, "not_served", "no enabled provider serves a target of this kind")
    };
    Admission::Instead { answer, wanted: None }
}

/// After an attempt whose outcome is unknown no other provider may stand in for the one that was called.
pub(crate) fn provider_gone() -> Answer {
    let message = "the provider that this delivery began with is not enabled any more";
    Answer::new(Outcome::RETRY, "provider_gone", message)
}

/// Keeps what was put off together from coming back together.
fn spread(over: Duration) -> Duration {
    over.mul_f64(clock::random())
}
