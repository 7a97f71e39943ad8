//! The admin API: the console's use cases for programs, below `/v1/admin`.
//!
//! `routes` is the table of its calls. A request needs a bearer token; cookies are never read. `call` finds the caller and reads the request, the
//! handler calls a use case of `operations`, and `document` describes all of it.

mod access;
mod apps;
mod call;
mod directory;
mod document;
mod installation;
mod page;
mod parked;
mod people;
mod providers;
mod refused;
mod route;
mod routes;
mod sends;
mod shape;
mod templates;
mod webhooks;

use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::Method;
use actix_web::http::header::{
    CACHE_CONTROL, HeaderName, HeaderValue, IF_MATCH, VARY, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::Data;
use actix_web::{FromRequest as _, HttpRequest, HttpResponse};
use moka::future::Cache;
use operations::{Caller, apps as cases};
use serde_json::Value;
use store::control::app::App;
use tokio::time::timeout;
use web::admission::Admission;
use web::body::Body;
use web::failure::Failure;
use web::file::File;
use web::{accept, limits, request_id};

use self::call::{Call, authenticate};
use self::document::ROOT;
use self::refused::Refused;
use self::route::Route;
use self::routes::ROUTES;
use crate::console::{Console, HEADERS};
use crate::route::segments;

/// Time limit for an answer. A change that did not finish is undone.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
/// Time after its last use for which a token counts as seen. Look-ups of seen tokens are exempt from the limit on look-ups.
const SEEN_FOR: Duration = Duration::from_secs(24 * 3_600);
const MOST_SEEN: u64 = 10_000;
const REVALIDATE: [(HeaderName, &str); 1] = [(CACHE_CONTROL, "no-cache")];

/// Limits, document and page of the admin API.
pub(crate) struct AdminApi {
    admission: Data<Admission>,
    /// Digests of the tokens that were valid when they were last looked up.
    seen_tokens: Cache<[u8; 32], ()>,
    document: File,
    page: File,
}

/// Methods and paths of all calls of the admin API.
pub fn admin_routes() -> impl Iterator<Item = (&'static str, String)> {
    ROUTES.iter().map(|route| (route.method, format!("{ROOT}{}", route.path)))
}

impl AdminApi {
    pub(crate) fn new(
        context: &service_kit::Context,
        url: &str,
        base: &str,
        version: &str,
    ) -> anyhow::Result<AdminApi> {
        let document = document::describe(url)?;
        Ok(AdminApi {
            admission: Admission::of_admin_api(context),
            seen_tokens: Cache::builder().max_capacity(MOST_SEEN).time_to_idle(SEEN_FOR).build(),
            page: File::new("text/html; charset=utf-8", page::render(base, version, &document)?)?,
            document: File::new("application/json", serde_json::to_vec(&document)?)?,
        })
    }

    /// The limits, which requests find in the data of the server.
    pub(crate) fn admission(&self) -> Data<Admission> {
        self.admission.clone()
    }
}

/// Returns true if a request is one of the admin API.
pub(crate) fn is_admin(request: &HttpRequest, base: &str) -> bool {
    let below = request.uri().path().strip_prefix(base).and_then(|path| path.strip_prefix(ROOT));
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request of the admin API.
pub(crate) async fn answer(console: &Console, request: &HttpRequest, payload: Payload) -> HttpResponse {
    let api = &console.admin;
    api.admission.note_peer(request);
    let id = request_id::of(request.headers());
    let respond = Box::pin(respond(console, request, payload));
    let served = api.admission.serve(ANSWERED_WITHIN, request, respond);
    let answered = match timeout(ANSWERED_WITHIN, served).await {
        Ok(answered) => answered,
        Err(_) => {
            let message = "the call took too long; narrow it, or repeat it later";
            Err(Failure::unavailable(message, "no answer within a minute").into())
        }
    };
    let mut response = answered.unwrap_or_else(Refused::response);
    let headers = response.headers_mut();
    headers.insert(request_id::HEADER, id);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.append(VARY, HeaderValue::from_static("authorization"));
    }
    limits::add_headers_of(request, headers);
    response
}

async fn respond(
    console: &Console,
    request: &HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Refused> {
    let below = format!("{}{ROOT}", console.base);
    let missing = || Failure::not_found("no such call; GET /v1/admin/docs lists all");
    let path = segments(request.uri().path(), &below).ok_or_else(missing)?;
    // PostgreSQL stores no text with U+0000, so no object has such a name.
    if path.iter().any(|segment| segment.contains('\0')) {
        return Err(missing().into());
    }
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    if method == Method::GET && path.len() == 1 {
        match path.first().map(String::as_str) {
            Some("openapi.json") => return Ok(console.admin.document.answer(request, &REVALIDATE)),
            Some("docs") => return Ok(console.admin.page.answer(request, &page_headers())),
            _ => {}
        }
    }
    let found: Vec<_> = ROUTES.iter().filter_map(|route| Some((route, route.match_path(&path)?))).collect();
    let Some((route, values)) = found.iter().find(|(route, _)| route.method == method.as_str()) else {
        return Err(if found.is_empty() { missing() } else { Failure::Method(allow(&found)) }.into());
    };
    let caller = authenticate(console, &console.admin.admission, request).await?;
    accept::check(request)?;
    let app = app(console, &caller, route, values).await?;
    let body = body(route, request, payload).await?;
    let call = Call::new(console, caller, request, (route, values.clone()), (app, body));
    call.check_query()?;
    if request.headers().contains_key(IF_MATCH) && !route.fails.contains(&"412") {
        let message = "this call does not compare versions; leave out the header If-Match";
        return Err(Failure::problem("If-Match", "not_conditional", message).into());
    }
    (route.handler)(&call).await
}

/// Finds the app in the path, and checks the permission of the call in it. Use cases check it again; here, a role that is too low is refused
/// before the body is read and before other objects are looked up.
async fn app(
    console: &Console,
    caller: &Caller,
    route: &Route,
    values: &[String],
) -> Result<Option<App>, Refused> {
    let place = route.path_parameters().position(|name| name == "app");
    let Some(name) = place.and_then(|place| values.get(place)) else { return Ok(None) };
    let app = cases::find(&console.operations, caller, name).await?;
    caller.may(route.permission, app.id)?;
    Ok(Some(app))
}

fn allow(found: &[(&Route, Vec<String>)]) -> String {
    let mut methods: Vec<&str> = found.iter().map(|(route, _)| route.method).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.join(", ")
}

/// Headers of the page of the API: those of all pages.
fn page_headers() -> Vec<(HeaderName, &'static str)> {
    HEADERS.iter().cloned().chain(REVALIDATE).collect()
}

async fn body(route: &Route, request: &HttpRequest, mut payload: Payload) -> Result<Option<Value>, Failure> {
    if route.body.is_none() {
        return Ok(None);
    }
    let body = Body::from_request(request, &mut payload).await?.optional_json().await?;
    match body {
        Some(Value::Object(_)) | None => Ok(body),
        Some(_) => Err(Failure::problem("", "invalid_type", "the body must be an object")),
    }
}
