//! `/guide`, `/llms.txt` and `/llms-full.txt`: the guides, rendered when they are first requested.

use std::sync::LazyLock;

use ::handbook::Site;
use actix_web::web::Path;
use actix_web::{HttpRequest, HttpResponse};
use web::failure::{ErrorBody, Failure};
use web::stranger::Stranger;

use crate::rendered_file::{HTML, MARKDOWN, PNG, RenderedFile, missing};

/// Name of the first page in links to its source; its URL has no name.
const OVERVIEW: &str = "overview";

/// A file below `/guide`, by its name.
struct GuideFile {
    name: String,
    content: Content,
    rendered: RenderedFile,
}

#[derive(Clone, Copy)]
enum Content {
    Page(::handbook::Guide),
    Source(::handbook::Guide),
    Image(&'static [u8]),
}

static FILES: LazyLock<Vec<GuideFile>> = LazyLock::new(|| {
    let images = ::handbook::images().map(|(name, bytes)| (name, Content::Image(bytes)));
    let pages = ::handbook::pages().map(|page| (page.name(), Content::Page(page)));
    let sources = ::handbook::pages().map(|page| {
        let name = if page.name().is_empty() { OVERVIEW.to_owned() } else { page.name() };
        (format!("{name}.md"), Content::Source(page))
    });
    let file = |(name, content)| GuideFile { name, content, rendered: RenderedFile::default() };
    pages.chain(sources).chain(images).map(file).collect()
});

static LLMS: RenderedFile = RenderedFile::new();
static LLMS_FULL: RenderedFile = RenderedFile::new();

/// Shows the first page of the guides.
#[utoipa::path(
    get,
    path = "/guide",
    operation_id = "getGuide",
    tag = "operation",
    responses(
        (status = 200, description = "The page.", body = String, content_type = "text/html", example = "<!doctype html>"),
        (status = 304, description = "The page has not changed."),
    ),
)]
pub(crate) async fn first(_: Stranger, request: HttpRequest) -> Result<HttpResponse, Failure> {
    file("", &request)
}

/// Shows a page of the guides.
///
/// With `.md` after its name, the page is served as Markdown.
#[utoipa::path(
    get,
    path = "/guide/{page}",
    operation_id = "getGuidePage",
    tag = "operation",
    params(("page" = String, Path, description = "The page's name, such as `api` or `api.md`, or that of an image.")),
    responses(
        (
            status = 200,
            description = "The page, its source, or the image.",
            content(
                (String = "text/html", example = "<!doctype html>"),
                (String = "text/markdown", example = "# Using the API"),
                (Vec<u8> = "image/png", example = ""),
            ),
        ),
        (status = 304, description = "The file has not changed."),
        (
            status = 404,
            description = "No such page; as a page if the caller prefers HTML.",
            content((ErrorBody = "application/json"), (String = "text/html", example = "<!doctype html>")),
        ),
    ),
)]
pub(crate) async fn page(
    _: Stranger,
    request: HttpRequest,
    name: Path<String>,
) -> Result<HttpResponse, Failure> {
    file(&name, &request)
}

fn file(name: &str, request: &HttpRequest) -> Result<HttpResponse, Failure> {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return missing(request, "no such page");
    };
    match file.content {
        Content::Page(page) => file.rendered.answer(HTML, || page.html(Site::WithReference), request),
        Content::Source(page) => file.rendered.answer(MARKDOWN, || page.markdown(), request),
        Content::Image(bytes) => file.rendered.answer(PNG, || bytes, request),
    }
}

/// Lists the guides for language models.
#[utoipa::path(
    get,
    path = "/llms.txt",
    operation_id = "getLlms",
    tag = "operation",
    responses(
        (status = 200, description = "Links to the guides as Markdown (<https://llmstxt.org>).", body = String, content_type = "text/markdown", example = "# Tidings"),
        (status = 304, description = "The list has not changed."),
    ),
)]
pub(crate) async fn llms(_: Stranger, request: HttpRequest) -> Result<HttpResponse, Failure> {
    LLMS.answer(MARKDOWN, ::handbook::llms, &request)
}

/// Gets all guides as one Markdown file.
#[utoipa::path(
    get,
    path = "/llms-full.txt",
    operation_id = "getLlmsFull",
    tag = "operation",
    responses(
        (status = 200, description = "The guides for users and operators.", body = String, content_type = "text/markdown", example = "# Tidings"),
        (status = 304, description = "The guides have not changed."),
    ),
)]
pub(crate) async fn llms_full(_: Stranger, request: HttpRequest) -> Result<HttpResponse, Failure> {
    LLMS_FULL.answer(MARKDOWN, ::handbook::llms_full, &request)
}
