//! The path of one job: admission, claim, call, settlement, outcome event, acknowledgement.

use std::pin::pin;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use domain::event::DeliveryJob;
use domain::retry::{AttemptEnd, NextStep, RetryPolicy};
use domain::{Answer, Envelope, Event, Lane, Outcome, StreamName, Timestamp};
use event_log::DeliveredMessage;
use metrics::counter;
use sabotage::CrashPoint;
use service_kit::metrics::POSTPONED;
use service_kit::work_stream::{Owner, WorkStream};
use service_kit::{Context, clock, trace};
use store::deliveries::ledger::{Claim, ClaimRequest, HeldClaim};
use store::deliveries::settlement::{RecordedStep, Settlement};
use store::deliveries::timer::NewTimer;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::ChannelSender;
use crate::admission::{AdmissionDecision, CallPermit, PATIENCE, after_busy_pause, provider_gone};
use crate::call::CallResult;
use crate::gate::{BreakerPermit, Gates};
use crate::jobs_in_hand::JobInHand;
use crate::ledger_batches::LedgerBatches;
use crate::provider::{Provider, Providers, UsableProvider};

/// Time between the wait for a call and the latest start of the call.
const CALL_MARGIN: Duration = Duration::from_millis(100);

/// State that all jobs of a channel share.
pub(crate) struct Worker<S> {
    pub(crate) context: Context,
    pub(crate) sender: S,
    pub(crate) gates: Gates,
    pub(crate) ledger: LedgerBatches,
    providers: Providers,
    policy: RetryPolicy,
    /// Time at which a job first noticed that the process is stopping.
    stopped_at: OnceLock<Instant>,
}

pub(crate) struct Job<'a> {
    pub(crate) work_stream: &'a WorkStream,
    pub(crate) delivered: &'a DeliveredMessage,
    pub(crate) lane: Lane,
    pub(crate) envelope: &'a Envelope,
    pub(crate) order: &'a DeliveryJob,
}

impl Job<'_> {
    pub(crate) fn owner(&self) -> Owner {
        Owner { app: Some(self.envelope.app), send_id: self.envelope.send_id }
    }
}

struct ClaimedAttempt<'p> {
    token: Uuid,
    /// End of the lease by this process's clock. After that, another worker may claim the attempt.
    until: Instant,
    /// The provider to call, or the answer to record because no call can be made.
    provider: Result<ProviderToCall<'p>, Answer>,
    /// Identifier of the provider that the ledger records, if any.
    claimed: Option<String>,
    /// Identifiers of the providers that serve the target.
    serving: Vec<&'p str>,
}

struct ProviderToCall<'p> {
    provider: &'p Provider,
    /// Permission to call the provider. None if the ledger records another provider than the admitted one; the recorded
    /// provider is then called without admission.
    admitted: Option<CallPermit<'p>>,
}

impl<S: ChannelSender> Worker<S> {
    pub(crate) fn new(context: &Context, sender: S) -> Worker<S> {
        Worker {
            context: context.clone(),
            sender,
            gates: Gates::new(S::CHANNEL, context.config.delivery.max_concurrency),
            ledger: LedgerBatches::new(context),
            providers: Providers::new(context, S::CHANNEL),
            policy: RetryPolicy { schedule: context.config.delivery.retry_schedule.clone() },
            stopped_at: OnceLock::new(),
        }
    }

