//! HTTP interface of an outbox: pages for people, JSON for programs.
//!
//! Captured content is hostile. A page shows it as text only, and the HTML of an email in a frame without scripts, forms and other hosts.

use std::io;
use std::sync::Arc;

use hyper::body::Bytes;
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST,
    HeaderMap, HeaderName, HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response};
use serde_json::json;

use super::faults::{self, FaultPanel};
use super::page::{self, Filter};
use super::view::{self, CaptureView};
use super::{Capture, Outbox};
use crate::http::{Handler, HttpServer, HttpSettings, Reply, json as json_answer, status};
use crate::interface;
use crate::twilio::form::Form;

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const FILES: [(&str, &str, &str); 3] = [
    ("/style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("/live.js", "text/javascript; charset=utf-8", include_str!("live.js")),
    ("/icon.svg", "image/svg+xml", include_str!("../../../../services/gateway/src/front/icon.svg")),
];
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
    img-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Policy of captured content.
const CAPTURED_POLICY: &str =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

#[derive(Debug)]
pub struct OutboxServer(HttpServer);

impl OutboxServer {
    pub(crate) async fn start(port: u16, outbox: Arc<Outbox>, faults: FaultPanel) -> io::Result<Self> {
        let settings = HttpSettings { port, ..HttpSettings::default() };
        Ok(OutboxServer(HttpServer::start(settings, Arc::new(Site { outbox, faults })).await?))
    }

    #[must_use]
    pub fn url(&self) -> String {
        self.0.url()
    }

    pub async fn stop(self) {
        self.0.stop().await;
    }
}

#[derive(Debug)]
struct Site {
    outbox: Arc<Outbox>,
    faults: FaultPanel,
}

impl Handler for Site {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        let mut response = if interface::is_own_host(request.headers()) {
            self.answer(request)
        } else {
            content(403, TEXT, interface::FOREIGN_HOST)
        };
        let headers = response.headers_mut();
        for (name, value) in [
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "no-store"),
            (RESOURCE_POLICY, "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Reply::Answer(response)
    }
}

impl Site {
    fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let path = request.uri().path();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        match (request.method(), &parts[..]) {
            (&Method::DELETE, ["messages"]) => self.clear(|| status(204)),
            (&Method::POST, ["clear" | "faults"] | ["faults", "clear"]) => self.act(request, path),
            (_, ["messages"]) if !is_read => not_allowed("GET, HEAD, DELETE"),
            (_, ["clear" | "faults"] | ["faults", "clear"]) => not_allowed("POST"),
            _ if !is_read => status(405),
            (_, [""]) => self.page(request, None),
            (_, ["messages"]) if prefers_html(request.headers()) => self.page(request, None),
            (_, ["messages"]) => self.list(request),
            (_, ["newest"]) => content(200, TEXT, self.newest()),
            (_, ["messages", id, rest @ ..]) => match self.capture(id) {
                Some(capture) => self.message(request, &capture, rest),
                None => status(404),
            },
            _ => match FILES.iter().find(|(name, ..)| *name == path) {
                Some((_, media, text)) => content(200, media, *text),
                None => status(404),
            },
        }
    }

    fn message(&self, request: &Request<Bytes>, capture: &Arc<Capture>, rest: &[&str]) -> Response<Bytes> {
        match rest {
            [] if prefers_html(request.headers()) => self.page(request, Some(capture)),
            [] => vary(json_answer(200, &json!(CaptureView::of(capture)))),
            ["html"] => match view::html_with_images(capture) {
                Some(html) => captured(HTML, html),
                None => status(404),
            },
            ["raw"] => captured(TEXT, String::from_utf8_lossy(&capture.raw).into_owned()),
            ["attachments", number] => {
                let file = number.parse().ok().and_then(|number| view::attachment_of(capture, number));
                let Some(file) = file else { return status(404) };
                let mut response = captured("application/octet-stream", file);
                let saved = HeaderValue::from_static("attachment");
                response.headers_mut().insert(CONTENT_DISPOSITION, saved);
                response
            }
            _ => status(404),
        }
    }

    /// Number of the newest message, and the number of messages.
    fn newest(&self) -> String {
        let captures = self.outbox.captures();
        format!("{}-{}", captures.first().map_or(0, |newest| newest.id), captures.len())
    }

    fn capture(&self, id: &str) -> Option<Arc<Capture>> {
        let id: u64 = id.parse().ok()?;
        self.outbox.captures().into_iter().find(|capture| capture.id == id)
    }

    fn page(&self, request: &Request<Bytes>, chosen: Option<&Arc<Capture>>) -> Response<Bytes> {
        let filter = Filter::of(request.uri().query().unwrap_or_default());
        let captures = self.outbox.captures();
        let page =
            page::Page { captures: &captures, filter, chosen, faults: &self.faults, newest: self.newest() };
        let mut response = content(200, HTML, page.html());
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
        vary(response)
    }

    fn list(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let filter = Filter::of(request.uri().query().unwrap_or_default());
        let captures = self.outbox.captures();
        let shown = captures.iter().filter(|capture| filter.shows(capture));
        let shown: Vec<_> = shown.map(|capture| CaptureView::of(capture)).collect();
        vary(json_answer(200, &json!({ "data": shown })))
    }

    /// Does what a form of the page asks for.
    fn act(&self, request: &Request<Bytes>, path: &str) -> Response<Bytes> {
        if !is_own_page(request.headers()) {
            return content(403, TEXT, "Only the pages of this outbox may do this.\n");
        }
        let form = Form::read(request.body()).unwrap_or_default();
        let back = form.get("back").filter(|back| back.starts_with("/messages/")).unwrap_or("/");
        match path {
            "/clear" => self.clear(|| see_other("/")),
            "/faults/clear" => {
                self.faults.clear();
                see_other(back)
            }
            _ => {
                let times = form.get("times").and_then(|times| times.trim().parse().ok());
                let Some(times) = times.filter(|times| (1..=faults::MOST).contains(times)) else {
                    return content(
                        400,
                        TEXT,
                        format!("times must be a number from 1 to {}\n", faults::MOST),
                    );
                };
                let to = form.get("to").map(str::trim).filter(|to| !to.is_empty());
                if self.faults.order(form.get("fault").unwrap_or_default(), times, to) {
                    see_other(back)
                } else {
                    content(400, TEXT, "fault must be one of the page's faults\n")
                }
            }
        }
    }

    fn clear(&self, done: impl FnOnce() -> Response<Bytes>) -> Response<Bytes> {
        match self.outbox.clear() {
            Ok(()) => done(),
            Err(_) => status(500),
        }
    }
}

/// Returns true if `Accept` names `text/html`, as browsers do when they open a page.
fn prefers_html(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("text/html"))
}

/// Returns true unless a page of another origin made the request.
fn is_own_page(headers: &HeaderMap) -> bool {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match (text(&FETCH_SITE), text(&ORIGIN)) {
        (Some(site), _) => site == "same-origin" || site == "none",
        (None, Some(origin)) => origin.strip_prefix("http://") == text(&HOST),
        (None, None) => true,
    }
}

fn content(code: u16, media: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = status(code);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    *response.body_mut() = body.into();
    response
}

fn captured(media: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = content(200, media, body);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CAPTURED_POLICY));
    response
}

fn vary(mut response: Response<Bytes>) -> Response<Bytes> {
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

fn not_allowed(allow: &'static str) -> Response<Bytes> {
    let mut response = status(405);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

fn see_other(path: &str) -> Response<Bytes> {
    let mut response = status(303);
    let location = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, location);
    response
}
