//! `/openapi.json`: the document, generated once at start-up.

use actix_web::http::header::CACHE_CONTROL;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use serde_json::Value;
use web::file::File;
use web::stranger::Stranger;

use crate::openapi::vocabulary::FreeObject;
use crate::rendered_file::RenderedFile;

/// The document as it is served, and what is rendered from it.
pub(crate) struct Document {
    file: File,
    pub(crate) description: Value,
    pub(crate) page: RenderedFile,
    /// The index of the search in the pages, which names the operations.
    pub(crate) search: RenderedFile,
}

impl Document {
    pub(crate) fn new(description: Value) -> std::io::Result<Document> {
        let file = File::new("application/json", serde_json::to_vec(&description)?)?;
        Ok(Document { file, description, page: RenderedFile::default(), search: RenderedFile::default() })
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
    document.file.answer(&request, &[(CACHE_CONTROL, "no-cache")])
}
