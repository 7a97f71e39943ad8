//! Who calls. A handler states by its argument who may call it.

use std::pin::Pin;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::AUTHORIZATION;
use actix_web::{FromRequest, HttpRequest};
use domain::AppId;
use domain::fields::check_identifier;
use service_kit::{clock, secrets};
use store::app::App;

use crate::gateway::Gateway;
use crate::http::accept;
use crate::http::body::Body;
use crate::http::failure::{Failure, sound};
use crate::http::headers::Credential;
use crate::http::query::Query;

/// An app's backend, proven by the API secret.
pub(crate) struct AppCaller {
    pub(crate) app: AppId,
}

/// A user, or the app acting for one.
pub(crate) struct UserCaller {
    pub(crate) app: Arc<App>,
    /// The user's identifier. The service may not know the user yet.
    pub(crate) user: String,
    /// Whether the app acts for the user.
    pub(crate) by_app: bool,
}

/// An app's backend, for itself or for a user; or a user.
pub(crate) struct Caller {
    pub(crate) app: AppId,
    /// The user, unless the app calls for itself.
    pub(crate) user: Option<String>,
    /// Whether the app's secret was proven.
    pub(crate) by_app: bool,
}

/// An app named by its key.
struct Identity {
    app: Arc<App>,
    by_app: bool,
}

impl Identity {
    /// Verifies the credentials of a request.
    async fn verify(request: &HttpRequest) -> Result<Identity, Failure> {
        let gateway = Gateway::of(request)?;
        let (names, headers) = (&gateway.header_names, request.headers());
        if headers.get_all(AUTHORIZATION).any(|value| is_bearer(value.as_bytes())) {
            let message =
                "bearer tokens cannot be verified yet; send the API key with the API secret or a user id";
            return Err(Failure::unauthorized("bearer_not_available", message));
        }
        let Some(key) = names.read(headers, Credential::ApiKey)? else {
            return Err(no_credentials());
        };
        let secret = names.read(headers, Credential::ApiSecret)?;
        let app = gateway.apps.by_key(key).await?;
        if let Some(app) = &app {
            gateway.admit(request, app).await?;
        }
        let app = app.filter(|app| secret.is_none_or(|secret| is_secret_of(app, secret)));
        match app {
            None => {
                Err(Failure::unauthorized("invalid_credentials", "the API key or the API secret is wrong"))
            }
            Some(app) if app.disabled => {
                Err(Failure::refused(StatusCode::FORBIDDEN, "app_disabled", "the app is disabled"))
            }
            Some(app) => Ok(Identity { app, by_app: secret.is_some() }),
        }
    }

    /// The user that the request is about. The query may name one beside a valid secret alone.
    fn user(&self, request: &HttpRequest) -> Result<Option<String>, Failure> {
        let names = &Gateway::of(request)?.header_names;
        let mut problems = Vec::new();
        let in_header = names.read(request.headers(), Credential::UserId)?.map(str::to_owned);
        let in_query = match self.by_app {
            true => Query::of(request).text("userIdentifier", &mut problems),
            false => None,
        };
        if in_header.is_some() && in_query.is_some() && in_header != in_query {
            let message = "userIdentifier and the user id header must name the same user";
            return Err(Failure::problem("userIdentifier", "conflict", message));
        }
        let user = in_header.or(in_query).map(|user| check_identifier("the user id", user, &mut problems));
        sound(Some(user.flatten()), problems)
    }
}

fn is_bearer(authorization: &[u8]) -> bool {
    let scheme = authorization.split(|byte| *byte == b' ').next().unwrap_or_default();
    scheme.eq_ignore_ascii_case(b"bearer")
}

fn no_credentials() -> Failure {
    let message = "no authentication parameters, or no usable combination of them, were found in the request";
    Failure::unauthorized("no_credentials", message)
}

/// Compares with every live secret, in a time that tells nothing.
fn is_secret_of(app: &App, secret: &str) -> bool {
    let digest = secrets::sha256(secret.as_bytes());
    let now = clock::now();
    let live = app.secrets.iter().filter(|secret| secret.expires_at.is_none_or(|end| end > now));
    live.fold(false, |found, secret| found | secrets::same(&secret.digest, &digest))
}

impl AppCaller {
    async fn read(request: HttpRequest) -> Result<AppCaller, Failure> {
        let identity = Identity::verify(&request).await?;
        if !identity.by_app {
            let message = "this call needs the API secret beside the API key";
            return Err(Failure::unauthorized("secret_required", message));
        }
        Ok(AppCaller { app: identity.app.id })
    }
}

impl UserCaller {
    /// 403 where the write would touch an address of the profile (see [`domain::address_key`]) and the caller has
    /// proven no more than to know a public key.
    pub(crate) fn guard_addresses(&self, touches_address: bool) -> Result<(), Failure> {
        if !touches_address || self.may_write_addresses() {
            return Ok(());
        }
        let message = "email, phoneNumber and phone of a profile are written with the API secret or a bearer \
                       token; `tidings app set` can open them";
        Err(Failure::refused(StatusCode::FORBIDDEN, "address_guarded", message))
    }

    fn may_write_addresses(&self) -> bool {
        self.by_app || !self.app.guards_addresses()
    }

    async fn read(request: HttpRequest) -> Result<UserCaller, Failure> {
        let identity = Identity::verify(&request).await?;
        match identity.user(&request)? {
            Some(user) => Ok(UserCaller { app: identity.app, user, by_app: identity.by_app }),
            None => {
                Err(Failure::unauthorized("user_required", "this call needs a user id beside the API key"))
            }
        }
    }
}

impl Caller {
    async fn read(request: HttpRequest) -> Result<Caller, Failure> {
        let identity = Identity::verify(&request).await?;
        let user = identity.user(&request)?;
        if user.is_none() && !identity.by_app {
            return Err(no_credentials());
        }
        Ok(Caller { app: identity.app.id, user, by_app: identity.by_app })
    }
}

macro_rules! extracted {
    ($($caller:ident),+) => { $(
        impl FromRequest for $caller {
            type Error = Failure;
            type Future = Pin<Box<dyn Future<Output = Result<Self, Failure>>>>;

            fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
                let request = request.clone();
                Box::pin(async move {
                    let caller = $caller::read(request.clone()).await?;
                    // A body that is too large is told first.
                    if !Body::is_read(&request) {
                        accept::check(&request)?;
                    }
                    Ok(caller)
                })
            }
        }
    )+ };
}

extracted!(AppCaller, UserCaller, Caller);
