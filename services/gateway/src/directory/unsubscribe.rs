//! `/v3/unsubscribe/{token}`: the unsubscribe link of an email. It turns off the emails of one category for the reader.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use credentials::link::{Link, Purpose};
use domain::{AppId, CategoryId, Channel, UserNumber};
use fairness::waiting::{WaitError, wait};
use store::directory::preference::Subscription;
use web::database::database;
use web::failure::{Failure, crowded};
use web::stranger::Stranger;

use crate::directory::unsubscribe_page::{PageContent, page};
use crate::gateway::Gateway;

const LATER: &str = "the database did not answer in time; repeat the request";

/// Shows the page behind the unsubscribe link of an email.
///
/// The page asks for a confirmation. This call changes nothing, because mail scanners open links automatically.
#[utoipa::path(
    get,
    path = "/v3/unsubscribe/{token}",
    operation_id = "askToUnsubscribe",
    tag = "preferences",
    params(("token" = String, Path, description = "The token of an email's `List-Unsubscribe` link.")),
    responses(
        (
            status = 200, description = "A confirmation page, in the language of `Accept-Language` if available.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (
            status = 404, description = "The link is invalid, or its user or category no longer exists.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (status = 429, description = "Too many such requests from this address."),
        (status = 503, description = "The page is unavailable now; retry."),
    ),
)]
pub(crate) async fn ask(
    _: Stranger,
    gateway: Data<Gateway>,
    request: HttpRequest,
    token: Path<String>,
) -> Result<HttpResponse, Failure> {
    let Some(LinkedSubscription { subscription, .. }) = gateway.subscription(&token).await? else {
        return Ok(page(&request, StatusCode::NOT_FOUND, &PageContent::Unknown));
    };
    let content = if subscription.critical {
        PageContent::Critical(&subscription)
    } else {
        PageContent::Asked(&subscription)
    };
    Ok(page(&request, StatusCode::OK, &content))
}

/// Unsubscribes the reader of an email from emails of its category.
///
/// The token is the only credential. The service ignores the body; mail programs send `List-Unsubscribe=One-Click` (RFC 8058).
/// The user or the app can subscribe again through the preferences.
#[utoipa::path(
    post,
    path = "/v3/unsubscribe/{token}",
    operation_id = "unsubscribe",
    tag = "preferences",
    params(("token" = String, Path, description = "The token of an email's `List-Unsubscribe` link.")),
    responses(
        (
            status = 200, description = "A page that confirms the change.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (
            status = 404, description = "The link is invalid, or its user or category no longer exists.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (
            status = 409, description = "The category is critical: preferences do not apply to it.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (status = 429, description = "Too many such requests from this address."),
        (status = 503, description = "The change cannot be made now; retry."),
    ),
)]
pub(crate) async fn unsubscribe(
    _: Stranger,
    gateway: Data<Gateway>,
    request: HttpRequest,
    token: Path<String>,
) -> Result<HttpResponse, Failure> {
    let Some(LinkedSubscription { app, user, category, subscription }) = gateway.subscription(&token).await?
    else {
        return Ok(page(&request, StatusCode::NOT_FOUND, &PageContent::Unknown));
    };
    if subscription.critical {
        return Ok(page(&request, StatusCode::CONFLICT, &PageContent::Critical(&subscription)));
    }
    if database(gateway.store.directory().turn_off(app, user, category, Channel::Email)).await? {
        Ok(page(&request, StatusCode::OK, &PageContent::Done(&subscription)))
    } else {
        // The category was deleted or became critical after it was read above.
        Ok(page(&request, StatusCode::NOT_FOUND, &PageContent::Unknown))
    }
}

/// The subscription that a link refers to.
struct LinkedSubscription {
    app: AppId,
    user: UserNumber,
    category: CategoryId,
    subscription: Subscription,
}

impl Gateway {
    /// Returns the subscription that a token refers to. None if the token is not for unsubscribing, or if its user or category
    /// no longer exists.
    async fn subscription(&self, token: &str) -> Result<Option<LinkedSubscription>, Failure> {
        let link = match wait(self.links.verify(token)).await {
            Ok(link) => link?,
            Err(WaitError::Crowded) => return Err(crowded()),
            Err(WaitError::Overdue) => return Err(Failure::unavailable(LATER, "no key in time")),
        };
        let Some(Link { app, user, purpose: Purpose::Unsubscribe(category) }) = link else {
            return Ok(None);
        };
        let subscription = database(self.store.directory().subscription(app, user, category)).await?;
        Ok(subscription.map(|subscription| LinkedSubscription { app, user, category, subscription }))
    }
}