    /// Handles one event of the lane.
    pub(crate) async fn handle(
        &self,
        work_stream: &WorkStream,
        (delivered, envelope): (DeliveredMessage, Envelope),
        lane: Lane,
        mut place: JobInHand,
    ) {
        let Event::DeliveryJob(order) = &envelope.event else {
            let owner = Owner { app: Some(envelope.app), send_id: envelope.send_id };
            let cause = format!("{} is not a job", envelope.event.kind());
            return work_stream.count_failure(&delivered, owner, &cause).await;
        };
        let span = tracing::info_span!(
            "attempt",
            send_id = envelope.send_id.map(tracing::field::display),
            delivery_id = %order.delivery_id,
            attempt = order.attempt,
            channel = %S::CHANNEL,
        );
        trace::continue_from(&span, envelope.trace.as_deref());
        let job = Job { work_stream, delivered: &delivered, lane, envelope: &envelope, order };
        let attempt = async {
            place.start_attempt().await;
            self.attempt(&job, &mut place).await;
        };
        self.with_progress_reports(&job, Box::pin(attempt)).instrument(span).await;
    }

    /// Runs `work`. Meanwhile, reports to the log that the job is in progress, three times per `ack_wait`, so that the log does
    /// not redeliver the job.
    async fn with_progress_reports(&self, job: &Job<'_>, work: impl Future<Output = ()>) {
        let interval = self.context.config.delivery.ack_wait / 3;
        let mut work = pin!(work);
        while tokio::time::timeout(interval, &mut work).await.is_err() {
            if let Err(error) = job.delivered.in_progress().await {
                tracing::debug!(%error, "cannot report to the log that the job is in progress; the log may redeliver it");
            }
        }
    }

