//! `DELETE /v3/requests`, by id or by cancellation key: cancellation of the deliveries that no provider has received yet.

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::Problem;
use domain::fields::MAX_IDENTIFIER;
use operations::sends::status::Cancelled;
use serde::Serialize;
use store::sends::cancellation_key::KeyedSends;
use utoipa::ToSchema;
use web::failure::{Failure, valid_or_problems};
use web::path_id::PathId;
use web::query::Query;

use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::openapi::vocabulary::{Count, Identifier, Uuid};

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

/// Result of a cancellation by key.
#[derive(Serialize, ToSchema)]
#[schema(as = KeyCancellation, example = json!({"requests": 2, "cancelled": 40}))]
pub(crate) struct KeyCancellationBody {
    /// Number of sends with the key, without those that an earlier call cancelled.
    #[schema(value_type = Count)]
    requests: u64,
    /// Number of their deliveries that will not be made. A send that was accepted a moment ago may not be planned yet. It is cancelled too,
    /// but counts no deliveries here.
    #[schema(value_type = Count)]
    cancelled: u64,
}

impl From<Cancelled> for KeyCancellationBody {
    fn from(cancelled: Cancelled) -> KeyCancellationBody {
        KeyCancellationBody { requests: cancelled.requests, cancelled: cancelled.deliveries }
    }
}

/// Cancels the requests with a cancellation key.
///
/// Each request whose send had this `cancellationKey` is cancelled, as `DELETE /v3/requests/{requestId}` does, even if it was accepted just
/// before. A send that is accepted after this call is not cancelled. If no send had the key, or all of them were removed, the answer is 404.
/// A 503 means that there were too many requests for one call; repeat it.
#[utoipa::path(
    delete,
    path = "/v3/requests",
    operation_id = "cancelRequests",
    tag = "requests",
    security(("app" = [])),
    params(("cancellationKey" = inline(Identifier), Query, description = "The `cancellationKey` of the sends.")),
    responses(
        (status = 200, description = "The requests are cancelled.", body = KeyCancellationBody),
        (status = 404, description = "No send has this key."),
    ),
)]
pub(crate) async fn cancel_keyed(
    caller: AppCaller,
    gateway: Data<Gateway>,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let mut problems = Vec::new();
    let key = query.text("cancellationKey", &mut problems);
    query.finish(&mut problems);
    if problems.is_empty() && key.as_ref().is_none_or(|key| key.len() > MAX_IDENTIFIER) {
        let message = format!(
            "cancellationKey is required, with 1 to {MAX_IDENTIFIER} bytes; cancel a single send with \
                               DELETE /v3/requests/{{requestId}}"
        );
        problems.push(Problem::new("cancellationKey", "required", message));
    }
    let key = valid_or_problems(key, problems)?;
    let sends = KeyedSends { app: caller.app, key: &key, template: None };
    let cancelled = gateway.sends.cancel_keyed(&caller.backend, sends).await?;
    Ok(HttpResponse::Ok().json(KeyCancellationBody::from(cancelled)))
}
