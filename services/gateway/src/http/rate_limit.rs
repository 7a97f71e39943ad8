//! How often an app may do something: a bucket for each app, which refills as time passes.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{HeaderMap, HeaderName};
use domain::AppId;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use moka::future::Cache;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Buckets remembered. An app whose bucket is forgotten starts with a full one.
const CAPACITY: u64 = 100_000;
/// A bucket is full again a second after its last request, and then as good as a new one.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// The buckets of all apps, for one gateway.
pub(crate) struct RateLimits {
    /// Times a second, for apps without a rate of their own.
    default: NonZeroU32,
    buckets: Cache<AppId, Arc<Bucket>>,
}

struct Bucket {
    rate: NonZeroU32,
    limiter: DefaultDirectRateLimiter<StateInformationMiddleware>,
}

/// Where an app stands after one of its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Requests a second, and so at once.
    limit: u32,
    /// Requests that it could make at once.
    remaining: u32,
    /// Seconds until a request is taken again, where this one is not.
    pub(crate) retry_after: Option<u64>,
}

impl RateLimits {
    /// Every bucket is full. `default` is at least 1.
    pub(crate) fn new(default: u32) -> RateLimits {
        let default = NonZeroU32::new(default).unwrap_or(NonZeroU32::MIN);
        let buckets = Cache::builder().max_capacity(CAPACITY).time_to_idle(FORGOTTEN_AFTER).build();
        RateLimits { default, buckets }
    }

    /// Counts once for an app, which may have a rate of its own.
    pub(crate) async fn count(&self, app: AppId, own: Option<NonZeroU32>) -> Standing {
        let rate = own.unwrap_or(self.default);
        let known = self.buckets.get(&app).await;
        if let Some(bucket) = known.filter(|bucket| bucket.rate == rate) {
            return bucket.count();
        }
        let bucket = Arc::new(Bucket::full(rate));
        self.buckets.insert(app, bucket.clone()).await;
        bucket.count()
    }
}

impl Bucket {
    fn full(rate: NonZeroU32) -> Bucket {
        Bucket { rate, limiter: RateLimiter::direct(Quota::per_second(rate)).with_middleware() }
    }

    fn count(&self) -> Standing {
        let limit = self.rate.get();
        match self.limiter.check() {
            Ok(state) => Standing { limit, remaining: state.remaining_burst_capacity(), retry_after: None },
            Err(refusal) => {
                let wait = refusal.wait_time_from(DefaultClock::default().now());
                Standing { limit, remaining: 0, retry_after: Some(wait.as_secs() + 1) }
            }
        }
    }
}

impl Standing {
    /// Adds `RateLimit-*` to an answer. A bucket is full again within a second.
    pub(crate) fn add(self, headers: &mut HeaderMap) {
        let reset = u32::from(self.remaining < self.limit);
        headers.insert(LIMIT, self.limit.into());
        headers.insert(REMAINING, self.remaining.into());
        headers.insert(RESET, reset.into());
    }
}