    async fn attempt(&self, job: &Job<'_>, place: &mut JobInHand) {
        let providers = match self.providers.of(job.envelope.app).await {
            Ok(providers) => providers,
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "cannot read the providers of the app; retrying the job"
                );
                return job.work_stream.return_later(job.delivered).await;
            }
        };
        let admission = match self.admit_or_end(job, &providers).await {
            AdmissionDecision::Postpone { at, cause } => return self.postpone(job, at, cause).await,
            AdmissionDecision::Stopping => return job.work_stream.return_now(job.delivered).await,
            admission if self.is_stopping() => {
                drop(admission);
                return job.work_stream.return_now(job.delivered).await;
            }
            admission => admission,
        };
        let (admitted, answer, wanted) = match admission {
            AdmissionDecision::Call(admitted) => {
                let identifier = admitted.provider.identifier.clone();
                (Some(admitted), provider_gone(), Some(identifier))
            }
            AdmissionDecision::SettleWithoutCall { answer, wanted } => (None, answer, wanted),
            AdmissionDecision::Postpone { .. } | AdmissionDecision::Stopping => return,
        };
        let until = Instant::now() + self.context.config.delivery.lease;
        let request = ClaimRequest {
            app: job.envelope.app,
            delivery: job.order.delivery_id,
            attempt: job.order.attempt,
            provider: wanted,
        };
        match self.ledger.claims.call(request).await.flatten() {
            Ok(Claim::Granted { token, provider: claimed }) => {
                sabotage::reach(CrashPoint::AfterClaim);
                let provider = provider_to_call(&providers, claimed.as_deref(), admitted, answer);
                let serving = self.serving_identifiers(job, &providers);
                let claim = ClaimedAttempt { token, until, provider, claimed, serving };
                self.call_and_settle(job, claim, place).await;
            }
            Ok(Claim::NotDue(state)) => self.republish_outcome(job, &state).await,
            Ok(Claim::Leased(wait)) => job.work_stream.return_after(job.delivered, wait).await,
            Ok(Claim::Missing) => {
                tracing::error!(
                    "a job names a delivery that is missing from the database, which may be older than the log; \
                     the log will redeliver the job"
                );
            }
            Err(refused) if refused.is_refused_data() => {
                job.work_stream.count_failure(job.delivered, job.owner(), &refused.to_string()).await;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot claim the delivery; retrying the job");
                job.work_stream.return_later(job.delivered).await;
            }
        }
    }

    fn serving_identifiers<'p>(&self, job: &Job<'_>, providers: &'p [UsableProvider]) -> Vec<&'p str> {
        let serving = self.serving_providers(job, providers);
        serving.iter().map(|usable| usable.provider.identifier.as_str()).collect()
    }

    /// Admits the job. If the job would be postponed although its delivery has expired, it is claimed without a provider instead,
    /// because claiming an expired delivery ends it.
    async fn admit_or_end<'p>(
        &self,
        job: &Job<'_>,
        providers: &'p [UsableProvider],
    ) -> AdmissionDecision<'p> {
        let decision = self.admit(job, providers).await;
        let has_expired = job.order.expires_at.is_some_and(|end| end <= clock::now());
        if matches!(decision, AdmissionDecision::Postpone { .. }) && has_expired {
            let answer = Answer::new(Outcome::RETRY, "expired", "the delivery had expired");
            return AdmissionDecision::SettleWithoutCall { answer, wanted: None };
        }
        decision
    }

    /// Replaces the job with a timer for the same attempt. A job that is returned to the log would count against
    /// `max_ack_pending` while it waits. If the delivery expires before `at`, the timer is due at the expiry, and the delivery
    /// then ends as expired.
    async fn postpone(&self, job: &Job<'_>, at: Timestamp, cause: &'static str) {
        let due_at = job.order.expires_at.map_or(at, |expires_at| at.min(expires_at));
        let timer = match self.timer(job, due_at, Box::new(job.order.clone())) {
            Ok(timer) => timer,
            Err(error) => {
                tracing::error!(%error, "cannot encode the job; retrying the job");
                return job.work_stream.return_later(job.delivered).await;
            }
        };
        match self.ledger.timers.call(timer).await {
            Ok(()) => {
                counter!(POSTPONED, "channel" => S::CHANNEL.as_str(), "cause" => cause).increment(1);
                tracing::debug!(%due_at, cause, "postponed the job");
                job.work_stream.acknowledge(job.delivered).await;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot postpone the job; retrying the job");
                job.work_stream.return_later(job.delivered).await;
            }
        }
    }

    /// Makes the claimed attempt: calls the provider, leaves its place to another attempt, and settles the answer.
    async fn call_and_settle(&self, job: &Job<'_>, claim: ClaimedAttempt<'_>, place: &mut JobInHand) {
        let ClaimedAttempt { token, until, provider, claimed, serving } = claim;
        let started_at = clock::now();
        if Instant::now() + self.call_limit() > until {
            // Do not call the provider: the lease could end before the answer arrives, and another worker could claim the
            // delivery.
            tracing::warn!("claiming the delivery took too long; retrying the job");
            return job.work_stream.return_later(job.delivered).await;
        }
        let (answer, called) = match provider {
            Ok(ProviderToCall { provider, admitted }) => {
                let (entry, mut capacity): (Option<BreakerPermit>, _) = CallPermit::into_parts(admitted);
                // The rest of the lease must suffice for the call.
                let latest = (Instant::now() + PATIENCE).min(until - self.call_limit() - CALL_MARGIN);
                if let Some(capacity) = &mut capacity
                    && !capacity.start_call(latest.into()).await
                {
                    return self.give_back(job, token).await;
                }
                let Some(_call) = place.start_call(latest).await else {
                    return self.give_back(job, token).await;
                };
                let called = self.call(job, provider, entry, token, until).await;
                drop(capacity);
                match called {
                    CallResult::Answer(answer) => (answer, Some(provider.identifier.as_str())),
                    CallResult::ClaimLost => return self.after_losing_the_claim(job).await,
                }
            }
            Err(instead) => (instead, None),
        };
        place.end_attempt();
        let ended_at = clock::now();
        let next = match self.recorded_step(job, &answer, called, claimed.as_deref(), &serving) {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(%error, "cannot encode the next attempt; retrying the job");
                return job.work_stream.return_later(job.delivered).await;
            }
        };
        let stream = StreamName::Job(S::CHANNEL, job.lane);
        let settlement = Settlement {
            app: job.envelope.app,
            send_id: job.envelope.send_id,
            delivery: job.order.delivery_id,
            user: job.order.user,
            token,
            attempt: job.order.attempt,
            provider: called.map(str::to_owned),
            started_at,
            ended_at,
            answer,
            next,
            job: (stream, job.delivered.payload.clone()),
            receipts: S::RECEIPTS,
        };
        sabotage::reach(CrashPoint::BeforeSettle);
        self.settle(job, settlement).await;
    }

    /// Gives the claim back because its call would have to wait too long, and postpones the job.
    async fn give_back(&self, job: &Job<'_>, token: Uuid) {
        let claim = HeldClaim { app: job.envelope.app, delivery: job.order.delivery_id, token };
        match self.context.store.deliveries().give_back(claim).await {
            Ok(true) => self.postpone(job, after_busy_pause(), "busy").await,
            Ok(false) => self.after_losing_the_claim(job).await,
            Err(error) => {
                tracing::warn!(%error, "cannot give a claim back; retrying the job");
                job.work_stream.return_later(job.delivered).await;
            }
        }
    }

    fn recorded_step(
        &self,
        job: &Job<'_>,
        answer: &Answer,
        called: Option<&str>,
        claimed: Option<&str>,
        serving: &[&str],
    ) -> Result<RecordedStep, serde_json::Error> {
        let ended = AttemptEnd {
            channel: S::CHANNEL,
            job: job.order,
            outcome: &answer.outcome,
            called,
            claimed,
            serving,
            now: clock::now(),
            random: clock::random(),
        };
        Ok(match self.policy.next_step(ended) {
            NextStep::End(status, reason) => RecordedStep::End(status, reason),
            NextStep::Retry(due_at, again) => RecordedStep::Retry(self.timer(job, due_at, again)?),
            NextStep::Park(afresh) => {
                let NewTimer { stream, message, .. } = self.timer(job, ended.now, afresh)?;
                RecordedStep::Park(stream, message)
            }
        })
    }

    fn timer(
        &self,
        job: &Job<'_>,
        due_at: Timestamp,
        order: Box<DeliveryJob>,
    ) -> Result<NewTimer, serde_json::Error> {
        let id = clock::new_id();
        let event = Event::DeliveryJob(order);
        let caused_by = Some(job.envelope.id);
        let envelope = Envelope { id, at: clock::now(), caused_by, event, ..job.envelope.clone() };
        Ok(NewTimer {
            id,
            due_at,
            stream: StreamName::Job(S::CHANNEL, job.lane),
            message: envelope.encode()?,
            app: job.envelope.app,
            send_id: job.envelope.send_id,
            user: Some(job.order.user),
        })
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.context.tasks.token().is_cancelled()
    }

    /// Waits until the process has been stopping for `grace`.
    pub(crate) async fn stopped_for(&self, grace: Duration) {
        self.context.tasks.stopping().await;
        let stopped_at = *self.stopped_at.get_or_init(Instant::now);
        tokio::time::sleep_until((stopped_at + grace).into()).await;
    }
}

/// Returns the provider to call: the one that the ledger records. This is the admitted provider, unless the attempt was already
/// started with another. If the ledger records no provider, or one that is no longer enabled, returns the answer to record.
fn provider_to_call<'p>(
    providers: &'p [UsableProvider],
    claimed: Option<&str>,
    admitted: Option<CallPermit<'p>>,
    otherwise: Answer,
) -> Result<ProviderToCall<'p>, Answer> {
    match (claimed, admitted) {
        (Some(claimed), Some(admitted)) if admitted.provider.identifier == claimed => {
            Ok(ProviderToCall { provider: admitted.provider, admitted: Some(admitted) })
        }
        (Some(claimed), _) => {
            let mut all = providers.iter().map(|usable| &usable.provider);
            let named = all.find(|provider| provider.identifier == claimed);
            named.map(|provider| ProviderToCall { provider, admitted: None }).ok_or_else(provider_gone)
        }
        (None, _) => Err(otherwise),
    }
}
