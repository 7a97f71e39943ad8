//! Delivery receipts on their way into the ledger.

use std::sync::Arc;

use domain::retry::RetryPolicy;
use domain::{Answer, AppId};
use service_kit::{Context, clock};
use store::Store;
use store::deliveries::receipt::About;
use tokio::sync::{mpsc, oneshot};
use worker::Provider;

/// Receipts that wait to be recorded.
const QUEUE: usize = 256;
/// Receipts recorded in one transaction.
const BATCH: usize = 64;

/// A receipt for a message that a provider took.
#[derive(Debug)]
pub struct Receipt {
    /// The app.
    pub app: AppId,
    /// The provider that says so.
    pub provider: Arc<str>,
    /// The provider's id of the message.
    pub provider_id: String,
    /// Result: `sent` means that the message arrived.
    pub answer: Answer,
    /// Told when it is recorded.
    pub recorded: oneshot::Sender<Recorded>,
}

/// Result of recording a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is recorded, or is about nothing that we know.
    Done,
    /// It could not be recorded; the provider should repeat it.
    Later,
}

/// Destination of the receipts of a provider.
#[derive(Clone)]
pub(crate) struct Post {
    app: AppId,
    provider: Arc<str>,
    receipts: mpsc::Sender<Receipt>,
}

impl Post {
    pub(crate) fn new(provider: &Provider, receipts: mpsc::Sender<Receipt>) -> Post {
        Post { app: provider.app, provider: provider.identifier.as_str().into(), receipts }
    }

    /// Creates a destination for receipts that are not recorded.
    pub(crate) fn discarding() -> (Post, mpsc::Receiver<Receipt>) {
        let (receipts, receiver) = channel();
        (Post { app: AppId(0), provider: "".into(), receipts }, receiver)
    }

    /// Has a receipt recorded.
    pub(crate) fn record(
        &self,
        provider_id: String,
        answer: Answer,
    ) -> impl Future<Output = Recorded> + Send + 'static {
        let (recorded, is_recorded) = oneshot::channel();
        let receipt =
            Receipt { app: self.app, provider: self.provider.clone(), provider_id, answer, recorded };
        let receipts = self.receipts.clone();
        async move {
            match receipts.send(receipt).await {
                Ok(()) => is_recorded.await.unwrap_or(Recorded::Later),
                Err(_) => Recorded::Later,
            }
        }
    }
}

/// A bounded way for receipts.
pub(crate) fn channel() -> (mpsc::Sender<Receipt>, mpsc::Receiver<Receipt>) {
    mpsc::channel(QUEUE)
}

/// Records receipts until no sender is left. The ledger keeps a receipt that arrives before its call is settled.
pub(crate) async fn record(context: Context, mut receipts: mpsc::Receiver<Receipt>) -> anyhow::Result<()> {
    let policy = RetryPolicy { schedule: context.config.delivery.retry_schedule.clone() };
    let mut batch = Vec::with_capacity(BATCH);
    while receipts.recv_many(&mut batch, BATCH).await > 0 {
        let rows: Vec<_> = batch.iter().map(row).collect();
        let recorded = match context.store.record_receipts(&rows, &policy).await {
            Ok(_) => vec![Recorded::Done; rows.len()],
            Err(error) if error.is_refused_data() => one_by_one(&context.store, &rows, &policy).await,
            Err(error) => {
                tracing::warn!(%error, "receipts could not be recorded; their providers repeat them");
                vec![Recorded::Later; rows.len()]
            }
        };
        for (receipt, recorded) in batch.drain(..).zip(recorded) {
            // A connection that ended meanwhile gets the receipt again.
            receipt.recorded.send(recorded).ok();
        }
    }
    Ok(())
}

fn row(receipt: &Receipt) -> store::deliveries::receipt::Receipt {
    store::deliveries::receipt::Receipt {
        id: clock::new_id(),
        app: receipt.app,
        about: About::Message { provider: receipt.provider.to_string(), id: receipt.provider_id.clone() },
        answer: receipt.answer.clone(),
        at: clock::now(),
        random: clock::random(),
    }
}

/// So that the one at fault stops no other; repeating that one would change nothing.
async fn one_by_one(
    store: &Store,
    rows: &[store::deliveries::receipt::Receipt],
    policy: &RetryPolicy,
) -> Vec<Recorded> {
    let mut recorded = Vec::with_capacity(rows.len());
    for row in rows {
        recorded.push(match store.record_receipts(std::slice::from_ref(row), policy).await {
            Ok(_) => Recorded::Done,
            Err(error) if error.is_refused_data() => {
                tracing::error!(%error, app = %row.app, "a receipt cannot be recorded");
                Recorded::Done
            }
            Err(error) => {
                tracing::warn!(%error, "a receipt could not be recorded; its provider repeats it");
                Recorded::Later
            }
        });
    }
    recorded
}
