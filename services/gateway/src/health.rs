//! `/healthz` and `/readyz`.

use actix_web::HttpResponse;
use actix_web::web::Data;
use serde::Serialize;

use crate::gateway::Gateway;

#[derive(Serialize)]
struct Alive {
    status: &'static str,
}

/// The process answers.
pub(crate) async fn alive() -> HttpResponse {
    HttpResponse::Ok().json(Alive { status: "ok" })
}

/// Whether requests may come here.
pub(crate) async fn ready(gateway: Data<Gateway>) -> HttpResponse {
    let report = gateway.readiness.check().await;
    let mut response = if report.ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    response.json(report)
}
