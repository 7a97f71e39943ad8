//! What every exchange has: a request id, a span, a duration, and a note on what is deprecated.

use std::time::Instant;

use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::Data;
use service_kit::{clock, metrics, trace};
use tracing::Instrument;

use crate::gateway::Gateway;
use crate::http::deprecation;
use crate::http::headers::Credential;
use crate::http::trailing_slash;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_REQUEST_ID: usize = 128;

/// Serves a request within a span, and adds to its answer.
pub(crate) async fn exchange(
    mut request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let begin = Instant::now();
    let request_id = request_id(&request);
    let method = method_name(request.method());
    let span = tracing::info_span!("request", request_id = request_id.to_str().unwrap_or_default(), method);
    let traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    trace::continue_from(&span, traceparent);
    let deprecated = uses_signature(&request);

    trailing_slash::trim(&mut request);
    let mut response = next.call(request).instrument(span).await?;
    if deprecated {
        let (name, value) = deprecation::header();
        response.headers_mut().insert(name, value);
    }
    response.headers_mut().insert(REQUEST_ID, request_id);
    observe(&response, method, begin);
    Ok(response)
}

/// The client's own id where it is well-formed, else a new one.
fn request_id(request: &ServiceRequest) -> HeaderValue {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    let sent = request.headers().get(&REQUEST_ID);
    let sent =
        sent.filter(|id| (1..=LONGEST_REQUEST_ID).contains(&id.len()) && id.as_bytes().iter().all(is_plain));
    sent.cloned().unwrap_or_else(|| {
        let new = clock::new_id().to_string();
        HeaderValue::from_str(&new).unwrap_or(HeaderValue::from_static("-"))
    })
}

fn uses_signature(request: &ServiceRequest) -> bool {
    let gateway = request.app_data::<Data<Gateway>>();
    gateway.is_some_and(|gateway| gateway.header_names.has(request.headers(), Credential::UserSignature))
}

fn observe(response: &ServiceResponse<impl MessageBody>, method: &'static str, begin: Instant) {
    let route = response.request().match_pattern().unwrap_or_else(|| "none".to_owned());
    let status = response.status();
    ::metrics::histogram!(
        metrics::HTTP_REQUEST_SECONDS, "route" => route, "method" => method, "status" => status_name(status)
    )
    .record(begin.elapsed());
}

/// A label must not grow with what clients think of.
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
