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
    responses((status = 200, description = "It does.", body = Alive)),
)]
pub(crate) async fn alive() -> HttpResponse {
    HttpResponse::Ok().json(Alive { status: "ok" })
}

/// Whether requests may come here.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "isReady",
    tag = "operation",
    responses(
        (status = 200, description = "They may.", body = Readiness),
        (
            status = 503,
            description = "They may not, and why.",
            body = Readiness,
            example = json!({"ready": false, "notReady": [{"name": "database", "reason": "unreachable"}]}),
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
