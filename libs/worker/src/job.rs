//! The life of one job: claim, call, settle, outcome event, acknowledgement.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use domain::event::{DecodeError, DeliveryJob};
use domain::retry::{Finished, RetryPolicy, Verdict};
use domain::{Answer, Envelope, Event, Lane, Outcome, StreamName};
use event_log::Delivered;
use futures_util::FutureExt as _;
use metrics::{counter, histogram};
use service_kit::inbound::{Inbound, Owner};
use service_kit::metrics::{PROVIDER_CALL_SECONDS, UNKNOWN_EVENTS};
use service_kit::{Context, clock, trace};
use store::batch::Batcher;
use store::ledger::{Claim, ClaimRequest};
use store::settlement::{Next, Settlement};
use store::timer::NewTimer;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::Sender;
use crate::provider::{Provider, Providers};
use crate::settle::settle_each;

/// Claims or settlements of one statement at most.
const BATCH: usize = 256;

/// What the jobs of a channel share.
pub(crate) struct Worker<S> {
    pub(crate) context: Context,
    sender: S,
    providers: Providers,
    policy: RetryPolicy,
    claims: Batcher<ClaimRequest, Claim>,
    pub(crate) settlements: Batcher<Settlement, Result<bool, store::Error>>,
}

/// A job in hand.
pub(crate) struct Job<'a> {
    pub(crate) inbound: &'a Inbound,
    pub(crate) delivered: &'a Delivered,
    lane: Lane,
    pub(crate) envelope: &'a Envelope,
    pub(crate) order: &'a DeliveryJob,
}

/// The right to make a job's attempt.
struct Held<'a> {
    token: Uuid,
    /// Whom to call, or the answer that stands for a call which must not be made.
    provider: Result<&'a Provider, Answer>,
    /// Past this moment, by our own clock, we do not call.
    until: Instant,
}

impl<S: Sender> Worker<S> {
    pub(crate) fn new(context: &Context, sender: S) -> Worker<S> {
        let lease = context.config.delivery.lease;
        let store = context.store.clone();
        let (claims, run_claims) = Batcher::new(BATCH, move |requests: Vec<ClaimRequest>| {
            let store = store.clone();
            async move { store.claim(&requests, lease).await }
        });
        let store = context.store.clone();
        let (settlements, run_settlements) = Batcher::new(BATCH, move |settlements: Vec<Settlement>| {
            let store = store.clone();
            async move { settle_each(&store, &settlements).await }
        });
        for batching in [
            Box::pin(run_claims) as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
            Box::pin(run_settlements),
        ] {
            context.spawn("ledger batches", async move {
                batching.await;
                Ok(())
            });
        }
        Worker {
            context: context.clone(),
            sender,
            providers: Providers::new(context, S::CHANNEL),
            policy: RetryPolicy { schedule: context.config.delivery.retry_schedule.clone() },
            claims,
            settlements,
        }
    }

    /// Handles one message of the lane.
    pub(crate) async fn handle(&self, inbound: &Inbound, delivered: Delivered, lane: Lane) {
        let envelope = match Envelope::decode(&delivered.payload) {
            Ok(envelope) => envelope,
            Err(DecodeError::UnknownType(kind)) => {
                counter!(UNKNOWN_EVENTS, "type" => kind).increment(1);
                return inbound.done(&delivered).await;
            }
            Err(newer @ DecodeError::Newer { .. }) => {
                tracing::error!(error = %newer, "this worker is too old for a job, which waits for a newer one");
                return inbound.again(&delivered).await;
            }
            Err(malformed) => {
                return inbound.failed_by_itself(&delivered, Owner::default(), &malformed.to_string()).await;
            }
        };
        let Event::DeliveryJob(order) = &envelope.event else {
            let owner = Owner { app: Some(envelope.app), send_id: envelope.send_id };
            let cause = format!("{} is no job", envelope.event.kind());
            return inbound.failed_by_itself(&delivered, owner, &cause).await;
        };
        let span = tracing::info_span!(
            "attempt",
            send_id = envelope.send_id.map(tracing::field::display),
            delivery_id = %order.delivery_id,
            attempt = order.attempt,
            channel = %S::CHANNEL,
        );
        trace::continue_from(&span, envelope.trace.as_deref());
        let job = Job { inbound, delivered: &delivered, lane, envelope: &envelope, order };
        self.attempt(&job).instrument(span).await;
    }

