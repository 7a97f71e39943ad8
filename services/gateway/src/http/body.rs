//! The body of a request: its size, its media type, its JSON.

use std::future::{Ready, ready};
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use actix_web::web::BytesMut;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use domain::content::Object;
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::gateway::Gateway;
use crate::http::accept;
use crate::http::failure::{Failure, crowded};
use crate::waiting::at_callers_pace;

/// Largest body, in bytes.
pub const MAX_BODY: usize = 768 * 1024;
/// How much of a body that is too large is still read, so that a client in the middle of writing gets to its answer.
const MAX_IGNORED: usize = 4 * MAX_BODY;
/// How long a client may take to send a body.
const SENT_WITHIN: Duration = Duration::from_secs(30);

/// A body that nobody has read yet, so that whoever may not call is told that first.
pub(crate) struct Body {
    request: HttpRequest,
    payload: Payload,
}

struct IsRead;

/// What a body may be written in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Media {
    Json,
    JsonPatch,
    Form,
    Other,
}

impl FromRequest for Body {
    type Error = Failure;
    type Future = Ready<Result<Body, Failure>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        request.extensions_mut().insert(IsRead);
        ready(Ok(Body { request: request.clone(), payload: payload.take() }))
    }
}

impl Body {
    /// A JSON value. A request without a body is malformed.
    pub(crate) async fn json(self) -> Result<Value, Failure> {
        let value = self.optional_json().await?;
        value.ok_or_else(|| Failure::problem("", "malformed_json", "the body must be JSON, and is empty"))
    }

    /// A JSON value; None for an empty body.
    pub(crate) async fn optional_json(self) -> Result<Option<Value>, Failure> {
        let request = self.request.clone();
        let bytes = self.read().await?;
        match media(&request) {
            _ if bytes.is_empty() => Ok(None),
            Media::Json => parse(&bytes).map(Some),
            Media::JsonPatch | Media::Form | Media::Other => {
                Err(unsupported("the media type must be application/json"))
            }
        }
    }

    /// A JSON value that may be written as a JSON Patch, which must be an array; None for an empty body.
    pub(crate) async fn json_or_patch(self) -> Result<Option<Value>, Failure> {
        if media(&self.request) != Media::JsonPatch {
            return self.optional_json().await;
        }
        let bytes = self.read().await?;
        match parse(&bytes)? {
            value @ Value::Array(_) => Ok(Some(value)),
            _ => Err(Failure::problem("", "invalid_type", "the body must be an array: a JSON Patch is one")),
        }
    }

    /// A JSON value, or the fields of a form as an object; None for an empty body.
    pub(crate) async fn json_or_form(self) -> Result<Option<Value>, Failure> {
        if media(&self.request) != Media::Form {
            return self.optional_json().await;
        }
        let bytes = self.read().await?;
        (!bytes.is_empty()).then(|| form(&bytes)).transpose()
    }

    /// Whether a handler of this request reads its body.
    pub(crate) fn is_read(request: &HttpRequest) -> bool {
        request.extensions().contains::<IsRead>()
    }

    async fn read(mut self) -> Result<BytesMut, Failure> {
        let bytes = match timeout(SENT_WITHIN, at_callers_pace(self.collect())).await {
            Ok(bytes) => bytes?,
            Err(_) => {
                let message = "the body was not sent in time";
                return Err(Failure::refused(StatusCode::REQUEST_TIMEOUT, "body_timeout", message));
            }
        };
        accept::check(&self.request)?;
        let coding = self.request.headers().get(CONTENT_ENCODING);
        if coding.is_some_and(|coding| coding != "identity") {
            return Err(unsupported("the body must not have a content coding"));
        }
        Ok(bytes)
    }

    /// The whole body. Room for it is taken as it arrives, and given back when the request is answered.
    async fn collect(&mut self) -> Result<BytesMut, Failure> {
        let body_room = Gateway::of(&self.request)?.body_room.clone();
        let mut room = body_room.try_acquire_many_owned(0).map_err(|_| crowded())?;
        let mut bytes = BytesMut::new();
        let mut total = 0;
        while let Some(chunk) = self.payload.next().await {
            let chunk = chunk.map_err(|_| Failure::problem("", "incomplete", "the body ended early"))?;
            total += chunk.len();
            if total <= MAX_BODY {
                grow(&mut room, total)?;
                bytes.extend_from_slice(&chunk);
            } else if total > MAX_IGNORED {
                break;
            }
        }
        if total > MAX_BODY {
            let message = format!("the body is larger than {MAX_BODY} bytes");
            return Err(Failure::refused(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message));
        }
        self.request.extensions_mut().insert(room);
        Ok(bytes)
    }
}

/// Extends room, counted in KiB, to this many bytes.
fn grow(room: &mut OwnedSemaphorePermit, bytes: usize) -> Result<(), Failure> {
    let missing = bytes.div_ceil(1024).saturating_sub(room.num_permits());
    let missing = u32::try_from(missing).map_err(|_| crowded())?;
    room.merge(room.semaphore().clone().try_acquire_many_owned(missing).map_err(|_| crowded())?);
    Ok(())
}

fn unsupported(message: &'static str) -> Failure {
    Failure::refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
}

/// A body without a media type is taken for JSON (RFC 9110, section 8.3, leaves that to the recipient).
fn media(request: &HttpRequest) -> Media {
    let Some(value) = request.headers().get(CONTENT_TYPE) else {
        return Media::Json;
    };
    let value = value.to_str().unwrap_or_default().to_ascii_lowercase();
    let (essence, parameters) = value.split_once(';').unwrap_or((&value, ""));
    let charset = parameters.split(';').filter_map(|parameter| parameter.trim().strip_prefix("charset="));
    let is_utf8 = charset.map(|name| name.trim_matches('"')).all(|name| matches!(name, "utf-8" | "utf8"));
    match essence.trim() {
        "application/json" if is_utf8 => Media::Json,
        "application/json-patch+json" if is_utf8 => Media::JsonPatch,
        "application/x-www-form-urlencoded" if is_utf8 => Media::Form,
        _ => Media::Other,
    }
}

fn parse(bytes: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::problem("", "malformed_json", format!("the body must be JSON: {error}")))
}

fn form(bytes: &[u8]) -> Result<Value, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| not_a_form())?.replace('+', " ");
    let mut members = Object::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |text| percent_decode_str(text).decode_utf8().map(|text| text.into_owned());
        let (Ok(key), Ok(value)) = (decode(key), decode(value)) else {
            return Err(not_a_form());
        };
        members.insert(key, Value::String(value));
    }
    Ok(Value::Object(members))
}

fn not_a_form() -> Failure {
    Failure::problem("", "malformed_form", "the body must be a form in UTF-8")
}
