//! `/docs`: the OpenAPI document as a web page, from files that are part of the binary.

use std::sync::{Arc, LazyLock};

use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::Path;
use actix_web::{HttpRequest, HttpResponse};
use utoipa_swagger_ui::Config;
use web::failure::Failure;
use web::file::File;
use web::stranger::Stranger;

use crate::openapi::vocabulary::PageFile;

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

/// The file of the page that starts the viewer.
pub(super) const PAGE_SCRIPT: &str = "page.js";

/// The files of the page that come from the Swagger UI package.
pub(super) const OF_THE_VIEWER: [&str; 3] = ["favicon-32x32.png", "swagger-ui.css", "swagger-ui-bundle.js"];

/// The page and its files by name. The page has the empty name.
type Files = Vec<(&'static str, File)>;

/// All files, compressed when the first one is requested. Contains the error if a file cannot be read.
static READY: LazyLock<Result<Files, String>> = LazyLock::new(|| {
    let mut files = vec![
        ("", File::new("text/html; charset=utf-8", PAGE).map_err(|error| error.to_string())?),
        (PAGE_SCRIPT, File::new("text/javascript", SCRIPT).map_err(|error| error.to_string())?),
    ];
    for name in OF_THE_VIEWER {
        files.push((name, of_the_viewer(name)?));
    }
    Ok(files)
});

fn of_the_viewer(name: &str) -> Result<File, String> {
    let found =
        utoipa_swagger_ui::serve(name, Arc::new(Config::new([""]))).map_err(|error| error.to_string())?;
    let found = found.ok_or_else(|| format!("the package has no file {name}"))?;
    let read = if found.gzpipped { File::from_gzip } else { File::with_media };
    read(&found.content_type, &found.bytes).map_err(|error| error.to_string())
}

/// Shows this document as a web page.
#[utoipa::path(
    get,
    path = "/docs",
    operation_id = "getDocs",
    tag = "operation",
    responses(
        (status = 200, description = "The page.", body = String, content_type = "text/html", example = "<!doctype html>"),
        (status = 304, description = "The page has not changed."),
    ),
)]
pub(crate) async fn page(_: Stranger, request: HttpRequest) -> Result<HttpResponse, Failure> {
    file("", &request)
}

/// Gets a file of the page.
#[utoipa::path(
    get,
    path = "/docs/{file}",
    operation_id = "getDocsFile",
    tag = "operation",
    params(("file" = inline(PageFile), Path, description = "The file's name.")),
    responses(
        (
            status = 200,
            description = "The file.",
            content(
                (String = "text/javascript", example = "SwaggerUIBundle({})"),
                (String = "text/css", example = ".swagger-ui {}"),
                (Vec<u8> = "image/png", example = ""),
            ),
        ),
        (status = 304, description = "The file has not changed."),
    ),
)]
pub(crate) async fn page_file(
    _: Stranger,
    request: HttpRequest,
    name: Path<String>,
) -> Result<HttpResponse, Failure> {
    file(&name, &request)
}

fn file(name: &str, request: &HttpRequest) -> Result<HttpResponse, Failure> {
    let files = READY.as_ref().map_err(|error| Failure::Defect(error.clone()))?;
    let (_, file) =
        files.iter().find(|(known, _)| *known == name).ok_or_else(|| Failure::not_found("no such file"))?;
    let headers = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "max-age=3600"),
    ];
    Ok(file.answer(request, &headers))
}
