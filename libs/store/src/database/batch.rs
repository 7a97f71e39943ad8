use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::Error;
use crate::database::connection::answered;

/// Includes the time that the query waits in the queue.
const CALL_LIMIT: Duration = Duration::from_secs(3);

struct Call<Q, A> {
    query: Q,
    answer: oneshot::Sender<Result<A, Error>>,
}

/// Number of queries from which a batch does not wait for more.
const MANY: usize = 16;

/// Collects the queries of concurrent callers and runs them in batches. While a batch runs, new queries wait for the next
/// batch, so batches grow with the load. If no batch is running, a query runs at once, or after the time for which it waits for others.
#[derive(Debug)]
pub struct Batcher<Q, A> {
    calls: mpsc::Sender<Call<Q, A>>,
    limit: Duration,
}

impl<Q, A> Clone for Batcher<Q, A> {
    fn clone(&self) -> Self {
        Batcher { calls: self.calls.clone(), limit: self.limit }
    }
}

impl<Q: Send + 'static, A: Send + 'static> Batcher<Q, A> {
    /// Also returns the task that runs the batches. The caller must spawn it; it ends when the last clone of the batcher is dropped.
    ///
    /// `run` must return one answer per query, in the order of the queries.
    pub fn new<F, Fut>(most: usize, run: F) -> (Self, impl Future<Output = ()> + Send)
    where
        F: Fn(Vec<Q>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Vec<A>, Error>> + Send,
    {
        Batcher::gathering(most, Duration::ZERO, run)
    }

    /// Like [`new`](Self::new), but a batch of few queries waits for others, for at most `wait`.
    pub fn gathering<F, Fut>(most: usize, wait: Duration, run: F) -> (Self, impl Future<Output = ()> + Send)
    where
        F: Fn(Vec<Q>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Vec<A>, Error>> + Send,
    {
        let (calls, mut waiting) = mpsc::channel::<Call<Q, A>>(most * 4);
        let task = async move {
            let mut batch = Vec::with_capacity(most);
            while waiting.recv_many(&mut batch, most).await > 0 {
                gather(&mut waiting, &mut batch, most, wait).await;
                let (queries, answers): (Vec<_>, Vec<_>) = batch
                    .drain(..)
                    .filter(|call| !call.answer.is_closed())
                    .map(|call| (call.query, call.answer))
                    .unzip();
                if !queries.is_empty() {
                    deliver(answers, answered(run(queries)).await);
                }
            }
        };
        (Batcher { calls, limit: CALL_LIMIT }, task)
    }

    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Batcher { limit, ..self }
    }

    /// Runs one query as part of a batch. After a timeout ([`Error::Unanswered`]), the query may still run.
    pub async fn call(&self, query: Q) -> Result<A, Error> {
        let (answer, answered) = oneshot::channel();
        let exchange = async {
            self.calls.send(Call { query, answer }).await.map_err(|_| task_ended())?;
            answered.await.map_err(|_| task_ended())?
        };
        match timeout(self.limit, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::Unanswered("the batch timed out")),
        }
    }
}

async fn gather<T>(waiting: &mut mpsc::Receiver<T>, batch: &mut Vec<T>, most: usize, wait: Duration) {
    let until = Instant::now() + wait;
    while !wait.is_zero() && batch.len() < MANY.min(most) {
        match timeout_at(until, waiting.recv_many(batch, most - batch.len())).await {
            Ok(received) if received > 0 => {}
            _ => return,
        }
    }
}

fn task_ended() -> Error {
    Error::Unanswered("the batching task has ended")
}

fn deliver<A>(callers: Vec<oneshot::Sender<Result<A, Error>>>, outcome: Result<Vec<A>, Error>) {
    let answers: Box<dyn Iterator<Item = Result<A, Error>>> = match outcome {
        Ok(answers) => Box::new(answers.into_iter().map(Ok)),
        Err(error) => {
            let cause = Arc::new(error);
            Box::new(std::iter::repeat_with(move || Err(Error::Batch(Arc::clone(&cause)))))
        }
    };
    for (caller, answer) in callers.into_iter().zip(answers) {
        // `send` fails only if the caller has stopped waiting.
        drop(caller.send(answer));
    }
}
