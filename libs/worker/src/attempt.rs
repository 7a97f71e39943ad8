//! The life of one attempt: admit → claim → call → settle → publish. Each job runs as a separate task, so a slow call delays no other job.

use std::time::{Duration, Instant};

use domain::retry::{AttemptEnd, NextStep, RetryPolicy};
use domain::{Answer, Envelope, Event, Lane, Outcome, Reason, Status, Timestamp};
use event_log::DeliveredMessage;
use metrics::counter;
use sabotage::CrashPoint;
use service_kit::metrics::DELIVERIES;
use service_kit::work_stream::{Owner, WorkStream};
use service_kit::{Context, clock, trace};
use store::deliveries::ledger::{Claim, ClaimRequest, HeldClaim};
use store::deliveries::settlement::{RecordedStep, Settlement};
use store::deliveries::timer::{NewTimer, Wait};
use tracing::Instrument as _;

use crate::admission::{
    Admission, NotAdmitted, ProviderToCall, admit, postpone, provider_gone, provider_to_call, return_claim,
    serving,
};
use crate::budget::{CallBudgets, CallGuard, PATIENCE};
use crate::call::{self, ClaimLost, MadeCall, ProviderCall};
use crate::jobs_in_hand::JobInHand;
use crate::lane::{Job, JobEnd};
use crate::lease::Stop;
use crate::ledger_batches::LedgerBatches;
use crate::outcome::SettledOutcome;
use crate::provider::{Provider, Providers, UsableProvider};
use crate::{ChannelSender, outcome};

/// Time between the wait for a call and the latest start of the call.
const CALL_MARGIN: Duration = Duration::from_millis(100);
/// Part of a lease after which a call is long, and leaves its places to other calls.
const LONG: u32 = 6;
/// Time for which settling is retried after the process starts to stop. The process waits 30 s for its tasks before it exits.
const SETTLE_AFTER_STOP: Duration = Duration::from_secs(25);

pub(crate) struct Worker<S> {
    sender: S,
    budgets: CallBudgets,
    ledger: LedgerBatches,
    providers: Providers,
    policy: RetryPolicy,
    ack_wait: Duration,
    lease: Duration,
    stop: Stop,
}

struct ClaimedAttempt<'p> {
    claim: HeldClaim,
    /// End of the lease by this process's clock.
    until: Instant,
    recorded: Option<String>,
    provider: Result<ProviderToCall<'p>, Answer>,
}

struct AnsweredAttempt {
    claim: HeldClaim,
    recorded: Option<String>,
    called: Option<String>,
    started_at: Timestamp,
    ended_at: Timestamp,
    answer: Answer,
}

impl<S: ChannelSender> Worker<S> {
    pub(crate) fn new(context: &Context, sender: S) -> Worker<S> {
        let settings = &context.config.delivery;
        Worker {
            sender,
            budgets: CallBudgets::new(S::CHANNEL, settings.max_concurrency),
            ledger: LedgerBatches::new(context),
            providers: Providers::new(context, S::CHANNEL),
            policy: RetryPolicy { schedule: settings.retry_schedule.clone() },
            ack_wait: settings.ack_wait,
            lease: settings.lease,
            stop: Stop::new(&context.tasks),
        }
    }

