//! Limits that count every request: rate, memory, waiting time and connections. Also the app that its API key names.

use std::cell::Ref;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServiceRequest;
use actix_web::http::StatusCode;
use actix_web::http::header::ORIGIN;
use actix_web::web::Data;
use actix_web::{HttpMessage, HttpRequest};
use domain::AppId;
use service_kit::{Context, Network};
use store::control::app::App;
use tokio_util::sync::CancellationToken;

use crate::connections::Connections;
use crate::failure::Failure;
use crate::limits::{Limits, limited};
use crate::peer;
use fairness::peer::Peer;
use fairness::principal::{Principal, Proof};
use fairness::quota::{FOR_STRANGERS, PARTS, Quota};
use fairness::waiting::{WaitQuota, continue_as};

/// Limit, in KiB, on the memory of all request bodies in progress: the received bytes plus the parsed JSON.
pub const BODY_ROOM: usize = 128 * 1024;
/// Limit, in KiB, on the memory of all callback bodies in progress. It is separate because a callback's signature can only be
/// verified after its body was read.
pub const CALLBACK_ROOM: usize = 4 * 1024;
/// Limit, in KiB, on the memory for the parts of all bodies in progress that exceed `MAX_BODY`. Only bodies with files may exceed
/// it. While a file is decoded and written to the database, it occupies about three times the counted memory.
pub const FILE_ROOM: usize = 64 * 1024;
/// Limit, in KiB, on the memory of all large answers that clients have not finished reading.
pub const ANSWER_ROOM: usize = 64 * 1024;

/// Limits that all requests of a process share, divided among the callers. It is app data of the server.
pub struct Admission {
    pub limits: Limits,
    pub connections: Connections,
    pub waiting_room: WaitQuota,
    /// Cancelled when the process starts to stop. From then on, every answer closes its connection.
    pub stopping: CancellationToken,
    trusted_proxies: Vec<Network>,
    pub(crate) bodies: Quota,
    pub(crate) callbacks: Quota,
    pub(crate) files: Quota,
    pub(crate) answers: Quota,
}

/// The app that the API key of a request names. The other credentials may still be missing, unverified or wrong.
pub struct RequestApp {
    app: Arc<App>,
}

impl Admission {
    /// Builds the limits, and starts the task that closes idle connections, until `served` is cancelled.
    #[must_use]
    pub fn start(context: &Context, served: &CancellationToken) -> Data<Admission> {
        let admission = Admission::new(context, &context.config.gateway.trusted_proxies);
        context.spawn("idle connections", admission.connections.clone().sweep_until(served.clone()));
        Data::new(admission)
    }

    /// Builds the limits of a server that only programs with tokens of the admin API call. It limits its connections itself.
    #[must_use]
    pub fn of_admin_api(context: &Context) -> Data<Admission> {
        Data::new(Admission::new(context, &context.config.console.proxy_from))
    }

    fn new(context: &Context, trusted_proxies: &[Network]) -> Admission {
        let gateway = &context.config.gateway;
        Admission {
            limits: Limits::new(gateway),
            connections: Connections::new(gateway),
            waiting_room: WaitQuota::new(gateway.waiting_room, context.config.database.max_connections),
            stopping: context.tasks.token().clone(),
            trusted_proxies: trusted_proxies.to_vec(),
            bodies: Quota::new(BODY_ROOM, PARTS),
            callbacks: Quota::new(CALLBACK_ROOM, FOR_STRANGERS),
            files: Quota::new(FILE_ROOM, PARTS),
            answers: Quota::new(ANSWER_ROOM, PARTS),
        }
    }

    pub fn of(request: &HttpRequest) -> Result<&Data<Admission>, Failure> {
        let admission = request.app_data::<Data<Admission>>();
        admission.ok_or_else(|| Failure::Defect("the server was built without an admission".to_owned()))
    }

    /// Returns the peer of a request, behind the trusted proxies.
    pub fn peer(&self, request: &ServiceRequest) -> Peer {
        peer::behind(&self.trusted_proxies, request.peer_addr(), request.headers())
    }

    /// Counts a request with valid credentials against the rate limits of `principal`. From then on, the request's memory and its
    /// waits for the database and the log are charged to `principal`. 429 if a rate limit is exceeded.
    pub async fn admit(&self, request: &HttpRequest, principal: Principal, app: &App) -> Result<(), Failure> {
        if principal.has_secret() {
            self.connections.remember(peer::of_request(request)).await;
        }
        request.extensions_mut().insert(principal);
        continue_as(principal);
        self.count(NonZeroU32::MIN, request, principal, Some(app)).await
    }

    /// Counts a request with a valid token of the admin API against the rate limit of the token. 429 if it is exceeded.
    pub async fn admit_token(&self, request: &HttpRequest, token: i64) -> Result<(), Failure> {
        let principal = Principal::admin_token(token);
        request.extensions_mut().insert(principal);
        continue_as(principal);
        self.count(NonZeroU32::MIN, request, principal, None).await
    }

