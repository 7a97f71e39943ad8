//! `DELETE /v3/users/{identifier}`: erasure of a user.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use operations::users;
use web::failure::Failure;
use web::path_id::PathId;
use web::status_body::{StatusBody, status_body};

use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::openapi::vocabulary::Identifier;

/// Erases a user.
///
/// Once this call is answered, the user is unknown, and no earlier send can recreate or reach the user. The inbox and the past
/// deliveries are deleted soon after. Messages in the event log are deleted at the end of the log's retention. The identifier
/// may be used again for a new user with an empty inbox.
#[utoipa::path(
    delete,
    path = "/v3/users/{identifier}",
    operation_id = "eraseUser",
    tag = "users",
    security(("app" = [])),
    params(("identifier" = Identifier, Path, description = "The user's identifier.")),
    responses(
        (status = 202, description = "The user is erased; the remaining data is deleted soon.", body = StatusBody),
        (status = 404, description = "The user does not exist."),
    ),
)]
pub(crate) async fn erase(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let identifier = id.user()?;
    users::erase(&gateway.operations, &caller.backend, caller.app, &identifier, gateway.partitions).await?;
    Ok(status_body(StatusCode::ACCEPTED, "the user is erased; the remaining data is deleted soon"))
}
