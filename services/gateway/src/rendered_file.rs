//! Files of the documentation, rendered and compressed when they are first requested.

use std::io;
use std::sync::OnceLock;

use actix_web::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse};
use web::failure::Failure;
use web::file::File;

use crate::accepted::Accepted;

pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const MARKDOWN: &str = "text/markdown; charset=utf-8";
pub(crate) const PNG: &str = "image/png";

/// Content security policy of the pages. It allows no content from other hosts, no inline code and no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every file. A browser asks each time whether its copy is still current, so that the page, its style and its script are of
/// the same release.
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-cache"),
];

/// Answers that a page does not exist: with a page that leads to the others, or with JSON unless the caller prefers HTML.
pub(crate) fn missing(request: &HttpRequest, message: &'static str) -> Result<HttpResponse, Failure> {
    if !Accepted::of(request).prefers_html() {
        return Err(Failure::not_found(message));
    }
    let mut response = HttpResponse::NotFound();
    for header in HEADERS {
        response.insert_header(header);
    }
    response.insert_header((VARY, ACCEPT.as_str()));
    Ok(response.content_type(HTML).body(::handbook::missing_page()))
}

/// A file that a gateway renders once at most.
#[derive(Default)]
pub(crate) struct RenderedFile(OnceLock<io::Result<File>>);

impl RenderedFile {
    pub(crate) const fn new() -> RenderedFile {
        RenderedFile(OnceLock::new())
    }

    /// Answers with the file of the media type `media`.
    pub(crate) fn answer<B: Into<Bytes>>(
        &self,
        media: &'static str,
        render: impl FnOnce() -> B,
        request: &HttpRequest,
    ) -> Result<HttpResponse, Failure> {
        let file = self.0.get_or_init(|| File::new(media, render()));
        let file = file.as_ref().map_err(|error| Failure::Defect(error.to_string()))?;
        Ok(file.answer(request, &HEADERS))
    }
}