    async fn attempt(&self, job: &Job<'_>) {
        let providers = match self.providers.of(job.envelope.app).await {
            Ok(providers) => providers,
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "the providers cannot be read");
                return job.inbound.again(job.delivered).await;
            }
        };
        let until = Instant::now() + self.context.config.delivery.lease;
        let request = ClaimRequest {
            app: job.envelope.app,
            delivery: job.order.delivery_id,
            attempt: job.order.attempt,
            provider: providers.first().map(|provider| provider.identifier.clone()),
        };
        match self.claims.call(request).await {
            Ok(Claim::Ours { token, provider }) => {
                let provider = choose(&providers, provider.as_deref());
                self.make(job, Held { token, provider, until }).await;
            }
            Ok(Claim::Done(state)) => self.conclude(job, &state).await,
            Ok(Claim::Leased(wait)) => job.inbound.after(job.delivered, wait).await,
            Ok(Claim::Missing) => {
                tracing::error!("the database does not know this attempt: is it behind the log?");
            }
            Err(error) => {
                tracing::warn!(%error, "not claimed");
                job.inbound.again(job.delivered).await;
            }
        }
    }

    /// Calls the provider and settles what came of it.
    async fn make(&self, job: &Job<'_>, held: Held<'_>) {
        let started_at = clock::now();
        let limit = self.context.config.delivery.lease * 3 / 5;
        if Instant::now() + limit > held.until {
            // Another may hold the delivery by the time an answer came.
            tracing::warn!("the claim took too long to be used");
            return job.inbound.again(job.delivered).await;
        }
        let answer = match &held.provider {
            Ok(provider) => self.call(job, provider, limit).await,
            Err(instead) => instead.clone(),
        };
        let ended_at = clock::now();
        let next = match self.next(job, &answer) {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(%error, "the next attempt cannot be written");
                return job.inbound.again(job.delivered).await;
            }
        };
        let settlement = Settlement {
            app: job.envelope.app,
            send_id: job.envelope.send_id,
            delivery: job.order.delivery_id,
            user: job.order.user,
            token: held.token,
            attempt: job.order.attempt,
            provider: held.provider.ok().map(|provider| provider.identifier.clone()),
            started_at,
            ended_at,
            answer,
            next,
        };
        self.settle(job, settlement).await;
    }

    async fn call(&self, job: &Job<'_>, provider: &Provider, limit: Duration) -> Answer {
        let called = Instant::now();
        let call = AssertUnwindSafe(async { self.sender.send(provider, job.order).await }).catch_unwind();
        let answer = tokio::time::timeout(limit, call).await;
        histogram!(PROVIDER_CALL_SECONDS, "channel" => S::CHANNEL.as_str())
            .record(called.elapsed().as_secs_f64());
        match answer {
            Ok(Ok(answer)) => storable(answer),
            Ok(Err(_panic)) => {
                // Settled, so that the attempts rise and the job is parked at their end.
                tracing::error!(provider = provider.identifier, "the call panicked");
                ours(Outcome::Unknown, "panic", "the call panicked")
            }
            Err(_) => ours(Outcome::Unknown, "timeout", "no answer in time"),
        }
    }

    fn next(&self, job: &Job<'_>, answer: &Answer) -> Result<Next, serde_json::Error> {
        let now = clock::now();
        let verdict = self.policy.verdict(Finished {
            channel: S::CHANNEL,
            attempt: job.order.attempt,
            outcome: &answer.outcome,
            now,
            expires_at: job.order.expires_at,
            random: clock::random(),
        });
        let stream = StreamName::Job(S::CHANNEL, job.lane);
        let id = clock::new_id();
        let again = || {
            let order = DeliveryJob { attempt: job.order.attempt + 1, ..job.order.clone() };
            let event = Event::DeliveryJob(Box::new(order));
            Envelope { id, at: now, caused_by: Some(job.envelope.id), event, ..job.envelope.clone() }.encode()
        };
        Ok(match verdict {
            Verdict::End(status, reason) => Next::End(status, reason),
            Verdict::Park => Next::Park(stream, again()?),
            Verdict::RetryAt(due_at) => Next::Retry(NewTimer {
                id,
                due_at,
                stream,
                message: again()?,
                app: job.envelope.app,
                send_id: job.envelope.send_id,
                user: Some(job.order.user),
            }),
        })
    }
}

/// The provider that the claim names. After an attempt whose outcome is unknown no other may stand in for it.
fn choose<'a>(providers: &'a [Provider], claimed: Option<&str>) -> Result<&'a Provider, Answer> {
    let retry = Outcome::Retry { after: None, limit: None };
    let Some(wanted) = claimed else {
        return Err(ours(retry, "no_provider", "no provider is enabled"));
    };
    let named = providers.iter().find(|provider| provider.identifier == wanted);
    named.ok_or_else(|| {
        ours(retry, "provider_gone", "the provider that this attempt began with is not enabled any more")
    })
}

/// An answer for which no provider was asked, or none came.
fn ours(outcome: Outcome, code: &str, message: &str) -> Answer {
    Answer { outcome, code: code.to_owned(), message: message.to_owned() }
}

/// PostgreSQL stores no U+0000: a provider that says one would fail the settlements of everybody in its batch.
fn storable(mut answer: Answer) -> Answer {
    answer.code.retain(|c| c != '\0');
    answer.message.retain(|c| c != '\0');
    if let Outcome::Sent { provider_id: Some(id) } = &mut answer.outcome {
        id.retain(|c| c != '\0');
    }
    answer
}
