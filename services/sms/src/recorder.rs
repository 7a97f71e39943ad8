use std::sync::Arc;

use domain::receipt::{self, IdNotation, ReceiptSubject, ReportedMessage};
use domain::retry::RetryPolicy;
use domain::sms::keyword::Keyword;
use domain::{Answer, AppId};
use service_kit::{Context, clock, metrics};
use store::Store;
use store::deliveries::receipt::ReceiptResult;
use tokio::sync::{mpsc, oneshot};
use worker::Provider;

use crate::connections::Connections;
use crate::keywords::{self, KeywordMessage};
use crate::seldom::Seldom;
use crate::smpp::receipt::DeliveryReceipt;

const QUEUE: usize = 256;
const BATCH: usize = 64;

#[derive(Debug)]
pub struct Receipt {
    pub app: AppId,
    pub provider: Arc<str>,
    pub provider_id: String,
    /// Notation of the ids in the provider's receipts.
    pub notation: IdNotation,
    /// The last four digits of the numbers in the receipt.
    pub number_ends: Vec<String>,
    /// [`Outcome::Sent`](domain::Outcome::Sent) means that the message arrived.
    pub answer: Answer,
    /// Receives the result when the receipt is recorded or recording has failed.
    pub recorded: oneshot::Sender<RecordResult>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordResult {
    /// The provider need not repeat the receipt: it is recorded, or was dropped because PostgreSQL rejected it.
    Done,
    /// The receipt could not be recorded; the provider should repeat it.
    Later,
}

#[derive(Clone)]
pub(crate) struct Post {
    app: AppId,
    provider: Arc<str>,
    receipts: mpsc::Sender<Receipt>,
    keywords: mpsc::Sender<KeywordMessage>,
    problems: Arc<Problems>,
}

#[derive(Default)]
struct Problems {
    unreadable_receipt: Seldom,
    unknown_sender: Seldom,
}

pub(crate) struct Discarded {
    _receipts: mpsc::Receiver<Receipt>,
    _keywords: mpsc::Receiver<KeywordMessage>,
}

impl Post {
    pub(crate) fn new(provider: &Provider, connections: &Connections) -> Post {
        Post {
            app: provider.app,
            provider: provider.identifier.as_str().into(),
            receipts: connections.receipts.clone(),
            keywords: connections.keywords.clone(),
            problems: Arc::default(),
        }
    }

    /// Creates queues whose messages are never recorded, for testing a provider.
    pub(crate) fn discarding() -> (Post, Discarded) {
        let ((receipts, _receipts), (keywords, _keywords)) = (channel(), keywords::channel());
        let problems = Arc::default();
        let post = Post { app: AppId(0), provider: "".into(), receipts, keywords, problems };
        (post, Discarded { _receipts, _keywords })
    }

    /// Completes when the receipt is recorded.
    pub(crate) fn record(
        &self,
        receipt: DeliveryReceipt,
        notation: IdNotation,
        answer: Answer,
    ) -> impl Future<Output = RecordResult> + Send + 'static {
        let (recorded, is_recorded) = oneshot::channel();
        let receipt = Receipt {
            app: self.app,
            provider: self.provider.clone(),
            provider_id: receipt.message_id,
            notation,
            number_ends: receipt.number_ends,
            answer,
            recorded,
        };
        let receipts = self.receipts.clone();
        async move {
            match receipts.send(receipt).await {
                Ok(()) => is_recorded.await.unwrap_or(RecordResult::Later),
                Err(_) => RecordResult::Later,
            }
        }
    }

    /// Completes when the keyword is recorded.
    pub(crate) fn record_keyword(
        &self,
        number: String,
        keyword: Keyword,
    ) -> impl Future<Output = RecordResult> + Send + 'static {
        let (recorded, is_recorded) = oneshot::channel();
        let message =
            KeywordMessage { app: self.app, provider: self.provider.clone(), number, keyword, recorded };
        let keywords = self.keywords.clone();
        async move {
            match keywords.send(message).await {
                Ok(()) => is_recorded.await.unwrap_or(RecordResult::Later),
                Err(_) => RecordResult::Later,
            }
        }
    }

    pub(crate) fn unreadable_receipt(&self) {
        ::metrics::counter!(metrics::RECEIPTS, "result" => "unreadable").increment(1);
        if self.problems.unreadable_receipt.is_due() {
            tracing::warn!(
                app = %self.app, provider = &*self.provider,
                "a receipt has no readable id or state; ignoring receipts of this form"
            );
        }
    }

    pub(crate) fn unknown_sender(&self, keyword: Keyword) {
        ::metrics::counter!(metrics::SMS_KEYWORDS, "keyword" => "unknown_sender").increment(1);
        if self.problems.unknown_sender.is_due() {
            tracing::error!(
                app = %self.app, provider = &*self.provider, keyword = keyword.as_str(),
                "a keyword came from a number without a country code; ignoring it: set settings.countryCode of the provider"
            );
        }
    }
}

pub(crate) fn channel() -> (mpsc::Sender<Receipt>, mpsc::Receiver<Receipt>) {
    mpsc::channel(QUEUE)
}

/// If a receipt arrives before its attempt is settled, the ledger keeps the receipt until then.
pub(crate) async fn record(context: Context, mut receipts: mpsc::Receiver<Receipt>) -> anyhow::Result<()> {
    let policy = RetryPolicy { schedule: context.config.delivery.retry_schedule.clone() };
    let mut batch = Vec::with_capacity(BATCH);
    while receipts.recv_many(&mut batch, BATCH).await > 0 {
        let rows: Vec<_> = batch.iter().map(row).collect();
        let recorded = match context.store.deliveries().record_receipts(&rows, &policy).await {
            Ok(results) => {
                results.iter().copied().for_each(count);
                vec![RecordResult::Done; rows.len()]
            }
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
        about: ReceiptSubject::ReportedMessage(ReportedMessage {
            provider: receipt.provider.to_string(),
            id: receipt.provider_id.clone(),
            notation: receipt.notation,
            number_ends: receipt.number_ends.clone(),
        }),
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
            Ok(results) => {
                results.into_iter().for_each(count);
                RecordResult::Done
            }
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

fn count(result: ReceiptResult) {
    let result = match result {
        ReceiptResult::Settled(_) => "settled",
        ReceiptResult::Unchanged => "unchanged",
        ReceiptResult::Early => "waiting",
    };
    ::metrics::counter!(metrics::RECEIPTS, "result" => result).increment(1);
}
