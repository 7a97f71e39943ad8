//! A request whose credentials name an app: what holds for it whatever it is answered.

use std::cell::Ref;
use std::num::NonZeroU32;
use std::sync::Arc;

use actix_web::{HttpMessage, HttpRequest};
use store::app::App;

use crate::gateway::Gateway;
use crate::http::failure::Failure;
use crate::http::rate_limit::Standing;

/// The app that a request's credentials name, proven or not, and where it stands with its rate limit.
pub(crate) struct Admission {
    app: Arc<App>,
    pub(crate) standing: Standing,
}

impl Gateway {
    /// Counts a request against the limit of the app that its credentials name. Called before a secret is compared,
    /// so that guessing is limited too.
    pub(crate) async fn admit(&self, request: &HttpRequest, app: &Arc<App>) -> Result<(), Failure> {
        let standing = self.rate_limits.count(app.id, app.rate_limit).await;
        request.extensions_mut().insert(Admission { app: app.clone(), standing });
        match standing.retry_after {
            None => Ok(()),
            Some(seconds) => Err(Failure::Limited { seconds }),
        }
    }
}

impl Admission {
    /// The origins whose scripts may read answers for the app; None where all may.
    pub(crate) fn origins(&self) -> Option<&[String]> {
        self.app.cors_origins.as_deref()
    }

    /// The app's number.
    pub(crate) fn app(&self) -> domain::AppId {
        self.app.id
    }

    /// Sends a second in the transactional lane, where the app has a rate of its own.
    pub(crate) fn transactional_rate(&self) -> Option<NonZeroU32> {
        self.app.transactional_rate
    }

    /// What is known of a request; None where its credentials name no app, or are not needed.
    pub(crate) fn of(request: &HttpRequest) -> Option<Ref<'_, Admission>> {
        Ref::filter_map(request.extensions(), |extensions| extensions.get()).ok()
    }
}
