//! `PATCH /v3/workflows/{identifier}`, with which published clients cancel the run of a workflow.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use web::failure::Failure;

use crate::access::caller::AppCaller;
use crate::openapi::vocabulary::Identifier;

/// Cancels the run of a workflow. Always a 404.
///
/// This release runs no workflows: a send delivers at once, or at its `sendAt`. Cancel a send with `DELETE /v3/requests/{requestId}`. The
/// call is also available as `PATCH /v4/workflows/{identifier}`.
#[utoipa::path(
    patch,
    path = "/v3/workflows/{identifier}",
    operation_id = "cancelWorkflow",
    tag = "requests",
    security(("app" = [])),
    params(("identifier" = Identifier, Path, description = "The workflow's identifier.")),
    responses((status = 404, description = "There is no such workflow.")),
)]
pub(crate) async fn cancel(_: AppCaller) -> Result<HttpResponse, Failure> {
    let message = "no such workflow: this release runs no workflows; cancel a send with \
                   DELETE /v3/requests/{requestId}, where requestId is from the answer to the send";
    Err(Failure::refused(StatusCode::NOT_FOUND, "not_found", message))
}
