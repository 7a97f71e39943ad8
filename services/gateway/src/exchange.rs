//! Middleware around every request: request id, tracing span, duration metric, limit on waiting time, and the headers that all
//! answers have.

use std::time::Instant;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{CACHE_CONTROL, HeaderValue, VARY, WARNING, X_CONTENT_TYPE_OPTIONS};
use actix_web::http::{ConnectionType, Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage};
use fairness::principal::Principal;
use fairness::rate_limit::BucketState;
use service_kit::{clock, metrics, trace};
use tracing::Instrument;
use web::admission::{Admission, RequestApp};
use web::failure::Failure;
use web::idle;
use web::inlet::Reading;
use web::limits::add_headers;
use web::peer;
use web::slow_reader::kept_until_read;
use web::{cors, declared, deprecation, request_id, request_path};

use crate::access::Access;
use crate::base_path;

const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Serves a request within a tracing span, and adds the common headers to its answer.
pub(crate) async fn exchange(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let begin = Instant::now();
    let _under_way = idle::Request::begin(request.request());
    let reading = Reading::of(request.request());
    let exchange = reading.as_ref().map(|reading| reading.begin(request.request()));
    let request_id = request_id::of(request.headers());
    let method = method_name(request.method());
    let span = tracing::info_span!("request", request_id = request_id.to_str().unwrap_or_default(), method);
    let traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    trace::continue_from(&span, traceparent);
    let access = Access::of(request.request())?.clone();
    let admission = Admission::of(request.request())?.clone();
    let peer = admission.peer(&request);
    request.extensions_mut().insert(peer);

    request_path::trim(&mut request);
    base_path::complete(&mut request);
    let served = next.call(request).instrument(span);
    let response = admission.waiting_room.serve(Principal::stranger(peer), served).await?;
    let mut response = kept_until_read(response.map_into_boxed_body(), &admission);
    complete(&mut response, &access);
    response.headers_mut().insert(request_id::HEADER, request_id);
    // A connection that becomes a WebSocket carries no further request.
    let is_endless = reading.is_some_and(|reading| reading.is_endless());
    if response.status() != StatusCode::SWITCHING_PROTOCOLS
        && (is_endless || closes_connection(&response, &admission))
    {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    note_refusal(&response, method, &access);
    observe(&response, method, begin);
    Ok(match exchange {
        Some(exchange) => response.map_body(|_, body| exchange.end_with(body)),
        None => response,
    })
}

/// Returns true if the connection closes after this answer: if the process is stopping, or if connections are scarce and the
/// caller has not sent a valid API secret.
fn closes_connection(response: &ServiceResponse, admission: &Admission) -> bool {
    let has_secret = || response.request().extensions().get().is_some_and(Principal::has_secret);
    admission.stopping.is_cancelled() || admission.connections.are_scarce() && !has_secret()
}

/// Adds the common headers to an answer.
fn complete(response: &mut ServiceResponse, access: &Access) {
    let request = response.request();
    let cors = cors::headers(request);
    let standing = request.extensions().get::<BucketState>().copied();
    let deprecated = deprecation::is_noted(request);
    let varies = access.header_names.vary();
    let warnings = declared::warnings(request);
    let headers = response.headers_mut();
    for (name, value) in cors.into_iter().chain(warnings.into_iter().map(|warning| (WARNING, warning))) {
        headers.append(name, value);
    }
    if let Some(standing) = standing {
        add_headers(standing, headers);
    }
    if deprecated {
        deprecation::add(headers);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    // An answer without `Cache-Control` may contain personal data, so caches must not store it.
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, NO_STORE);
        headers.append(VARY, varies);
    }
}

/// Notes a refused call for its app, and counts and logs it if the answer refuses the credentials of the request.
fn note_refusal(response: &ServiceResponse, method: &str, access: &Access) {
    let request = response.request();
    let failure = response.response().error().and_then(Error::as_error::<Failure>);
    if let Some(failure) = failure {
        let app = RequestApp::of(request).map(|request_app| request_app.app());
        access.refusals.note(failure, app, peer::of_request(request));
        access.refused_calls.note(request, method, failure, clock::now());
    }
}

fn observe(response: &ServiceResponse, method: &'static str, begin: Instant) {
    let route = response.request().match_pattern().unwrap_or_else(|| "none".to_owned());
    let status = response.status();
    ::metrics::histogram!(
        metrics::HTTP_REQUEST_SECONDS, "route" => route, "method" => method, "status" => status_name(status)
    )
    .record(begin.elapsed());
}

/// Returns the method as a metric label. Unknown methods share the label `other`, so that clients cannot create labels.
fn method_name(method: &Method) -> &'static str {
    let known = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::HEAD,
    ];
    let names = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"];
    known.iter().position(|known| known == method).map_or("other", |index| names[index])
}

fn status_name(status: StatusCode) -> String {
    status.as_str().to_owned()
}
