//! `DELETE /v3/requests/{requestId}`: cancellation of the deliveries that no provider has received yet.

use actix_web::HttpResponse;
use actix_web::web::Data;
use serde::Serialize;
use utoipa::ToSchema;
use web::failure::Failure;
use web::path_id::PathId;

use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::openapi::vocabulary::{Count, Uuid};

/// Result of a cancellation.
#[derive(Serialize, ToSchema)]
#[schema(as = Cancellation, example = json!({"cancelled": 40}))]
struct CancellationBody {
    /// Number of deliveries that will not be made: the deliveries that waited for an attempt, plus one per channel for each
    /// recipient that was not planned yet. The counts of the request show all of them as `cancelled` once the whole request
    /// is planned.
    #[schema(value_type = Count)]
    cancelled: u64,
}

/// Cancels a request.
///
/// Deliveries that no provider has received yet end as `cancelled`: deliveries of a scheduled send, deliveries to recipients
/// that are not planned yet, and deliveries that wait for their first or next attempt. An attempt in progress is completed, but
/// not repeated. Recipients that are already planned still get their inbox items. Repeating the call, or cancelling a completed
/// request, has no effect.
#[utoipa::path(
    delete,
    path = "/v3/requests/{requestId}",
    operation_id = "cancelRequest",
    tag = "requests",
    security(("app" = [])),
    params(("requestId" = Uuid, Path, description = "The `requestId` from the answer to the send.")),
    responses((status = 200, description = "The request is cancelled.", body = CancellationBody)),
)]
pub(crate) async fn cancel(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let request = id.request()?;
    let cancelled = gateway.sends.cancel(&caller.backend, caller.app, request).await?;
    Ok(HttpResponse::Ok().json(CancellationBody { cancelled }))
}
