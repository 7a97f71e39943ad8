//! Records the results of calls in batches. A batch contains all calls that ended while the previous batch was written.

use std::sync::Arc;
use std::time::Duration;

use store::Store;
use store::webhooks::{AttemptResult, DueMessage, Settlement};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::Settings;

/// A call and its settling together must fit into the time that a stopping process gets before it is killed.
const LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);
/// Pause while another transaction has locked the messages.
const LOCKED_PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(crate) struct Settler {
    ended: mpsc::Sender<EndedCall>,
    /// Time limit that ends no later than the lease of the message.
    limit: Duration,
}

/// Resolves when the attempt is settled, or when its time limit is over.
pub(crate) type Settling = oneshot::Receiver<()>;

struct EndedCall {
    due: DueMessage,
    settled: AttemptResult,
    code: String,
    until: Instant,
    /// Dropped when the attempt is settled, or when its time limit is over.
    _done: oneshot::Sender<()>,
}

/// The task ends when all clones of the settler are dropped and all attempts are settled.
pub(crate) fn settler(
    store: Store,
    settings: Arc<Settings>,
) -> (Settler, impl Future<Output = anyhow::Result<()>>) {
    let most = settings.max_concurrency.max(1);
    let (ended, mut receiver) = mpsc::channel(most);
    let limit = settings.pace.lease.saturating_sub(settings.slot_limit + settings.call_limit).min(LIMIT);
    let task = async move {
        let mut batch = Vec::new();
        while receiver.recv_many(&mut batch, most).await > 0 {
            while !batch.is_empty() {
                if let Some(pause) = write(&store, &settings, &mut batch).await {
                    sleep(pause).await;
                }
                // Add calls that have ended meanwhile. Otherwise they would wait for the attempts that could not be written.
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
    /// Returns None if the settler has stopped; the message is then due again when its lease ends.
    pub(crate) async fn settle(
        &self,
        due: DueMessage,
        settled: AttemptResult,
        code: String,
    ) -> Option<Settling> {
        let (done, settling) = oneshot::channel();
        let ended = EndedCall { due, settled, code, until: Instant::now() + self.limit, _done: done };
        if self.ended.send(ended).await.is_err() {
            tracing::warn!(
                "cannot record the answer to a webhook because the settler has stopped; sending the webhook again when its lease ends"
            );
            return None;
        }
        Some(settling)
    }
}

/// Settles a batch. Returns None if all attempts are settled. Otherwise the remaining attempts stay in `batch`, and the result
/// is the pause before the next try.
async fn write(store: &Store, settings: &Settings, batch: &mut Vec<EndedCall>) -> Option<Duration> {
    let settlements: Vec<_> = batch
        .iter()
        .map(|ended| Settlement { due: &ended.due, settled: ended.settled, answer: &ended.code })
        .collect();
    let written = store.webhooks().settle_webhooks(&settlements, settings.pace).await;
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
            tracing::warn!(id = %ended.due.id, "cannot settle a webhook in time; sending it again when its lease ends");
        }
        is_left && now < ended.until
    });
    (!batch.is_empty()).then_some(pause)
}
