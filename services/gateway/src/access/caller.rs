//! Callers of the API. The argument type of a handler states which callers may call it.

use std::pin::Pin;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use domain::AppId;
use domain::profile::Author;
use store::control::app::App;
use store::directory::user::proof::Writer;
use web::accept;
use web::body::Body;
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
    /// The user's identifier. The user may not exist yet.
    pub(crate) user: String,
    /// True if the app acts for the user.
    pub(crate) by_app: bool,
    /// True if the caller proved more than the public key.
    signed: bool,
}

/// A user, or an app's backend that calls for itself or for a user.
pub(crate) struct Caller {
    pub(crate) app: AppId,
    /// Identifier of the user; None if the app calls for itself.
    pub(crate) user: Option<String>,
    /// True if the app's secret was verified.
    pub(crate) by_app: bool,
    /// True if the caller proved more than the public key.
    pub(crate) has_proof: bool,
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
        let user = identity.user()?.ok_or_else(user_required)?;
        let signed = identity.evidence != Evidence::PublicKey;
        Ok(UserCaller { app, user, by_app: identity.by_app, signed })
    }

    /// Returns the author of this caller's changes to the profile. If the app guards addresses (`address-keys=guarded`), a caller
    /// with only the public key counts as unproven: it could be redirecting another user's messages.
    pub(crate) fn author(&self) -> Author {
        if self.by_app {
            Author::App
        } else if self.signed {
            Author::User
        } else if self.app.guards_addresses() {
            Author::Unproven
        } else {
            Author::Claimed
        }
    }

    /// Returns true if the caller proved more than the public key.
    pub(crate) fn has_proof(&self) -> bool {
        self.by_app || self.signed
    }

    /// Returns the user as the writer of the user's devices, subscriptions and preferences. The app's backend writes them like
    /// the user.
    pub(crate) fn writer(&self) -> Writer<'_> {
        let author = if self.by_app { Author::User } else { self.author() };
        Writer { user: &self.user, author }
    }
}

impl Caller {
    async fn read(request: HttpRequest) -> Result<Caller, Failure> {
        let identity = Identity::prove(&request, Demand::UserProof).await?;
        let app = identity.app()?.id;
        let has_proof = identity.by_app || identity.evidence != Evidence::PublicKey;
        Ok(Caller { app, user: identity.user()?, by_app: identity.by_app, has_proof })
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
