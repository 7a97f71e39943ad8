//! Default rate limits, and the token buckets of all callers.

use std::num::NonZeroU32;

use actix_web::http::header::{HeaderMap, HeaderName};
use actix_web::{HttpMessage, HttpRequest};
use store::control::app::App;

use crate::failure::Failure;
use fairness::peer::Peer;
use fairness::principal::{Key, Principal, Proof};
use fairness::rate_limit::{BucketState, RateLimits};

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

pub struct Limits {
    buckets: RateLimits,
    /// Buckets for requests with wrong credentials, by peer. They are separate, so that such requests do not use up the limits
    /// of requests with valid credentials.
    refusals: RateLimits,
    /// Buckets for look-ups of unknown API keys and tokens, by peer.
    look_ups: RateLimits,
    per_app: NonZeroU32,
    per_user: NonZeroU32,
    per_peer: NonZeroU32,
    refusals_per_peer: NonZeroU32,
}

impl Limits {
    /// Creates limits in which every bucket is full.
    pub fn new(config: &service_kit::config::Gateway) -> Limits {
        let rate = |rate| NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN);
        Limits {
            buckets: RateLimits::default(),
            refusals: RateLimits::default(),
            look_ups: RateLimits::default(),
            per_app: rate(config.rate_limit),
            per_user: rate(config.user_rate_limit),
            per_peer: rate(config.peer_rate_limit),
            refusals_per_peer: rate(config.refusal_rate_limit),
        }
    }

    /// Counts a request `times` times against each rate limit of its caller. Stops at the first limit that refuses the request
    /// and returns the state of its bucket. If no limit refuses it, returns the state of the bucket with the fewest requests
    /// left; None if the caller has no limit.
    pub async fn count(
        &self,
        times: NonZeroU32,
        principal: Principal,
        app: Option<&App>,
    ) -> Option<BucketState> {
        let mut tightest: Option<BucketState> = None;
        let of_app = app.and_then(|app| app.settings.rate_limit).unwrap_or(self.per_app);
        // One user or one peer may use at most half of the app's limit.
        let half = NonZeroU32::new(of_app.get() / 2).unwrap_or(NonZeroU32::MIN);
        for key in principal.keys() {
            let rate = match key {
                Key::App(_) => of_app,
                Key::User(..) | Key::UserAt(..) => self.per_user.min(half),
                Key::Peer(_) if app.is_some() => self.per_peer.min(half),
                Key::Peer(_) => self.per_peer,
                Key::AdminToken(_) => self.per_user,
                // A provider has no rate limit: any caller without credentials could name the provider and use the limit up.
                Key::Provider(..) => continue,
            };
            let standing = self.buckets.count_times(times, principal.proof(), key, rate).await;
            if standing.retry_after.is_some() {
                return Some(standing);
            }
            if tightest.is_none_or(|tightest| standing.remaining < tightest.remaining) {
                tightest = Some(standing);
            }
        }
        tightest
    }

    /// Counts the look-up of an unknown API key or token. Returns 429 if the peer exceeds its limit.
    pub async fn count_look_up(&self, peer: Peer) -> Result<(), Failure> {
        let look_ups = self.look_ups.count(Proof::Nothing, Key::Peer(peer), self.refusals_per_peer).await;
        limited(look_ups)
    }

    /// Counts a request that fails with 401 against the limit of its peer.
    pub async fn count_refusal(&self, peer: Peer) -> BucketState {
        self.refusals.count(Proof::Nothing, Key::Peer(peer), self.refusals_per_peer).await
    }
}

/// Adds the headers `RateLimit-*` to an answer. `RateLimit-Reset` is 1 second or less, because a bucket refills within a second.
pub fn add_headers(standing: BucketState, headers: &mut HeaderMap) {
    let reset = u32::from(standing.remaining < standing.limit);
    headers.insert(LIMIT, standing.limit.into());
    headers.insert(REMAINING, standing.remaining.into());
    headers.insert(RESET, reset.into());
}

/// Adds the headers `RateLimit-*` to an answer if the request was counted.
pub fn add_headers_of(request: &HttpRequest, headers: &mut HeaderMap) {
    if let Some(standing) = request.extensions().get::<BucketState>().copied() {
        add_headers(standing, headers);
    }
}

/// Returns 429 if the bucket refused the request.
pub fn limited(standing: BucketState) -> Result<(), Failure> {
    standing.retry_after.map_or(Ok(()), |seconds| Err(Failure::Limited { seconds }))
}
