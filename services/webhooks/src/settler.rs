//! Settling what calls came to: all that ended while the batch before was written.

use std::sync::Arc;
use std::time::Duration;

use store::Store;
use store::webhooks::{Due, Settled, Settlement};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::Settings;

/// How long to try to settle; with the call it must fit into the time that a process has to stop.
const LIMIT: Duration = Duration::from_secs(10);
/// Between two tries to settle after a failure of the database.
const PAUSE: Duration = Duration::from_millis(500);
/// Before another try at messages that another transaction has locked.
const LOCKED_PAUSE: Duration = Duration::from_millis(20);

/// The way to the task that settles.
#[derive(Clone)]
pub(crate) struct Settler {
    ended: mpsc::Sender<EndedCall>,
    /// How long an attempt may take to be settled: the message is ours for no longer.
    limit: Duration,
}

/// An attempt that ended.
struct EndedCall {
    due: Due,
    settled: Settled,
    code: String,
    until: Instant,
    /// Dropped when nothing is left to do.
    _done: oneshot::Sender<()>,
}

/// A settler, and the task behind it, which ends when the last clone of the settler is dropped and all is settled.
pub(crate) fn settler(
    store: Store,
    settings: Arc<Settings>,
) -> (Settler, impl Future<Output = anyhow::Result<()>>) {
    let most = settings.max_concurrency.max(1);
    let (ended, mut receiver) = mpsc::channel(most);
    let limit = settings.pace.lease.saturating_sub(settings.call_limit).min(LIMIT);
    let task = async move {
        let mut batch = Vec::new();
        while receiver.recv_many(&mut batch, most).await > 0 {
            while !batch.is_empty() {
                if let Some(pause) = write(&store, &settings, &mut batch).await {
                    sleep(pause).await;
                }
                // What ended meanwhile does not wait for what could not be written.
                while let Ok(ended) = receiver.try_recv() {
                    batch.push(ended);
                }
            }
        }
        Ok(())
    };
    (Settler { ended, limit }, task)
}

impl Settler {
    /// Returns when the attempt is settled, or is no longer this process's to settle.
    pub(crate) async fn settle(&self, due: Due, settled: Settled, code: String) {
        let (done, settling) = oneshot::channel();
        let ended = EndedCall { due, settled, code, until: Instant::now() + self.limit, _done: done };
        if self.ended.send(ended).await.is_err() {
            return tracing::warn!("settling has ended; the webhook is told again");
        }
        // It is dropped, never sent.
        drop(settling.await);
    }
}

/// Settles a batch. What is left in it comes again, after the pause that is returned.
async fn write(store: &Store, settings: &Settings, batch: &mut Vec<EndedCall>) -> Option<Duration> {
    let settlements: Vec<_> = batch
        .iter()
        .map(|ended| Settlement { due: &ended.due, settled: ended.settled, answer: &ended.code })
        .collect();
    let written = store.settle_webhooks(&settlements, settings.pace).await;
    let (left, pause) = match written {
        Ok(locked) => (locked, LOCKED_PAUSE),
        Err(error) => {
            tracing::warn!(webhooks = batch.len(), %error, "cannot settle webhooks; trying again");
            ((0..batch.len()).collect(), PAUSE)
        }
    };
    let now = Instant::now();
    let mut index = 0;
    batch.retain(|ended| {
        let is_left = left.binary_search(&index).is_ok();
        index += 1;
        if is_left && now >= ended.until {
            tracing::warn!(id = %ended.due.id, "cannot settle a webhook; it is told again");
        }
        is_left && now < ended.until
    });
    (!batch.is_empty()).then_some(pause)
}
