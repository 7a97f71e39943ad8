//! Admission of a request by the rate limits of its holder, and what holds for it whatever it is answered.

use std::cell::Ref;
use std::num::NonZeroU32;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::http::header::ORIGIN;
use actix_web::{HttpMessage, HttpRequest};
use domain::AppId;
use store::control::app::App;

use crate::gateway::Gateway;
use crate::http::failure::Failure;
use crate::http::rate_limit::{RateLimits, Standing};
use crate::shares::holder::{Holder, Key, Proof};
use crate::shares::peer::Peer;
use crate::waiting::continue_as;

/// The app that a request's credentials name, proven or not.
pub(crate) struct Admission {
    app: Arc<App>,
}

/// Rate limits that are not an app's own, and the buckets of all.
pub(crate) struct Limits {
    buckets: RateLimits,
    /// Requests with wrong credentials. A separate limit, so that it takes nothing from good ones.
    refusals: RateLimits,
    /// Look-ups of API keys that are not known.
    look_ups: RateLimits,
    per_app: NonZeroU32,
    per_user: NonZeroU32,
    per_peer: NonZeroU32,
    refusals_per_peer: NonZeroU32,
}

impl Limits {
    /// Every bucket is full.
    pub(crate) fn new(config: &service_kit::config::Gateway) -> Limits {
        let rate = |rate| NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN);
        Limits {
            buckets: RateLimits::new(),
            refusals: RateLimits::new(),
            look_ups: RateLimits::new(),
            per_app: rate(config.rate_limit),
            per_user: rate(config.user_rate_limit),
            per_peer: rate(config.peer_rate_limit),
            refusals_per_peer: rate(config.refusal_rate_limit),
        }
    }

    /// Counts a request so many `times` against every limit of its holder, up to the first that refuses it. Returns the
    /// state of the bucket with the least left.
    async fn count(&self, times: NonZeroU32, holder: Holder, app: Option<&App>) -> Option<Standing> {
        let mut tightest: Option<Standing> = None;
        let of_app = app.and_then(|app| app.rate_limit).unwrap_or(self.per_app);
        // One user or one peer never spends all that the users of an app have together.
        let half = NonZeroU32::new(of_app.get() / 2).unwrap_or(NonZeroU32::MIN);
        for key in holder.keys() {
            let rate = match key {
                Key::App(_) => of_app,
                Key::User(..) | Key::UserAt(..) => self.per_user.min(half),
                Key::Peer(_) if app.is_some() => self.per_peer.min(half),
                Key::Peer(_) => self.per_peer,
                // Any stranger can name a provider.
                Key::Provider(..) => continue,
            };
            let standing = self.buckets.count_times(times, holder.proof(), key, rate).await;
            if standing.retry_after.is_some() {
                return Some(standing);
            }
            if tightest.is_none_or(|tightest| standing.remaining < tightest.remaining) {
                tightest = Some(standing);
            }
        }
        tightest
    }

    /// Counts the look-up of an API key that is not known.
    pub(crate) async fn count_look_up(&self, peer: Peer) -> Result<(), Failure> {
        let look_ups = self.look_ups.count(Proof::Nothing, Key::Peer(peer), self.refusals_per_peer).await;
        limited(look_ups)
    }
}

impl Gateway {
    /// Counts a request whose credentials are good, and gives it the shares of its holder.
    pub(crate) async fn admit(
        &self,
        request: &HttpRequest,
        holder: Holder,
        app: &App,
    ) -> Result<(), Failure> {
        if holder.has_secret() {
            self.connections.know(Peer::of_request(request)).await;
        }
        request.extensions_mut().insert(holder);
        continue_as(holder);
        self.count(NonZeroU32::MIN, request, holder, Some(app)).await
    }

    /// Counts a request that needs no credentials, or whose signature is verified later.
    pub(crate) async fn admit_stranger(&self, request: &HttpRequest, holder: Holder) -> Result<(), Failure> {
        request.extensions_mut().insert(holder);
        self.count(NonZeroU32::MIN, request, holder, None).await
    }

    /// Counts an expensive request `times` more against the rate limits. Requests with the secret are not charged.
    pub(crate) async fn charge(
        &self,
        request: &HttpRequest,
        holder: Holder,
        times: usize,
    ) -> Result<(), Failure> {
        let times = NonZeroU32::new(u32::try_from(times).unwrap_or(u32::MAX));
        let Some(times) = times.filter(|_| !holder.has_secret()) else { return Ok(()) };
        let admission = Admission::of(request).map(|admission| Arc::clone(&admission.app));
        let app = admission.filter(|_| holder.proof() != Proof::Nothing);
        self.count(times, request, holder, app.as_deref()).await
    }

    async fn count(
        &self,
        times: NonZeroU32,
        request: &HttpRequest,
        holder: Holder,
        app: Option<&App>,
    ) -> Result<(), Failure> {
        let Some(standing) = self.limits.count(times, holder, app).await else { return Ok(()) };
        request.extensions_mut().insert(standing);
        limited(standing)
    }

    /// Counts a request whose credentials are not good, by its peer alone: it costs the app nothing. Returns 429 once
    /// too many came, and `failure` until then.
    pub(crate) async fn refuse(&self, request: &HttpRequest, failure: Failure) -> Failure {
        let is_refusal =
            matches!(&failure, Failure::Refused { status, .. } if *status == StatusCode::UNAUTHORIZED);
        if !is_refusal {
            return failure;
        }
        let (key, rate) = (Key::Peer(Peer::of_request(request)), self.limits.refusals_per_peer);
        let standing = self.limits.refusals.count(Proof::Nothing, key, rate).await;
        request.extensions_mut().insert(standing);
        limited(standing).err().unwrap_or(failure)
    }
}

fn limited(standing: Standing) -> Result<(), Failure> {
    standing.retry_after.map_or(Ok(()), |seconds| Err(Failure::Limited { seconds }))
}

impl Admission {
    /// Notes the app that a request's credentials name.
    pub(crate) fn note(request: &HttpRequest, app: Arc<App>) {
        request.extensions_mut().insert(Admission { app });
    }

    /// Returns true if scripts of the request's origin may call for the app's users: not if the app lists its origins and
    /// this is not one of them. A request without an origin does not come from a script of another site.
    pub(crate) fn admits_origin(request: &HttpRequest) -> bool {
        let Some(origin) = request.headers().get(ORIGIN) else { return true };
        let admission = Admission::of(request);
        let origins = admission.as_ref().and_then(|admission| admission.app.cors_origins.as_deref());
        origins.is_none_or(|origins| {
            origins.iter().any(|allowed| origin.as_bytes().eq_ignore_ascii_case(allowed.as_bytes()))
        })
    }

    /// Returns true if the app lists the origins of its pages.
    pub(crate) fn names_origins(&self) -> bool {
        self.app.cors_origins.is_some()
    }

    /// The app's number.
    pub(crate) fn app(&self) -> AppId {
        self.app.id
    }

    /// Sends per second in the transactional lane, if the app has its own rate.
    pub(crate) fn transactional_rate(&self) -> Option<NonZeroU32> {
        self.app.transactional_rate
    }

    /// Facts about a request; None if its credentials name no app, or are not needed.
    pub(crate) fn of(request: &HttpRequest) -> Option<Ref<'_, Admission>> {
        Ref::filter_map(request.extensions(), |extensions| extensions.get()).ok()
    }
}
