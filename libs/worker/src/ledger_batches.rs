use std::time::Duration;

use service_kit::Context;
use service_kit::append::{APPEND_LIMIT, AppendError, NewEvent, append_or_set_timers};
use store::database::batch::Batcher;
use store::deliveries::ledger::{Claim, ClaimRequest, HeldClaim};
use store::deliveries::settlement::Settlement;
use store::deliveries::timer::NewTimer;
use store::{Error, Store};

const BATCH: usize = 256;
/// A message may be up to half a megabyte in size.
const MESSAGES: usize = 32;
/// The jobs of one fetch ask at nearly the same time.
const CLAIMS: Duration = Duration::from_millis(1);
/// A settlement delays no message. But what was sent and is not settled may be sent again after a crash, so this time is short.
const SETTLEMENTS: Duration = Duration::from_millis(6);
const AT_ONCE: Duration = Duration::ZERO;

pub(crate) struct LedgerBatches {
    /// Used directly for statements that are too rare for batches.
    pub(crate) store: Store,
    pub(crate) claims: Batcher<ClaimRequest, Result<Claim, Error>>,
    pub(crate) marks: Batcher<HeldClaim, bool>,
    pub(crate) renewals: Batcher<HeldClaim, bool>,
    pub(crate) settlements: Batcher<Settlement, Result<bool, Error>>,
    pub(crate) timers: Batcher<NewTimer, ()>,
    /// The events of one job are appended together.
    pub(crate) outcomes: Batcher<Vec<NewEvent>, Result<(), AppendError>>,
}

impl LedgerBatches {
    pub(crate) fn new(context: &Context) -> LedgerBatches {
        let lease = context.config.delivery.lease;
        let store = context.store.clone();
        let claims = batches(context, (BATCH, CLAIMS), move |requests: Vec<ClaimRequest>| {
            let store = store.clone();
            async move { each(&store, lease, &requests).await }
        });
        let store = context.store.clone();
        let marks = batches(context, (BATCH, AT_ONCE), move |marks: Vec<HeldClaim>| {
            let store = store.clone();
            async move { store.deliveries().mark_calling(&marks).await }
        });
        let store = context.store.clone();
        let renewals = batches(context, (BATCH, AT_ONCE), move |claims: Vec<HeldClaim>| {
            let store = store.clone();
            async move { store.deliveries().renew(&claims, lease).await }
        });
        let store = context.store.clone();
        let settlements = batches(context, (BATCH, SETTLEMENTS), move |settlements: Vec<Settlement>| {
            let store = store.clone();
            async move { each(&store, lease, &settlements).await }
        });
        let store = context.store.clone();
        let timers = batches(context, (MESSAGES, AT_ONCE), move |timers: Vec<NewTimer>| {
            let store = store.clone();
            async move { store.deliveries().set_timers(&timers).await.map(|()| vec![(); timers.len()]) }
        });
        let (log, store) = (context.log.clone(), context.store.clone());
        let outcomes = batches(context, (BATCH, AT_ONCE), move |outcomes: Vec<Vec<NewEvent>>| {
            let (log, store) = (log.clone(), store.clone());
            async move {
                let jobs = outcomes.len();
                let appended = append_or_set_timers(&log, &store, &outcomes.concat()).await;
                Ok(vec![appended; jobs])
            }
        });
        let outcomes = outcomes.with_limit(APPEND_LIMIT);
        LedgerBatches { store: context.store.clone(), claims, marks, renewals, settlements, timers, outcomes }
    }
}

fn batches<Q, A, F, Fut>(context: &Context, (most, wait): (usize, Duration), run: F) -> Batcher<Q, A>
where
    Q: Send + 'static,
    A: Send + 'static,
    F: Fn(Vec<Q>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Vec<A>, Error>> + Send + 'static,
{
    let (batcher, running) = Batcher::gathering(most, wait, run);
    context.spawn("ledger batches", async move {
        running.await;
        Ok(())
    });
    batcher
}

/// A statement over a batch, which the database may reject because of a single item.
trait Statement: Sized + Sync {
    type Answer: Send;

    fn run(
        batch: &[Self],
        store: &Store,
        lease: Duration,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, Error>> + Send;
}

impl Statement for ClaimRequest {
    type Answer = Claim;

    async fn run(batch: &[Self], store: &Store, lease: Duration) -> Result<Vec<Claim>, Error> {
        store.deliveries().claim(batch, lease).await
    }
}

impl Statement for Settlement {
    type Answer = bool;

    async fn run(batch: &[Self], store: &Store, _lease: Duration) -> Result<Vec<bool>, Error> {
        store.deliveries().settle(batch).await
    }
}

/// Runs a batch as one statement. If the database rejects it, each item runs alone, so that an invalid item does not stop the others.
///
/// # Errors
/// The database is unavailable, and part of the batch may have been applied. A repeated settlement recognises settled deliveries; a
/// repeated claim waits until the lease of the first one ends.
async fn each<S: Statement>(
    store: &Store,
    lease: Duration,
    batch: &[S],
) -> Result<Vec<Result<S::Answer, Error>>, Error> {
    match S::run(batch, store, lease).await {
        Ok(answers) => return Ok(answers.into_iter().map(Ok).collect()),
        Err(error) if error.is_unavailable() => return Err(error),
        Err(error) if batch.len() == 1 => return Ok(vec![Err(error)]),
        Err(error) => {
            tracing::warn!(
                %error, batch = batch.len(),
                "PostgreSQL rejected a batch; running its statements one by one"
            );
        }
    }
    let mut answers = Vec::with_capacity(batch.len());
    for alone in batch {
        match S::run(std::slice::from_ref(alone), store, lease).await {
            Err(error) if error.is_unavailable() => return Err(error),
            Err(error) => answers.push(Err(error)),
            Ok(answer) => answers.extend(answer.into_iter().map(Ok)),
        }
    }
    Ok(answers)
}