    pub(crate) fn sender(&self) -> &S {
        &self.sender
    }

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
            return Box::pin(work_stream.count_failure(&delivered, owner, &cause)).await;
        };
        let span = tracing::info_span!(
            "attempt",
            send_id = envelope.send_id.map(tracing::field::display),
            delivery_id = %order.delivery_id,
            attempt = order.attempt,
            channel = %S::CHANNEL,
        );
        trace::continue_from(&span, envelope.trace.as_deref());
        let (delivered, envelope) = (&delivered, &envelope);
        let job = Job { work_stream, delivered, channel: S::CHANNEL, lane, envelope, order };
        // Boxed here, because a variable would make the task as large as all steps of the attempt.
        let work = Box::pin(async {
            place.start_attempt().await;
            let end = self.attempt(&job, &mut place).await.unwrap_or_else(|early| early);
            job.end(end).await;
        });
        job.with_progress_reports(self.ack_wait, work).instrument(span).await;
    }

    /// An error means that a step ended the handling early.
    async fn attempt(&self, job: &Job<'_>, place: &mut JobInHand) -> Result<JobEnd, JobEnd> {
        let providers = self.providers.of(job.envelope.app).await.map_err(|error| {
            let error = format!("{error:#}");
            tracing::warn!(error, "cannot read the providers of the app; retrying the job");
            JobEnd::ReturnLater
        })?;
        let admission = self.admit(job, &providers).await?;
        let claimed = self.claim(job, &providers, admission).await?;
        let answered = self.call(job, claimed, place).await?;
        place.end_attempt();
        let outcome = self.settle(job, &providers, answered).await?;
        Ok(outcome::publish(&self.ledger, job, outcome).await)
    }

    /// If the job would be postponed although its delivery has expired, it is claimed without a provider instead, because claiming an
    /// expired delivery ends it.
    async fn admit<'p>(
        &self,
        job: &Job<'_>,
        providers: &'p [UsableProvider],
    ) -> Result<Admission<'p>, JobEnd> {
        let has_expired = || job.order.expires_at.is_some_and(|end| end <= clock::now());
        match admit(&self.sender, &self.budgets, &self.stop, job, providers).await {
            Err(NotAdmitted::Stopping) => Err(JobEnd::ReturnNow),
            Err(NotAdmitted::Refused(refusal)) if !has_expired() => {
                Err(postpone(&self.ledger, job, refusal).await)
            }
            _ if self.stop.has_begun() => Err(JobEnd::ReturnNow),
            Err(NotAdmitted::Refused(_)) => {
                let answer = Answer::new(Outcome::RETRY, "expired", "the delivery had expired");
                Ok(Admission::WithoutCall { answer, wanted: None })
            }
            Ok(admission) => Ok(admission),
        }
    }

    async fn claim<'p>(
        &self,
        job: &Job<'_>,
        providers: &'p [UsableProvider],
        admission: Admission<'p>,
    ) -> Result<ClaimedAttempt<'p>, JobEnd> {
        let (admitted, answer, wanted) = match admission {
            Admission::Call(admitted) => {
                let identifier = admitted.provider.identifier.clone();
                (Some(admitted), provider_gone(), Some(identifier))
            }
            Admission::WithoutCall { answer, wanted } => (None, answer, wanted),
        };
        let until = Instant::now() + self.lease;
        let (app, delivery) = (job.envelope.app, job.order.delivery_id);
        let request = ClaimRequest { app, delivery, attempt: job.order.attempt, provider: wanted };
        match self.ledger.claims.call(request).await.flatten() {
            Ok(Claim::Granted { token, provider: recorded, takes_over }) => {
                sabotage::reach(CrashPoint::AfterClaim);
                let claim = HeldClaim { app, delivery, token, takes_over };
                let provider = provider_to_call(providers, recorded.as_deref(), admitted, answer);
                Ok(ClaimedAttempt { claim, until, recorded, provider })
            }
            Ok(Claim::NotDue(state)) => Err(outcome::publish_again(&self.ledger, job, &state).await),
            Ok(Claim::Leased(wait)) => Err(JobEnd::ReturnAfter(wait)),
            Ok(Claim::Missing) => {
                tracing::error!(
                    "a job names a delivery that is missing from the database, which may be older than the log; \
                     the log will redeliver the job"
                );
                Err(JobEnd::Missing { ack_wait: self.ack_wait })
            }
            Err(refused) if refused.is_refused_data() => Err(JobEnd::Failed(refused.to_string())),
            Err(error) => {
                tracing::warn!(%error, "cannot claim the delivery; retrying the job");
                Err(JobEnd::ReturnLater)
            }
        }
    }

    /// Time limit of one call: three fifths of the lease, unless the provider needs longer.
    fn call_limit(&self, provider: &Provider) -> Duration {
        self.sender.longest_call(provider).unwrap_or_else(|| self.call_margin())
    }

    fn call_margin(&self) -> Duration {
        self.lease * 3 / 5
    }

    async fn call(
        &self,
        job: &Job<'_>,
        claimed: ClaimedAttempt<'_>,
        place: &mut JobInHand,
    ) -> Result<AnsweredAttempt, JobEnd> {
        let ClaimedAttempt { claim, until, recorded, provider } = claimed;
        let started_at = clock::now();
        if Instant::now() + self.call_margin() > until {
            // Do not call the provider: the lease could end before the answer arrives, and another worker could claim the
            // delivery.
            tracing::warn!("claiming the delivery took too long; retrying the job");
            return Err(JobEnd::ReturnLater);
        }
        let (answer, called) = match provider {
            Ok(ProviderToCall { provider, guard }) => {
                let answer = match call::prepare(&self.sender, job).await {
                    Ok(prepared) => {
                        let &Worker { ref sender, ref ledger, ref stop, lease, .. } = self;
                        let limit = self.call_limit(provider);
                        let call = ProviderCall {
                            sender,
                            ledger,
                            stop,
                            job,
                            provider,
                            prepared,
                            claim,
                            until,
                            lease,
                            limit,
                            margin: self.call_margin().min(limit),
                        };
                        self.call_in_turn(call, guard, place).await?
                    }
                    Err(instead) => instead,
                };
                (answer, Some(provider.identifier.clone()))
            }
            Err(instead) => (instead, None),
        };
        Ok(AnsweredAttempt { claim, recorded, called, started_at, ended_at: clock::now(), answer })
    }

    async fn call_in_turn(
        &self,
        call: ProviderCall<'_, S>,
        mut guard: CallGuard,
        place: &mut JobInHand,
    ) -> Result<Answer, JobEnd> {
        let (job, claim) = (call.job, call.claim);
        // The rest of the lease must suffice for the call.
        let latest = (Instant::now() + PATIENCE).min(call.until - call.margin - CALL_MARGIN);
        if !guard.start(place, latest.into()).await {
            drop(guard);
            return Err(return_claim(&self.ledger, job, claim).await);
        }
        let made = tokio::select! {
            made = call.make() => made,
            never = guard.leave_lane_after(self.lease / LONG, place, job.envelope.app) => match never {},
        };
        match made {
            Ok(MadeCall { answer, took }) => {
                if let Some(took) = took {
                    guard.report(&answer, took);
                }
                Ok(answer)
            }
            Err(ClaimLost) => {
                drop(guard);
                Err(outcome::after_losing_the_claim(&self.ledger, job).await)
            }
        }
    }

    /// While the database is unavailable, retries without a limit, because only this task has the answer. After the process starts to stop,
    /// retries for 25 s.
    async fn settle(
        &self,
        job: &Job<'_>,
        providers: &[UsableProvider],
        attempt: AnsweredAttempt,
    ) -> Result<SettledOutcome, JobEnd> {
        let next = self.recorded_step(job, providers, &attempt).map_err(|error| {
            tracing::error!(%error, "cannot encode the next attempt; retrying the job");
            JobEnd::ReturnLater
        })?;
        let settlement = Settlement {
            app: job.envelope.app,
            send_id: job.envelope.send_id,
            delivery: job.order.delivery_id,
            user: job.order.user,
            token: attempt.claim.token,
            attempt: job.order.attempt,
            provider: attempt.called,
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            answer: attempt.answer,
            next,
            job: (job.stream(), job.delivered.payload.clone()),
            receipts: S::RECEIPTS,
        };
        sabotage::reach(CrashPoint::BeforeSettle);
        let known_at = Instant::now();
        let settlement = tokio::select! {
            settled = outcome::record(&self.ledger, job, settlement) => settled?,
            () = self.stop.has_lasted(SETTLE_AFTER_STOP) => {
                tracing::error!("the process is stopping, and the provider's answer could not be settled; the answer is lost");
                return Err(JobEnd::Leave);
            }
        };
        sabotage::reach(CrashPoint::AfterSettle);
        let (status, reason) = settlement.next.status();
        counter!(DELIVERIES, "channel" => S::CHANNEL.as_str(), "status" => status.as_str()).increment(1);
        let code = &settlement.answer.code;
        match status {
            Status::Sent => tracing::debug!(code, "sent the delivery"),
            _ => {
                let reason = reason.map(Reason::as_str);
                tracing::info!(code, %status, reason, "the delivery was not sent");
            }
        }
        Ok(SettledOutcome { status, reason, provider: settlement.provider, known_at })
    }

    fn recorded_step(
        &self,
        job: &Job<'_>,
        providers: &[UsableProvider],
        attempt: &AnsweredAttempt,
    ) -> Result<RecordedStep, serde_json::Error> {
        let serving = serving::<S>(job, providers);
        let serving: Vec<&str> = serving.iter().map(|usable| usable.provider.identifier.as_str()).collect();
        let ended = AttemptEnd {
            channel: S::CHANNEL,
            job: job.order,
            outcome: &attempt.answer.outcome,
            called: attempt.called.as_deref(),
            claimed: attempt.recorded.as_deref(),
            takes_over: attempt.claim.takes_over,
            serving: &serving,
            now: clock::now(),
            random: clock::random(),
        };
        let wait = Wait {
            delivery: job.order.delivery_id,
            reason: Reason::RetryLater,
            provider: attempt.called.clone(),
            code: Some(attempt.answer.code.clone()),
        };
        Ok(match self.policy.next_step(ended) {
            NextStep::End(status, reason) => RecordedStep::End(status, attempt.answer.reason(reason)),
            NextStep::Retry(due_at, again) => RecordedStep::Retry(job.timer(due_at, again, wait)?),
            NextStep::Park(afresh) => {
                let NewTimer { stream, message, .. } = job.timer(ended.now, afresh, wait)?;
                RecordedStep::Park(stream, message)
            }
        })
    }
}
