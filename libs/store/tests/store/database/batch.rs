//! Batches of the queries of concurrent callers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use store::Error;
use store::database::batch::Batcher;
use testkit::eventually;
use tokio::sync::Semaphore;

use crate::LIMIT;

/// A batcher that doubles numbers. It runs one batch per permit, and fails each batch that contains 13.
struct Doubling {
    batcher: Batcher<u32, u32>,
    permits: Arc<Semaphore>,
    batches: Arc<Mutex<Vec<Vec<u32>>>>,
}

impl Doubling {
    fn start(most: usize) -> Self {
        let (permits, batches) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (gate, seen) = (Arc::clone(&permits), Arc::clone(&batches));
        let (batcher, running) = Batcher::new(most, move |queries: Vec<u32>| {
            let gate = Arc::clone(&gate);
            seen.lock().unwrap().push(queries.clone());
            async move {
                gate.acquire().await.unwrap().forget();
                if queries.contains(&13) {
                    return Err(Error::Unreadable("13".to_owned()));
                }
                Ok(queries.into_iter().map(|query| query * 2).collect())
            }
        });
        tokio::spawn(running);
        Doubling { batcher, permits, batches }
    }

    fn batches(&self) -> Vec<Vec<u32>> {
        self.batches.lock().unwrap().clone()
    }

    fn call(&self, query: u32) -> tokio::task::JoinHandle<Result<u32, Error>> {
        let batcher = self.batcher.clone();
        tokio::spawn(async move { batcher.call(query).await })
    }

    /// Starts a call and waits until its batch runs, so that later calls wait in the queue.
    async fn hold(&self) -> tokio::task::JoinHandle<Result<u32, Error>> {
        let first = self.call(0);
        eventually(LIMIT, "the first call is running", async || (!self.batches().is_empty()).then_some(()))
            .await;
        first
    }
}

#[tokio::test]
async fn callers_at_the_same_time_share_statements_and_get_their_own_answers() {
    let doubling = Doubling::start(40);
    let first = doubling.hold().await;
    let calls: Vec<_> = (101..=200).map(|query| doubling.call(query)).collect();
    tokio::task::yield_now().await;
    doubling.permits.add_permits(100);
    assert_eq!(first.await.unwrap().unwrap(), 0);
    for (query, call) in (101..=200).zip(calls) {
        assert_eq!(call.await.unwrap().unwrap(), query * 2);
    }
    let sizes: Vec<_> = doubling.batches().iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 40, 40, 20]);
}

#[tokio::test]
async fn an_error_reaches_all_callers_of_its_batch_and_no_others() {
    let doubling = Doubling::start(40);
    let first = doubling.hold().await;
    let calls = [12, 13, 14].map(|query| doubling.call(query));
    tokio::task::yield_now().await;
    doubling.permits.add_permits(3);
    assert_eq!(first.await.unwrap().unwrap(), 0);
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::Batch(cause) if cause.to_string().contains("13")), "{error}");
        assert!(!error.is_unavailable(), "a failed batch is not an outage");
    }
    assert_eq!(doubling.batcher.call(15).await.unwrap(), 30);
}

#[tokio::test]
async fn a_cancelled_caller_does_not_affect_others() {
    let doubling = Doubling::start(40);
    let first = doubling.hold().await;
    let calls = [1, 2, 3].map(|query| doubling.call(query));
    tokio::task::yield_now().await;
    calls[1].abort();
    tokio::task::yield_now().await;
    doubling.permits.add_permits(2);
    let [one, two, three] = calls;
    assert!(two.await.unwrap_err().is_cancelled());
    assert_eq!((one.await.unwrap().unwrap(), three.await.unwrap().unwrap()), (2, 6));
    assert_eq!(doubling.batches(), [vec![0], vec![1, 3]]);

    first.await.unwrap().unwrap();
    doubling.batches.lock().unwrap().clear();
    let held = doubling.hold().await;
    held.abort();
    assert!(held.await.unwrap_err().is_cancelled());
    doubling.permits.add_permits(2);
    assert_eq!(doubling.batcher.call(4).await.unwrap(), 8, "a cancelled caller does not block later calls");
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_three_seconds_at_most() {
    let doubling = Doubling::start(1);
    let error = doubling.batcher.call(1).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
}

#[tokio::test]
async fn callers_get_an_error_after_the_task_has_ended() {
    let (batcher, running) = Batcher::<u32, u32>::new(1, |_| async { Ok(Vec::new()) });
    drop(running);
    assert!(batcher.call(1).await.unwrap_err().is_unavailable());
    let (batcher, running) = Batcher::<u32, u32>::new(1, |_| async { Ok(Vec::new()) });
    let running = tokio::spawn(running);
    assert!(batcher.call(1).await.is_err(), "the batch returned no answer for the query");
    drop(batcher);
    tokio::time::timeout(LIMIT, running).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_few_queries_waits_for_others() {
    let (batches, wait) = (Arc::new(Mutex::new(Vec::new())), Duration::from_secs(1));
    let seen = Arc::clone(&batches);
    let (batcher, running) = Batcher::gathering(40, wait, move |queries: Vec<u32>| {
        seen.lock().unwrap().push(queries.clone());
        async move { Ok(queries) }
    });
    tokio::spawn(running);
    let call = |query| {
        tokio::spawn({
            let batcher = batcher.clone();
            async move { batcher.call(query).await }
        })
    };
    let first = call(1);
    // The first query waits in its batch.
    tokio::task::yield_now().await;
    tokio::time::advance(wait / 2).await;
    assert!(batches.lock().unwrap().is_empty());
    let second = call(2);
    assert_eq!((first.await.unwrap().unwrap(), second.await.unwrap().unwrap()), (1, 2));
    assert_eq!(*batches.lock().unwrap(), [[1, 2]]);

    let began = tokio::time::Instant::now();
    let many: Vec<_> = (0..40).map(call).collect();
    for (query, call) in (0..).zip(many) {
        assert_eq!(call.await.unwrap().unwrap(), query);
    }
    assert!(began.elapsed() < wait, "a batch of many queries does not wait");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_never_answered_ends_and_the_next_one_runs() {
    let (batcher, running) = Batcher::new(8, move |queries: Vec<u32>| async move {
        if queries.contains(&0) {
            std::future::pending::<()>().await;
        }
        Ok(queries)
    });
    tokio::spawn(running);
    let batcher = batcher.with_limit(Duration::from_secs(3_600));
    assert!(batcher.call(0).await.unwrap_err().is_unanswered());
    assert_eq!(batcher.call(7).await.unwrap(), 7);
}
