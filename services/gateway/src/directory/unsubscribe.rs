//! `/v3/unsubscribe/{token}`: the unsubscribe link of an email. It turns off the emails of one category for the reader, and leads to the
//! reader's preferences.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use credentials::link::Purpose;
use fairness::waiting::{WaitError, wait};
use operations::preferences::{self, Unsubscription};
use operations::{Caller, Object, OperationError};
use web::body::Body;
use web::failure::{Failure, crowded};
use web::stranger::Stranger;

use crate::directory::preference_page;
use crate::directory::unsubscribe_page::{PageContent, page};
use crate::gateway::Gateway;
use crate::openapi::described::ChoicesForm;

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
    let subscription = match gateway.reader(&token).await? {
        Some(reader) => preferences::subscription_of_link(&gateway.operations, &reader).await,
        None => Err(OperationError::NotFound(Object::Link)),
    };
    match subscription {
        Ok(subscription) if subscription.critical => {
            Ok(page(&request, StatusCode::OK, &PageContent::Critical(&subscription, &token)))
        }
        Ok(subscription) => Ok(page(&request, StatusCode::OK, &PageContent::Asked(&subscription, &token))),
        Err(error) => unknown_link(&request, error),
    }
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
    let unsubscription = match gateway.reader(&token).await? {
        Some(reader) => preferences::unsubscribe_by_link(&gateway.operations, &reader).await,
        None => Err(OperationError::NotFound(Object::Link)),
    };
    match unsubscription {
        Ok(Unsubscription::Done(subscription)) => {
            Ok(page(&request, StatusCode::OK, &PageContent::Done(&subscription, &token)))
        }
        Ok(Unsubscription::Critical(subscription)) => {
            Ok(page(&request, StatusCode::CONFLICT, &PageContent::Critical(&subscription, &token)))
        }
        Err(error) => unknown_link(&request, error),
    }
}

/// Shows the preferences of the reader of an email.
///
/// The page behind the unsubscribe link leads here. It shows the categories and channels of the app, and does not name the reader. The link is valid as
/// long as the unsubscribe link.
#[utoipa::path(
    get,
    path = "/v3/unsubscribe/{token}/preferences",
    operation_id = "showLinkedPreferences",
    tag = "preferences",
    params(("token" = String, Path, description = "The token of an email's `List-Unsubscribe` link.")),
    responses(
        (
            status = 200, description = "A page with a form, in the language of `Accept-Language` if available.",
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
pub(crate) async fn show_preferences(
    _: Stranger,
    gateway: Data<Gateway>,
    request: HttpRequest,
    token: Path<String>,
) -> Result<HttpResponse, Failure> {
    let choices = match gateway.reader(&token).await? {
        Some(reader) => preferences::choices_of_link(&gateway.operations, &reader).await,
        None => Err(OperationError::NotFound(Object::Link)),
    };
    match choices {
        Ok(choices) => Ok(preference_page::page(&request, &choices, false)),
        Err(error) => unknown_link(&request, error),
    }
}

/// Sets the preferences of the reader of an email.
///
/// The form of the page calls this. Choices that the reader left as the page showed them stay unchanged.
#[utoipa::path(
    post,
    path = "/v3/unsubscribe/{token}/preferences",
    operation_id = "setLinkedPreferences",
    tag = "preferences",
    params(("token" = String, Path, description = "The token of an email's `List-Unsubscribe` link.")),
    request_body(content = ChoicesForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (
            status = 200, description = "The page with the preferences after the change.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (status = 400, description = "The form is not the one of the page, or has too many fields."),
        (
            status = 404, description = "The link is invalid, or its user or category no longer exists.",
            body = String, content_type = "text/html", example = "<!doctype html>",
        ),
        (status = 429, description = "Too many such requests from this address."),
        (status = 503, description = "The change cannot be made now; retry."),
    ),
)]
pub(crate) async fn set_preferences(
    _: Stranger,
    gateway: Data<Gateway>,
    request: HttpRequest,
    token: Path<String>,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let fields = body.page_form(preference_page::MOST_FIELDS).await?;
    let choices = match gateway.reader(&token).await? {
        Some(reader) => {
            let changed = preference_page::changed(&fields)?;
            preferences::choose_by_link(&gateway.operations, &reader, &changed).await
        }
        None => Err(OperationError::NotFound(Object::Link)),
    };
    match choices {
        Ok(choices) => Ok(preference_page::page(&request, &choices, true)),
        Err(error) => unknown_link(&request, error),
    }
}

/// Returns the page for an invalid link, or the failure for any other error.
fn unknown_link(request: &HttpRequest, error: OperationError) -> Result<HttpResponse, Failure> {
    match error {
        OperationError::NotFound(Object::Link) => {
            Ok(page(request, StatusCode::NOT_FOUND, &PageContent::Unknown))
        }
        error => Err(error.into()),
    }
}

impl Gateway {
    /// Verifies the token of an unsubscribe link. Returns None if it is not valid for unsubscribing.
    async fn reader(&self, token: &str) -> Result<Option<Caller>, Failure> {
        let link = match wait(self.links.verify(token)).await {
            Ok(link) => link?,
            Err(WaitError::Crowded) => return Err(crowded()),
            Err(WaitError::Overdue) => return Err(Failure::unavailable(LATER, "no key in time")),
        };
        let link = link.filter(|link| matches!(link.purpose, Purpose::Unsubscribe(_)));
        Ok(link.map(Caller::link_holder))
    }
}
