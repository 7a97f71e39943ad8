//! `/openapi.json`: the document, generated once at start-up.

use actix_web::http::header::{CACHE_CONTROL, ETAG, EntityTag, IfNoneMatch};
use actix_web::web::{Bytes, Data};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credentials::secrets;
use serde_json::Value;

use crate::openapi::vocabulary::FreeObject;

/// The document as it is served: its text and its `ETag`.
pub(crate) struct Document {
    text: Bytes,
    tag: EntityTag,
}

impl Document {
    pub(crate) fn new(description: &Value) -> serde_json::Result<Document> {
        let text = serde_json::to_vec(description)?;
        let tag = EntityTag::new_strong(URL_SAFE_NO_PAD.encode(secrets::sha256(&text)));
        Ok(Document { text: text.into(), tag })
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
pub(crate) async fn serve(document: Data<Document>, request: HttpRequest) -> HttpResponse {
    let Document { text, tag } = document.as_ref();
    let is_known = match request.get_header::<IfNoneMatch>() {
        Some(IfNoneMatch::Any) => true,
        Some(IfNoneMatch::Items(tags)) => tags.iter().any(|known| known.weak_eq(tag)),
        None => false,
    };
    let mut response = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response.insert_header((ETAG, tag.to_string())).insert_header((CACHE_CONTROL, "no-cache"));
    if is_known { response.finish() } else { response.content_type("application/json").body(text.clone()) }
}
