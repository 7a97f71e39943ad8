//! `POST /v3/notifications`: accepts a send. A 202 means that the log has stored it durably.

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;
use utoipa::ToSchema;
use web::body::Body;
use web::failure::Failure;
use web::handling::Handling;
use web::query::Query;

use crate::access::caller::AppCaller;
use crate::gateway::Gateway;
use crate::openapi::described;
use crate::openapi::vocabulary::Uuid;
use crate::sends::dry_run::DryRun;
use crate::sends::submission::{Wanted, read};

/// Id of the accepted send. `GET /v3/requests/{requestId}` shows the status of the send.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"requestId": "018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11"}))]
struct Accepted {
    #[schema(value_type = Uuid)]
    request_id: domain::SendId,
}

/// Accepts a send.
///
/// A 202 means that the send is durable and will not be lost. With `dryRun=true`, nothing is sent, stored or reserved, and
/// the answer shows the deliveries that the send would make. A 429 with the code `quota_reached` means that the app has reached
/// its quota of bytes within 24 hours; `Retry-After` says when it may send again.
#[utoipa::path(
    post,
    path = "/v3/notifications",
    operation_id = "send",
    tag = "sending",
    security(("app" = [])),
    params(
        ("dryRun" = Option<bool>, Query, description = "If true, the service sends nothing. It answers with the deliveries that the send would make, and with the reasons for skipped ones."),
        (
            "Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]*$",
            description = "If a request repeats the key within 24 hours with an equal JSON body, the service gives the same answer and does not send again."
        ),
    ),
    request_body = described::SendRequest,
    responses(
        (status = 200, description = "With `dryRun=true`: the deliveries that the send would make.", body = DryRun),
        (status = 202, description = "The send is accepted.", body = Accepted),
        (status = 409, description = "The Idempotency-Key was used with another body."),
    ),
)]
pub(crate) async fn send(
    caller: AppCaller,
    gateway: Data<Gateway>,
    request: HttpRequest,
    handling: Handling,
    query: Query,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let (submission, wanted) = read(&gateway.sends, &caller, &request, handling, query, body).await?;
    match wanted {
        Wanted::DryRun => {
            let planned = Box::pin(gateway.sends.dry_run(&caller.backend, submission)).await?;
            Ok(HttpResponse::Ok().json(DryRun::from(planned)))
        }
        Wanted::Send => {
            let request_id = gateway.sends.accept(&caller.backend, submission).await?;
            Ok(HttpResponse::Accepted().json(Accepted { request_id }))
        }
    }
}
