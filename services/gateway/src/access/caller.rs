//! Callers of the API. The argument type of a handler states which callers may call it.

use std::pin::Pin;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use domain::AppId;
use domain::profile::Author;
use store::control::app::App;
use web::accept;
use web::body::Body;
use web::declared;
use web::failure::Failure;
use web::peer;

use crate::access::identity::{Demand, Identity, user_required};
use crate::access::known_app::Evidence;

/// An app's backend, authenticated by the API secret.
pub(crate) struct AppCaller {
    pub(crate) app: AppId,
    /// The caller as use cases see it.
    pub(crate) backend: operations::Caller,
}

/// A user, or an app's backend that acts for a user.
pub(crate) struct UserCaller {
    pub(crate) app: Arc<App>,
    /// The caller as use cases see it. It acts for the user.
    pub(crate) caller: operations::Caller,
    pub(crate) by_app: bool,
}

/// A user, or an app's backend that calls for itself or for a user.
pub(crate) struct Caller {
    pub(crate) app: AppId,
    /// The caller as use cases see it. It acts for a user, unless the app calls for itself.
    pub(crate) caller: operations::Caller,
    /// True if the app's secret was verified.
    pub(crate) by_app: bool,
}

impl AppCaller {
    async fn read(request: HttpRequest) -> Result<AppCaller, Failure> {
        let identity = Identity::prove(&request, Demand::Secret).await?;
        let app = identity.app()?.id;
        let backend = operations::Caller::backend(app, peer::of_request(&request).address());
        Ok(AppCaller { app, backend })
    }
}

impl UserCaller {
    async fn read(request: HttpRequest) -> Result<UserCaller, Failure> {
        let identity = Identity::prove(&request, Demand::UserProof).await?;
        let app = identity.app()?;
        let caller = of_user(&request, &identity, &app)?;
        Ok(UserCaller { app, caller, by_app: identity.by_app })
    }

    /// Returns true if the app guards addresses and the caller has only the public key. Such a caller needs the secret of a device
    /// to change it.
    pub(crate) fn needs_device_secret(&self) -> bool {
        self.caller.acts_for().is_some_and(|own| own.author == Author::Unproven)
    }
}

impl Caller {
    async fn read(request: HttpRequest) -> Result<Caller, Failure> {
        let identity = Identity::prove(&request, Demand::UserProof).await?;
        let app = identity.app()?;
        let caller = match identity.user()? {
            None if identity.by_app => {
                operations::Caller::backend(app.id, peer::of_request(&request).address())
            }
            user => acting_for(&request, &identity, &app, user.ok_or_else(user_required)?),
        };
        Ok(Caller { app: app.id, caller, by_app: identity.by_app })
    }
}

/// Returns the caller that acts for the user of a request. 401 if the request names none.
pub(crate) fn of_user(
    request: &HttpRequest,
    identity: &Identity<'_>,
    app: &App,
) -> Result<operations::Caller, Failure> {
    let user = identity.user()?.ok_or_else(user_required)?;
    Ok(acting_for(request, identity, app, user))
}

fn acting_for(request: &HttpRequest, identity: &Identity<'_>, app: &App, user: String) -> operations::Caller {
    if identity.by_app {
        operations::Caller::backend_for(app.id, peer::of_request(request).address(), user)
    } else {
        operations::Caller::user(app, user, identity.evidence != Evidence::PublicKey)
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
                    declared::check(&request)?;
                    // If the handler reads the body, `Body` checks `Accept` after it has checked the size, so that a body that is
                    // too large gets a 413 and not a 406.
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
