//! `DELETE /v3/requests/{requestId}`: cancelling what of a send has not been handed to a provider.

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::actor;
use crate::access::caller::AppCaller;
use crate::gateway::{Gateway, database};
use crate::http::failure::Failure;
use crate::http::path_id::PathId;
use crate::openapi::vocabulary::{Count, Uuid};

/// Effect of a cancellation.
#[derive(Serialize, ToSchema)]
#[schema(as = Cancellation, example = json!({"cancelled": 40}))]
struct CancellationBody {
    /// Deliveries that waited for an attempt, and every channel of recipients that were not planned yet: what the
    /// request counts as `cancelled` once it is planned.
    #[schema(value_type = Count)]
    cancelled: u64,
}

/// Cancels a request.
///
/// Everything that was not given to a provider yet ends as `cancelled`: a scheduled send, recipients that are not planned yet,
/// deliveries that wait for their first or next attempt. An attempt under way is not repeated. Items of recipients that are
/// planned reach the inbox all the same. Cancelling again, or once everything has ended, stops nothing more.
#[utoipa::path(
    delete,
    path = "/v3/requests/{requestId}",
    operation_id = "cancelRequest",
    tag = "requests",
    security(("app" = [])),
    params(("requestId" = Uuid, Path, description = "As the send's receipt told it.")),
    responses((status = 200, description = "The request is cancelled.", body = CancellationBody)),
)]
pub(crate) async fn cancel(
    http: HttpRequest,
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let request = id.request()?;
    gateway.await_planning(caller.app, request).await?;
    let cancelled = database(gateway.store.cancel_request(caller.app, request, &actor::of(&http))).await?;
    tracing::info!(app = %caller.app, send_id = %request, cancelled, "a request is cancelled");
    Ok(HttpResponse::Ok().json(CancellationBody { cancelled }))
}
