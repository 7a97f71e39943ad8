//! `/healthz` and `/readyz`.

use actix_web::HttpResponse;
use actix_web::http::header::RETRY_AFTER;
use actix_web::web::Data;
use serde::Serialize;
use utoipa::ToSchema;
use web::failure::RETRY_AFTER_SECONDS;
use web::stranger::Stranger;

use crate::gateway::Gateway;
use crate::openapi::readiness::Readiness;

/// Answer to a liveness probe.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"status": "ok"}))]
struct Alive {
    status: &'static str,
}

/// Checks that the process is alive.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "isAlive",
    tag = "operation",
    responses((status = 200, description = "The process is alive.", body = Alive)),
)]
pub(crate) async fn alive() -> HttpResponse {
    HttpResponse::Ok().json(Alive { status: "ok" })
}

/// Checks whether a load balancer should send requests to this process.
///
/// A gateway is ready until it stops. While PostgreSQL or the event log is unreachable, the gateway stays ready, lists that
/// server in `notReady`, and answers calls that need it with 503 and `Retry-After`.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "isReady",
    tag = "operation",
    responses(
        (status = 200, description = "Ready to serve requests. `notReady` lists unreachable servers.", body = Readiness),
        (
            status = 503,
            description = "Not ready: the process is stopping.",
            body = Readiness,
            example = json!({"ready": false, "notReady": [{"name": "process", "reason": "stopping"}]}),
        ),
    ),
)]
pub(crate) async fn ready(_: Stranger, gateway: Data<Gateway>) -> HttpResponse {
    let report = gateway.readiness.check().await;
    let mut response = if report.ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    if !report.ready {
        response.insert_header((RETRY_AFTER, RETRY_AFTER_SECONDS));
    }
    response.json(report)
}
