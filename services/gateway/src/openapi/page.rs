//! `/docs`: the OpenAPI document as a web page, from files that are part of the binary.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::Path;
use utoipa::ToSchema;
use utoipa_swagger_ui::Config;

use crate::http::failure::Failure;

/// Content security policy of the page. It allows no content from other hosts, no inline code and no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = r##"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Tidings: the API</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
<div id="page"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/page.js"></script>
</html>
"##;

const SCRIPT: &str = r##"SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#page",
    deepLinking: true,
    validatorUrl: null,
    queryConfigEnabled: false,
});
"##;

/// A file that the page loads.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
#[expect(dead_code, reason = "this enum exists only for its schema")]
enum PageFile {
    #[schema(rename = "favicon-32x32.png")]
    Icon,
    #[schema(rename = "swagger-ui.css")]
    Style,
    #[schema(rename = "swagger-ui-bundle.js")]
    Bundle,
    #[schema(rename = "page.js")]
    Script,
}

/// The files of the page that come from the Swagger UI package.
const OF_THE_VIEWER: [&str; 3] = ["favicon-32x32.png", "swagger-ui.css", "swagger-ui-bundle.js"];

/// Shows this document as a web page.
#[utoipa::path(
    get,
    path = "/docs",
    operation_id = "getDocs",
    tag = "operation",
    responses((status = 200, description = "The page.", body = String, content_type = "text/html", example = "<!doctype html>")),
)]
pub(crate) async fn page() -> HttpResponse {
    file("text/html; charset=utf-8", PAGE.as_bytes(), false)
}

/// Gets a file of the page.
#[utoipa::path(
    get,
    path = "/docs/{file}",
    operation_id = "getDocsFile",
    tag = "operation",
    params(("file" = inline(PageFile), Path, description = "The file's name.")),
    responses((
        status = 200,
        description = "The file.",
        content(
            (String = "text/javascript", example = "SwaggerUIBundle({})"),
            (String = "text/css", example = ".swagger-ui {}"),
            (Vec<u8> = "image/png", example = ""),
        ),
    )),
)]
pub(crate) async fn page_file(name: Path<String>) -> Result<HttpResponse, Failure> {
    if *name == "page.js" {
        return Ok(file("text/javascript", SCRIPT.as_bytes(), false));
    }
    let known = OF_THE_VIEWER.contains(&name.as_str());
    let found = if known { utoipa_swagger_ui::serve(&name, Arc::new(Config::new([""]))) } else { Ok(None) };
    match found.map_err(|error| Failure::Defect(error.to_string()))? {
        Some(found) => Ok(file(&found.content_type, &found.bytes, found.gzpipped)),
        None => Err(Failure::not_found("no such file")),
    }
}

fn file(media: &str, bytes: &[u8], is_gzip: bool) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    response
        .insert_header((CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .insert_header((CACHE_CONTROL, "max-age=3600"))
        .content_type(media);
    if is_gzip {
        response.insert_header((CONTENT_ENCODING, "gzip"));
    }
    response.body(bytes.to_vec())
}
