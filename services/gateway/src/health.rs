//! `/healthz` and `/readyz`.

use actix_web::HttpResponse;
use actix_web::http::header::RETRY_AFTER;
use actix_web::web::Data;
use serde::Serialize;
use utoipa::ToSchema;
use web::failure::RETRY_AFTER_SECONDS;
use web::stranger::Stranger;

use crate::gateway::Gateway;

/// Answer to a liveness probe.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"status": "ok"}))]
struct Alive {
    status: &'static str,
}

/// Answer to a readiness probe.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Readiness, example = json!({"ready": true, "notReady": []}))]
struct ReadinessBody {
    /// False once the process is stopping.
    ready: bool,
    /// Unreachable servers, and `process` while the process is stopping.
    #[schema(inline)]
    not_ready: Vec<NotReady>,
}

/// A dependency that is not ready.
#[derive(Serialize, ToSchema)]
struct NotReady {
    /// `database`, `log` or `process`.
    name: &'static str,
    /// `unreachable`, `no answer in time` or `stopping`.
    reason: &'static str,
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
        (status = 200, description = "Ready to serve requests. `notReady` lists unreachable servers.", body = ReadinessBody),
        (
            status = 503,
            description = "Not ready: the process is stopping.",
            body = ReadinessBody,
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
    let not_ready = report.not_ready.iter();
    let not_ready = not_ready.map(|failing| NotReady { name: failing.name, reason: failing.reason });
    response.json(ReadinessBody { ready: report.ready, not_ready: not_ready.collect() })
}
