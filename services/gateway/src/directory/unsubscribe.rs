//! `/v3/unsubscribe/{token}`: the link of an email by which its reader turns its category off.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use credentials::link::{Link, Purpose};
use domain::{AppId, CategoryId, Channel, UserNumber};
use store::directory::preference::Subscription;

use crate::directory::unsubscribe_page::{PageContent, page};
use crate::gateway::{Gateway, database};
use crate::http::failure::{Failure, crowded};
use crate::shares::holder::Holder;
use crate::shares::peer::Peer;
use crate::waiting::{WaitError, wait};

const LATER: &str = "the database did not answer in time; repeat the request";

/// Asks whether the reader of an email wants no more of its kind.
///
/// Nothing changes: programs that look at mail follow its links.
#[utoipa::path(
    get,
    path = "/v3/unsubscribe/{token}",
    operation_id = "askToUnsubscribe",
    tag = "preferences",
    params(("token" = String, Path, description = "The token of an email's `List-Unsubscribe` link.")),
    responses(
        (
            status = 200, description = "A page that asks, in the language of `Accept-Language` where it is known.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (
            status = 404, description = "No email has such a link, or its reader or category is gone.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (status = 429, description = "Too many such requests come from this address."),
        (status = 503, description = "It cannot be told now."),
    ),
)]
pub(crate) async fn ask(
    gateway: Data<Gateway>,
    request: HttpRequest,
    token: Path<String>,
) -> Result<HttpResponse, Failure> {
    let Some(Found { subscription, .. }) = gateway.subscription(&request, &token).await? else {
        return Ok(page(&request, StatusCode::NOT_FOUND, &PageContent::Unknown));
    };
    let said = if subscription.critical {
        PageContent::Critical(&subscription)
    } else {
        PageContent::Asked(&subscription)
    };
    Ok(page(&request, StatusCode::OK, &said))
}

/// Turns email off for the category of an email, for its reader.
///
/// The token is the only credential, and the body is ignored: mail programs send `List-Unsubscribe=One-Click` (RFC
/// 8058). The reader, or the app, can turn it on again in the preferences.
#[utoipa::path(
    post,
    path = "/v3/unsubscribe/{token}",
    operation_id = "unsubscribe",
    tag = "preferences",
    params(("token" = String, Path, description = "The token of an email's `List-Unsubscribe` link.")),
    responses(
        (
            status = 200, description = "A page that says so.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (
            status = 404, description = "No email has such a link, or its reader or category is gone.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (
            status = 409, description = "The category is critical: preferences do not apply to it.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (status = 429, description = "Too many such requests come from this address."),
        (status = 503, description = "It cannot be changed now."),
    ),
)]
pub(crate) async fn unsubscribe(
    gateway: Data<Gateway>,
    request: HttpRequest,
    token: Path<String>,
) -> Result<HttpResponse, Failure> {
    let Some(Found { app, user, category, subscription }) = gateway.subscription(&request, &token).await?
    else {
        return Ok(page(&request, StatusCode::NOT_FOUND, &PageContent::Unknown));
    };
    if subscription.critical {
        return Ok(page(&request, StatusCode::CONFLICT, &PageContent::Critical(&subscription)));
    }
    match database(gateway.store.turn_off(app, user, category, Channel::Email)).await? {
        true => Ok(page(&request, StatusCode::OK, &PageContent::Done(&subscription))),
        // Gone, or made critical, since it was asked about.
        false => Ok(page(&request, StatusCode::NOT_FOUND, &PageContent::Unknown)),
    }
}

/// Purpose of a link.
struct Found {
    app: AppId,
    user: UserNumber,
    category: CategoryId,
    subscription: Subscription,
}

impl Gateway {
    /// Returns the purpose of the token; None if it was not signed for this, or its user or category no longer exists.
    async fn subscription(&self, request: &HttpRequest, token: &str) -> Result<Option<Found>, Failure> {
        self.admit_stranger(request, Holder::stranger(Peer::of_request(request))).await?;
        let link = match wait(self.links.verify(token)).await {
            Ok(link) => link?,
            Err(WaitError::Crowded) => return Err(crowded()),
            Err(WaitError::Overdue) => return Err(Failure::unavailable(LATER, "no key in time")),
        };
        let Some(Link { app, user, purpose: Purpose::Unsubscribe(category) }) = link else {
            return Ok(None);
        };
        let subscription = database(self.store.subscription(app, user, category)).await?;
        Ok(subscription.map(|subscription| Found { app, user, category, subscription }))
    }
}
