//! The body of answers without data.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

/// Status code of the answer, with one sentence about the result.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"statusCode": 200, "message": "the notification was deleted"}))]
pub struct StatusBody {
    status_code: u16,
    message: &'static str,
}

/// Builds an answer with a [`StatusBody`].
pub fn status_body(status: StatusCode, message: &'static str) -> HttpResponse {
    HttpResponse::build(status).json(StatusBody { status_code: status.as_u16(), message })
}
