//! `/healthz` and `/readyz`.

use actix_web::HttpResponse;
use actix_web::http::header::RETRY_AFTER;
use actix_web::web::Data;
use serde::Serialize;
use utoipa::ToSchema;

use crate::gateway::Gateway;
use crate::http::failure::RETRY_AFTER_SECONDS;
use crate::openapi::readiness::Readiness;

/// The process answers.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"status": "ok"}))]
struct Alive {
    status: &'static str,
}

/// The process answers.
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

/// Tells a load balancer whether to send requests here.
///
/// A gateway is ready until it stops. If PostgreSQL or the log is away, it stays ready, lists that server, and answers calls that
/// need it 503 with `Retry-After`.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "isReady",
    tag = "operation",
    responses(
        (status = 200, description = "Ready; lists the servers that are away.", body = Readiness),
        (
            status = 503,
            description = "Not ready: the process is stopping.",
            body = Readiness,
            example = json!({"ready": false, "notReady": [{"name": "process", "reason": "stopping"}]}),
        ),
    ),
)]
pub(crate) async fn ready(gateway: Data<Gateway>) -> HttpResponse {
    let report = gateway.readiness.check().await;
    let mut response = if report.ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    if !report.ready {
        response.insert_header((RETRY_AFTER, RETRY_AFTER_SECONDS));
    }
    response.json(report)
}
