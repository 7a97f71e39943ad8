use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::StateInformationMiddleware;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use moka::future::Cache;

use crate::principal::{Key, Proof};

/// Limit per kind of proof. The key of an evicted bucket gets a new one, which is full.
const CAPACITY: u64 = 100_000;
/// Nothing is lost, because a bucket is full again one second after its last request.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// Each kind of proof has a separate cache of buckets, so that callers without credentials cannot evict those of callers with credentials.
pub struct RateLimits {
    buckets: [Cache<Key, Arc<Bucket>>; Proof::ALL.len()],
}

struct Bucket {
    rate: NonZeroU32,
    limiter: DefaultDirectRateLimiter<StateInformationMiddleware>,
}

#[derive(Clone, Copy, Debug)]
pub struct BucketState {
    /// Requests per second; also the burst size.
    pub limit: u32,
    pub remaining: u32,
    /// Seconds until a request is accepted again; None if this one was.
    pub retry_after: Option<u64>,
}

impl Default for RateLimits {
    fn default() -> RateLimits {
        let buckets =
            Proof::ALL.map(|_| Cache::builder().max_capacity(CAPACITY).time_to_idle(FORGOTTEN_AFTER).build());
        RateLimits { buckets }
    }
}

impl RateLimits {
    pub async fn count(&self, proof: Proof, key: Key, rate: NonZeroU32) -> BucketState {
        self.count_times(NonZeroU32::MIN, proof, key, rate).await
    }

    /// Counts at most `rate` requests, which is the bucket's size.
    pub async fn count_times(
        &self,
        times: NonZeroU32,
        proof: Proof,
        key: Key,
        rate: NonZeroU32,
    ) -> BucketState {
        let buckets = &self.buckets[proof as usize];
        let known = buckets.get(&key).await;
        if let Some(bucket) = known.filter(|bucket| bucket.rate == rate) {
            return bucket.count(times);
        }
        let bucket = Arc::new(Bucket::full(rate));
        buckets.insert(key, bucket.clone()).await;
        bucket.count(times)
    }
}

impl Bucket {
    fn full(rate: NonZeroU32) -> Bucket {
        Bucket { rate, limiter: RateLimiter::direct(Quota::per_second(rate)).with_middleware() }
    }

    fn count(&self, times: NonZeroU32) -> BucketState {
        let limit = self.rate.get();
        match self.limiter.check_n(times.min(self.rate)) {
            Ok(Ok(state)) => {
                BucketState { limit, remaining: state.remaining_burst_capacity(), retry_after: None }
            }
            // Never reached: `times` is at most the bucket's size.
            Err(_) => BucketState { limit, remaining: 0, retry_after: Some(1) },
            Ok(Err(refusal)) => {
                let wait = refusal.wait_time_from(self.limiter.clock().now());
                BucketState { limit, remaining: 0, retry_after: Some(wait.as_secs() + 1) }
            }
        }
    }
}
