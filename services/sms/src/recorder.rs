//! Recording of delivery receipts in the ledger.

use std::sync::Arc;

use domain::receipt::{self, ReceiptSubject};
use domain::retry::RetryPolicy;
use domain::{Answer, AppId};
use service_kit::{Context, clock};
use store::Store;
use tokio::sync::{mpsc, oneshot};
use worker::Provider;

/// Maximum number of receipts that wait to be recorded.
const QUEUE: usize = 256;
/// Maximum number of receipts per transaction.
const BATCH: usize = 64;

/// A receipt for a message that a provider accepted.
#[derive(Debug)]
pub struct Receipt {
    pub app: AppId,
    /// Identifier of the provider.
    pub provider: Arc<str>,
    /// The provider's id of the message.
    pub provider_id: String,
    /// Result of the delivery. [`Outcome::Sent`](domain::Outcome::Sent) means that the message arrived.
    pub answer: Answer,
    /// Receives the result when the receipt is recorded or recording has failed.
    pub recorded: oneshot::Sender<RecordResult>,
}

/// Result of recording a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordResult {
    /// The provider need not repeat the receipt: it is recorded, or was dropped because PostgreSQL rejected it.
    Done,
    /// The receipt could not be recorded; the provider should repeat it.
    Later,
}

/// Queue for the receipts of one provider.
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

    /// Creates a queue whose receipts are never recorded, for testing a provider.
    pub(crate) fn discarding() -> (Post, mpsc::Receiver<Receipt>) {
        let (receipts, receiver) = channel();
        (Post { app: AppId(0), provider: "".into(), receipts }, receiver)
    }

    /// Queues a receipt. The future completes when the receipt is recorded.
    pub(crate) fn record(
        &self,
        provider_id: String,
        answer: Answer,
    ) -> impl Future<Output = RecordResult> + Send + 'static {
        let (recorded, is_recorded) = oneshot::channel();
        let receipt =
            Receipt { app: self.app, provider: self.provider.clone(), provider_id, answer, recorded };
        let receipts = self.receipts.clone();
        async move {
            match receipts.send(receipt).await {
                Ok(()) => is_recorded.await.unwrap_or(RecordResult::Later),
                Err(_) => RecordResult::Later,
            }
        }
    }
}

/// Creates the bounded queue through which SMPP connections pass receipts to [`record`].
pub(crate) fn channel() -> (mpsc::Sender<Receipt>, mpsc::Receiver<Receipt>) {
    mpsc::channel(QUEUE)
}

/// Records receipts until all senders of the queue are dropped. If a receipt arrives before its attempt is settled, the
/// ledger keeps the receipt until then.
pub(crate) async fn record(context: Context, mut receipts: mpsc::Receiver<Receipt>) -> anyhow::Result<()> {
    let policy = RetryPolicy { schedule: context.config.delivery.retry_schedule.clone() };
    let mut batch = Vec::with_capacity(BATCH);
    while receipts.recv_many(&mut batch, BATCH).await > 0 {
        let rows: Vec<_> = batch.iter().map(row).collect();
        let recorded = match context.store.deliveries().record_receipts(&rows, &policy).await {
            Ok(_) => vec![RecordResult::Done; rows.len()],
            Err(error) if error.is_refused_data() => one_by_one(&context.store, &rows, &policy).await,
            Err(error) => {
                tracing::warn!(%error, "cannot record receipts; the message centre will send them again");
                vec![RecordResult::Later; rows.len()]
            }
        };
        for (receipt, recorded) in batch.drain(..).zip(recorded) {
            // Sending fails if the connection has ended. The message centre then delivers the receipt again.
            receipt.recorded.send(recorded).ok();
        }
    }
    Ok(())
}

fn row(receipt: &Receipt) -> receipt::Receipt {
    receipt::Receipt {
        id: clock::new_id(),
        app: receipt.app,
        about: ReceiptSubject::Message {
            provider: receipt.provider.to_string(),
            id: receipt.provider_id.clone(),
        },
        answer: receipt.answer.clone(),
        at: clock::now(),
        random: clock::random(),
    }
}

/// Records receipts one by one, so that a receipt that PostgreSQL rejects does not block the others. A rejected receipt is
/// dropped, because PostgreSQL would reject every repetition.
async fn one_by_one(store: &Store, rows: &[receipt::Receipt], policy: &RetryPolicy) -> Vec<RecordResult> {
    let mut recorded = Vec::with_capacity(rows.len());
    for row in rows {
        recorded.push(match store.deliveries().record_receipts(std::slice::from_ref(row), policy).await {
            Ok(_) => RecordResult::Done,
            Err(error) if error.is_refused_data() => {
                tracing::error!(%error, app = %row.app, "PostgreSQL rejected a receipt; dropping it");
                RecordResult::Done
            }
            Err(error) => {
                tracing::warn!(%error, "cannot record a receipt; the message centre will send it again");
                RecordResult::Later
            }
        });
    }
    recorded
}