    /// Counts the look-up of credentials that were not valid before against the limit of the request's peer. 429 if it is exceeded.
    pub async fn count_look_up(&self, request: &HttpRequest) -> Result<(), Failure> {
        self.limits.count_look_up(peer::of_request(request)).await
    }

    /// Answers a request whose caller is not known yet. Its waits are charged to its peer, until a call of this type admits the caller; all waits
    /// together take at most `limit`.
    pub async fn serve<T>(
        &self,
        limit: Duration,
        request: &HttpRequest,
        answer: impl Future<Output = T>,
    ) -> T {
        let stranger = Principal::stranger(peer::of_request(request));
        self.waiting_room.serve_within(limit, stranger, answer).await
    }

    /// Notes the peer of a request, behind the trusted proxies.
    pub fn note_peer(&self, request: &HttpRequest) {
        let peer = peer::behind(&self.trusted_proxies, request.peer_addr(), request.headers());
        request.extensions_mut().insert(peer);
    }

    /// Counts a request that needs no credentials, or whose signature is verified later, against the rate limits of `principal`.
    /// 429 if a rate limit is exceeded.
    pub async fn admit_stranger(&self, request: &HttpRequest, principal: Principal) -> Result<(), Failure> {
        request.extensions_mut().insert(principal);
        self.count(NonZeroU32::MIN, request, principal, None).await
    }

    /// Counts an expensive request `times` additional times against the rate limits of `principal`. Requests with the API secret
    /// are exempt. 429 if a rate limit is exceeded.
    pub async fn charge(
        &self,
        request: &HttpRequest,
        principal: Principal,
        times: usize,
    ) -> Result<(), Failure> {
        let times = NonZeroU32::new(u32::try_from(times).unwrap_or(u32::MAX));
        let Some(times) = times.filter(|_| !principal.has_secret()) else { return Ok(()) };
        let request_app = RequestApp::of(request).map(|request_app| Arc::clone(&request_app.app));
        let app = request_app.filter(|_| principal.proof() != Proof::Nothing);
        // Boxed, like other rare steps, to keep the futures of the usual requests small.
        Box::pin(self.count(times, request, principal, app.as_deref())).await
    }

    async fn count(
        &self,
        times: NonZeroU32,
        request: &HttpRequest,
        principal: Principal,
        app: Option<&App>,
    ) -> Result<(), Failure> {
        let Some(standing) = self.limits.count(times, principal, app).await else { return Ok(()) };
        request.extensions_mut().insert(standing);
        limited(standing)
    }

    /// Counts a request that fails with 401 against the limit of its peer, not of the app. Returns 429 if the peer exceeds that
    /// limit, and `failure` otherwise. Other failures are returned uncounted.
    pub async fn refuse(&self, request: &HttpRequest, failure: Failure) -> Failure {
        let is_refusal =
            matches!(&failure, Failure::Refused { status, .. } if *status == StatusCode::UNAUTHORIZED);
        if !is_refusal {
            return failure;
        }
        let standing = self.limits.count_refusal(peer::of_request(request)).await;
        request.extensions_mut().insert(standing);
        limited(standing).err().unwrap_or(failure)
    }
}

impl RequestApp {
    /// Stores in the request's extensions the app that its API key names.
    pub fn note(request: &HttpRequest, app: Arc<App>) {
        request.extensions_mut().insert(RequestApp { app });
    }

    /// Returns true if scripts of the request's origin may make calls for users of the app. False only if the app has a list of
    /// allowed origins and this origin is not in it. A request without `Origin` is allowed, because it does not come from a
    /// script of another site.
    pub fn admits_origin(request: &HttpRequest) -> bool {
        let Some(origin) = request.headers().get(ORIGIN) else { return true };
        let request_app = RequestApp::of(request);
        let origins =
            request_app.as_ref().and_then(|request_app| request_app.app.settings.cors_origins.as_deref());
        origins.is_none_or(|origins| {
            origins.iter().any(|allowed| origin.as_bytes().eq_ignore_ascii_case(allowed.as_bytes()))
        })
    }

    /// Returns true if the app has a list of allowed origins.
    pub fn names_origins(&self) -> bool {
        self.app.settings.cors_origins.is_some()
    }

    pub fn app(&self) -> AppId {
        self.app.id
    }

    /// Returns the public API key, which the request has sent.
    pub fn api_key(&self) -> &str {
        &self.app.api_key
    }

    /// Returns the app's own limit of transactional sends per second; None if the default applies.
    pub fn transactional_rate(&self) -> Option<NonZeroU32> {
        self.app.settings.transactional_rate
    }

    /// Returns the app's own limits of bytes per day.
    pub fn volume_limits(&self) -> [Option<NonZeroU32>; 2] {
        [self.app.settings.max_send_megabytes, self.app.settings.max_file_megabytes]
    }

    /// Returns the app of a request; None if the request has no known API key, or if its handler reads no credentials.
    pub fn of(request: &HttpRequest) -> Option<Ref<'_, RequestApp>> {
        Ref::filter_map(request.extensions(), |extensions| extensions.get()).ok()
    }
}
