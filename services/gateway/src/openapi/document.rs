//! `/openapi.json`: the document, generated once at start-up.

use actix_web::http::header::CACHE_CONTROL;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use serde_json::Value;
use web::file::File;
use web::stranger::Stranger;

use crate::openapi::vocabulary::FreeObject;

/// The document as it is served.
pub(crate) struct Document(File);

impl Document {
    pub(crate) fn new(description: &Value) -> std::io::Result<Document> {
        Ok(Document(File::new("application/json", serde_json::to_vec(description)?)?))
    }
}

/// Gets this document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getDocument",
    tag = "operation",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer.")),
    responses(
        (
            status = 200,
            description = "An OpenAPI 3.1 document.",
            body = FreeObject,
            headers(("ETag" = String, description = "Changes whenever the document changes.")),
        ),
        (status = 304, description = "The document has not changed since the `ETag` in `If-None-Match`."),
    ),
)]
pub(crate) async fn serve(_: Stranger, document: Data<Document>, request: HttpRequest) -> HttpResponse {
    document.0.answer(&request, &[(CACHE_CONTROL, "no-cache")])
}
