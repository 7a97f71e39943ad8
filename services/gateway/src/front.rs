//! `/`: the page of a gateway, with its version, its health and links; and the icon of all pages.

use std::io;
use std::sync::LazyLock;

use actix_web::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use credentials::secrets;
use serde::Serialize;
use utoipa::ToSchema;
use web::failure::Failure;
use web::file::File;
use web::stranger::Stranger;

use crate::accepted::Accepted;
use crate::gateway::Gateway;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const STYLE: &str = include_str!("front/style.css");

/// Content security policy of the page. It allows no script, no content from other origins and no framing.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = STANDARD.encode(secrets::sha256(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; img-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
});

/// Cards of the page: title, path and text.
const CARDS: [(&str, &str, &str); 4] = [
    ("Guide", "/guide", "Send a notification, set up providers, and operate an installation."),
    ("API reference", "/docs", "Every call, with its parameters, answers and errors."),
    ("OpenAPI document", "/openapi.json", "The same as OpenAPI 3.1, for code generators and tools."),
    (
        "Browser clients",
        "/clients/inbox/index.js",
        "A bell with an inbox for web pages, as one module to import.",
    ),
];

/// Name, version, health and paths of a gateway.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "name": "Tidings", "version": "0.5.0", "ready": true, "unreachable": [], "guide": "/guide", "docs": "/docs",
    "openapi": "/openapi.json", "clients": "/clients/inbox/index.js", "health": "/healthz", "readiness": "/readyz",
}))]
struct FrontBody {
    name: &'static str,
    /// Version of the release.
    version: &'static str,
    /// False once the process is stopping.
    ready: bool,
    /// Dependencies that are not reachable: `database`, `log`, or `process` while it is stopping.
    unreachable: Vec<&'static str>,
    guide: &'static str,
    docs: &'static str,
    openapi: &'static str,
    clients: &'static str,
    health: &'static str,
    readiness: &'static str,
}

/// Shows the name, version and health of this gateway, with links.
///
/// Answers with a page, or with JSON if the caller prefers `application/json`.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "getFrontPage",
    tag = "operation",
    responses((
        status = 200,
        description = "The page, or the same as JSON.",
        content(
            (String = "text/html", example = "<!doctype html>"),
            (FrontBody = "application/json"),
        ),
    )),
)]
pub(crate) async fn page(_: Stranger, request: HttpRequest, gateway: Data<Gateway>) -> HttpResponse {
    let report = gateway.readiness.check().await;
    let unreachable: Vec<_> = report.not_ready.iter().map(|failing| failing.name).collect();
    let mut response = HttpResponse::Ok();
    response.insert_header((CACHE_CONTROL, "no-store")).append_header((VARY, ACCEPT.as_str()));
    if Accepted::of(&request).prefers_json() {
        return response.json(FrontBody {
            name: "Tidings",
            version: VERSION,
            ready: report.ready,
            unreachable,
            guide: "/guide",
            docs: "/docs",
            openapi: "/openapi.json",
            clients: "/clients/inbox/index.js",
            health: "/healthz",
            readiness: "/readyz",
        });
    }
    response
        .insert_header((CONTENT_SECURITY_POLICY, POLICY.as_str()))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .content_type("text/html; charset=utf-8")
        .body(html(&unreachable))
}

fn html(unreachable: &[&str]) -> String {
    let (class, state, advice) = match unreachable {
        [] => ("health", "Ready".to_owned(), "Accepts requests; PostgreSQL and the event log answer."),
        ["process", ..] => ("health bad", "Stopping".to_owned(), "Another gateway accepts new requests."),
        names => {
            let names: Vec<_> =
                names.iter().map(|name| if *name == "log" { "event log" } else { name }).collect();
            let state = format!("No answer from the {}", names.join(" and the "));
            ("health bad", state, "Calls that need it are answered with 503.")
        }
    };
    let card = |(title, path, text): &(&str, &str, &str)| {
        format!("<li><a href=\"{path}\">{title}</a><p>{text}</p><code>{path}</code></li>\n")
    };
    let cards: String = CARDS.iter().map(card).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Tidings</title>\n\
         <link rel=\"icon\" href=\"/icon.svg\">\n<style>{STYLE}</style>\n</head>\n<body><div class=\"page\">\n\
         <header><img src=\"/icon.svg\" alt=\"\"><h1>Tidings</h1><span class=\"version\">{VERSION}</span></header>\n\
         <main>\n<p class=\"purpose\">Delivers notifications to the in-app inbox, by email, to browsers and phones, and \
         by SMS. This is its API.</p>\n\
         <p class=\"{class}\"><b>{state}</b> <span>{advice}</span> <a href=\"/readyz\">Readiness</a></p>\n\
         <ul>\n{cards}</ul>\n</main>\n\
         <footer>Every call of the API begins with <code>/v3</code> and needs the credentials of an app.</footer>\n\
         </div></body>\n</html>\n"
    )
}

/// Both forms of the icon, compressed when the first one is requested.
static ICONS: LazyLock<io::Result<[File; 2]>> = LazyLock::new(|| {
    let svg = File::new("image/svg+xml", include_str!("front/icon.svg"))?;
    Ok([svg, File::new("image/x-icon", &include_bytes!("front/favicon.ico")[..])?])
});

/// Gets the icon of the pages.
#[utoipa::path(
    get,
    path = "/icon.svg",
    operation_id = "getIcon",
    tag = "operation",
    responses(
        (status = 200, description = "The icon.", body = String, content_type = "image/svg+xml", example = "<svg></svg>"),
        (status = 304, description = "The icon has not changed."),
    ),
)]
pub(crate) async fn icon(_: Stranger, request: HttpRequest) -> Result<HttpResponse, Failure> {
    icon_file(0, &request)
}

/// Gets the icon for clients that ask every site for it.
#[utoipa::path(
    get,
    path = "/favicon.ico",
    operation_id = "getFavicon",
    tag = "operation",
    responses(
        (status = 200, description = "The icon.", body = Vec<u8>, content_type = "image/x-icon", example = ""),
        (status = 304, description = "The icon has not changed."),
    ),
)]
pub(crate) async fn favicon(_: Stranger, request: HttpRequest) -> Result<HttpResponse, Failure> {
    icon_file(1, &request)
}

fn icon_file(index: usize, request: &HttpRequest) -> Result<HttpResponse, Failure> {
    let icons = ICONS.as_ref().map_err(|error| Failure::Defect(error.to_string()))?;
    let headers = [(X_CONTENT_TYPE_OPTIONS, "nosniff"), (CACHE_CONTROL, "public, max-age=86400")];
    Ok(icons[index].answer(request, &headers))
}
