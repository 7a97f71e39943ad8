//! Rate limiting of requests, and the app that the API key of a request names.

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
use crate::http::limits::limited;
use crate::http::shares::holder::{Holder, Proof};
use crate::http::shares::peer::Peer;
use crate::http::waiting::continue_as;
use crate::sends::volume::Limits;

/// The app that the API key of a request names. The other credentials may still be missing, unverified or wrong.
pub(crate) struct RequestApp {
    app: Arc<App>,
}

impl Gateway {
    /// Counts a request with valid credentials against the rate limits of `holder`. From then on, the request's memory and its
    /// waits for the database and the log are charged to `holder`. 429 if a rate limit is exceeded.
    pub(crate) async fn admit(
        &self,
        request: &HttpRequest,
        holder: Holder,
        app: &App,
    ) -> Result<(), Failure> {
        if holder.has_secret() {
            self.connections.remember(Peer::of_request(request)).await;
        }
        request.extensions_mut().insert(holder);
        continue_as(holder);
        self.count(NonZeroU32::MIN, request, holder, Some(app)).await
    }

    /// Counts a request that needs no credentials, or whose signature is verified later, against the rate limits of `holder`.
    /// 429 if a rate limit is exceeded.
    pub(crate) async fn admit_stranger(&self, request: &HttpRequest, holder: Holder) -> Result<(), Failure> {
        request.extensions_mut().insert(holder);
        self.count(NonZeroU32::MIN, request, holder, None).await
    }

    /// Counts an expensive request `times` additional times against the rate limits of `holder`. Requests with the API secret
    /// are exempt. 429 if a rate limit is exceeded.
    pub(crate) async fn charge(
        &self,
        request: &HttpRequest,
        holder: Holder,
        times: usize,
    ) -> Result<(), Failure> {
        let times = NonZeroU32::new(u32::try_from(times).unwrap_or(u32::MAX));
        let Some(times) = times.filter(|_| !holder.has_secret()) else { return Ok(()) };
        let request_app = RequestApp::of(request).map(|request_app| Arc::clone(&request_app.app));
        let app = request_app.filter(|_| holder.proof() != Proof::Nothing);
        // Boxed, like other rare steps, to keep the futures of the usual requests small.
        Box::pin(self.count(times, request, holder, app.as_deref())).await
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

    /// Counts a request that fails with 401 against the limit of its peer, not of the app. Returns 429 if the peer exceeds that
    /// limit, and `failure` otherwise. Other failures are returned uncounted.
    pub(crate) async fn refuse(&self, request: &HttpRequest, failure: Failure) -> Failure {
        let is_refusal =
            matches!(&failure, Failure::Refused { status, .. } if *status == StatusCode::UNAUTHORIZED);
        if !is_refusal {
            return failure;
        }
        let standing = self.limits.count_refusal(Peer::of_request(request)).await;
        request.extensions_mut().insert(standing);
        limited(standing).err().unwrap_or(failure)
    }
}

impl RequestApp {
    /// Stores in the request's extensions the app that its API key names.
    pub(crate) fn note(request: &HttpRequest, app: Arc<App>) {
        request.extensions_mut().insert(RequestApp { app });
    }

    /// Returns true if scripts of the request's origin may make calls for users of the app. False only if the app has a list of
    /// allowed origins and this origin is not in it. A request without `Origin` is allowed, because it does not come from a
    /// script of another site.
    pub(crate) fn admits_origin(request: &HttpRequest) -> bool {
        let Some(origin) = request.headers().get(ORIGIN) else { return true };
        let request_app = RequestApp::of(request);
        let origins = request_app.as_ref().and_then(|request_app| request_app.app.cors_origins.as_deref());
        origins.is_none_or(|origins| {
            origins.iter().any(|allowed| origin.as_bytes().eq_ignore_ascii_case(allowed.as_bytes()))
        })
    }

    /// Returns true if the app has a list of allowed origins.
    pub(crate) fn names_origins(&self) -> bool {
        self.app.cors_origins.is_some()
    }

    pub(crate) fn app(&self) -> AppId {
        self.app.id
    }

    /// Returns the app's own limit of transactional sends per second; None if the default applies.
    pub(crate) fn transactional_rate(&self) -> Option<NonZeroU32> {
        self.app.transactional_rate
    }

    /// Returns the app's own limits of bytes per day.
    pub(crate) fn volume_limits(&self) -> Limits {
        [self.app.max_send_megabytes, self.app.max_file_megabytes]
    }

    /// Returns the app of a request; None if the request has no known API key, or if its handler reads no credentials.
    pub(crate) fn of(request: &HttpRequest) -> Option<Ref<'_, RequestApp>> {
        Ref::filter_map(request.extensions(), |extensions| extensions.get()).ok()
    }
}
