//! `/docs`: the OpenAPI document as a web page, and the files of all pages of the documentation.

use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use web::failure::{ErrorBody, Failure};
use web::stranger::Stranger;

use crate::openapi::document::Document;
use crate::openapi::vocabulary::PageFile;
use crate::rendered_file::{HTML, RenderedFile, missing};

const STYLE: &str = "handbook.css";
const SCRIPT: &str = "handbook.js";
/// Headings and texts of all pages, which the script loads before the first search.
const SEARCH: &str = "search.json";

/// The names of the files that the pages load.
pub(super) const FILES: [&str; 3] = [STYLE, SCRIPT, SEARCH];

static STYLE_FILE: RenderedFile = RenderedFile::new();
static SCRIPT_FILE: RenderedFile = RenderedFile::new();

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
pub(crate) async fn page(
    _: Stranger,
    request: HttpRequest,
    document: Data<Document>,
) -> Result<HttpResponse, Failure> {
    document.page.answer(HTML, || ::handbook::reference(&document.description), &request)
}

/// Gets a file of the documentation's pages.
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
                (String = "text/javascript", example = "const all = (selector) => []"),
                (String = "text/css", example = ":root {}"),
                (Vec<Vec<String>> = "application/json", example = json!([["Send", "Using the API", "/guide/api#send", "Create users."]])),
            ),
        ),
        (status = 304, description = "The file has not changed."),
        (
            status = 404,
            description = "No such file; as a page if the caller prefers HTML.",
            content((ErrorBody = "application/json"), (String = "text/html", example = "<!doctype html>")),
        ),
    ),
)]
pub(crate) async fn page_file(
    _: Stranger,
    request: HttpRequest,
    document: Data<Document>,
    name: Path<String>,
) -> Result<HttpResponse, Failure> {
    match name.as_str() {
        STYLE => STYLE_FILE.answer("text/css; charset=utf-8", || ::handbook::STYLE, &request),
        SCRIPT => SCRIPT_FILE.answer("text/javascript; charset=utf-8", || ::handbook::SCRIPT, &request),
        SEARCH => {
            let index = || ::handbook::search_index(&::handbook::operations(&document.description));
            document.search.answer("application/json", index, &request)
        }
        _ => missing(&request, "no such file"),
    }
}
