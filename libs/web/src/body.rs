//! Reading of request bodies: size limits, media types, and parsing of JSON and forms.

use std::borrow::Cow;
use std::fmt;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use actix_web::web::{self, Bytes, BytesMut};
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use domain::Problem;
use domain::body::Body as Declared;
use domain::content::Object;
use domain::fields::check_plain_json;
use domain::structure::Structure;
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::accept;
use crate::admission::Admission;
use crate::failure::{Failure, valid_or_problems};
use crate::inlet::{AHEAD, Reading};
use crate::peer;
use crate::structure::{self, MAX_CONTAINERS, MAX_USER_CONTAINERS};
use fairness::principal::Principal;
use fairness::quota::{Lease, Quota};
use fairness::waiting::at_callers_pace;

/// Maximum size of a body without files, in bytes.
pub const MAX_BODY: usize = 768 * 1024;
/// Maximum size of the body of a send with files, in bytes: 10 MiB of files in base64 with line breaks, plus everything else.
pub const MAX_BODY_WITH_FILES: usize = 15 * 1024 * 1024;
/// Number of body bytes that count as one additional request against the rate limits. Applies only to callers without the API
/// secret.
pub const BYTES_OF_A_REQUEST: usize = 8 * 1024;
/// Maximum size of a body of a caller without the API secret, in bytes. The largest such bodies are profiles, which have at
/// most 64 KiB.
pub const MAX_USER_BODY: usize = 128 * 1024;
/// Maximum size of the body of a provider's callback, in bytes. It is small because the body is read before its signature can
/// be verified.
pub const MAX_CALLBACK: usize = 16 * 1024;
const MAX_FORM_FIELDS: usize = 200;
/// Maximum number of bytes that are read and dropped after a body exceeds its limit. They are read so that a client that is
/// still sending receives the 413.
const MAX_IGNORED: usize = 3 * MAX_BODY;
/// JSON member that holds the files of a send. Everything except files fits into [`MAX_BODY`] bytes, so a larger body is accepted
/// only if its first `MAX_BODY` bytes contain this text.
const FILES: &[u8] = b"\"attachments\"";
const JSON: &str = "application/json";
const JSON_OR_PATCH: &str = "application/json or application/json-patch+json";
const JSON_OR_FORM: &str = "application/json or application/x-www-form-urlencoded";
const FORM: &str = "application/x-www-form-urlencoded";
/// Maximum number of characters that a message quotes from a header.
const MAX_SHOWN: usize = 100;
const EMPTY: &str = "the body is empty; it must be JSON";
/// Time limit for receiving a body of any size.
pub const SENT_WITHIN: Duration = Duration::from_secs(30);
/// Time limit for receiving the body of a provider's callback.
pub const CALLBACK_WITHIN: Duration = Duration::from_secs(3);
/// Time that a body may take in addition to the time that it needs at the minimum speed ([`SLOWEST`]).
pub const GRACE: Duration = Duration::from_secs(2);
/// Minimum average speed of a body in bytes per second, not counting the additional time [`GRACE`]. It limits how long a stalled
/// body occupies memory.
pub const SLOWEST: usize = 64 * 1024;

/// A request body that has not been read yet. The caller's credentials are checked before the body is read.
pub struct Body {
    request: HttpRequest,
    payload: Payload,
    limit: usize,
    within: Duration,
    /// Selects the room (memory limit) against which the first [`MAX_BODY`] bytes count.
    room: fn(&Admission) -> &Quota,
}

/// Reads the members of a declared body. If `strict`, members that `read` leaves unread are problems.
pub fn read_members<B: Declared, T>(
    value: Value,
    strict: bool,
    read: impl FnOnce(&mut B, &mut Vec<Problem>) -> Option<T>,
) -> Result<T, Failure> {
    let mut problems = Vec::new();
    check_plain_json("", &value, &mut problems);
    let read = B::open("", value, &mut problems).and_then(|mut body| {
        let read = read(&mut body, &mut problems);
        body.into_fields().finish(strict, &mut problems);
        read
    });
    valid_or_problems(read, problems)
}

/// Memory that a body occupies until the request is answered, charged to the caller.
struct ReservedRoom {
    usual: Lease,
    /// Memory for the part of a body beyond [`MAX_BODY`] bytes.
    files: Lease,
}

struct BodyRead;

/// Media type of a body.
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
        request.extensions_mut().insert(BodyRead);
        ready(Ok(Body {
            request: request.clone(),
            payload: payload.take(),
            limit: MAX_BODY,
            within: SENT_WITHIN,
            room: |admission| &admission.bodies,
        }))
    }
}

impl Body {
    /// Reads a JSON value. An empty body is a 400 (`malformed_json`).
    pub async fn json(self) -> Result<Value, Failure> {
        let value = self.optional_json().await?;
        value.ok_or_else(|| Failure::problem("", "malformed_json", EMPTY))
    }

    /// Reads a JSON value that may contain files. Returns the value and the length of the body in bytes. An empty body is a 400
    /// (`malformed_json`).
    pub async fn json_with_files(self) -> Result<(Value, usize), Failure> {
        let request = self.request.clone();
        let bytes = Body { limit: MAX_BODY_WITH_FILES, ..self }.read().await?;
        let length = bytes.len();
        if media(&request) != Media::Json && length > 0 {
            return Err(other_media(&request, JSON));
        }
        if length == 0 {
            return Err(Failure::problem("", "malformed_json", EMPTY));
        }
        if !is_large(length) {
            return Ok((parse(&request, &bytes)?, length));
        }
        Ok((Box::pin(parse_large(&request, bytes)).await?, length))
    }

    /// Reads a JSON value; None if the body is empty.
    pub async fn optional_json(self) -> Result<Option<Value>, Failure> {
        self.json_or(JSON).await
    }

    /// Reads a JSON value; None if the body is empty. `wanted` names the media types that the call accepts.
    async fn json_or(self, wanted: &str) -> Result<Option<Value>, Failure> {
        let request = self.request.clone();
        let bytes = self.read().await?;
        match media(&request) {
            _ if bytes.is_empty() => Ok(None),
            Media::Json => parse(&request, &bytes).map(Some),
            Media::JsonPatch | Media::Form | Media::Other => Err(other_media(&request, wanted)),
        }
    }

    /// Reads a JSON value, or a JSON Patch if the media type is `application/json-patch+json`. Returns None if the body is empty.
    /// A JSON Patch must be an array; anything else, even an empty body, is a 400.
    pub async fn json_or_patch(self) -> Result<Option<Value>, Failure> {
        if media(&self.request) != Media::JsonPatch {
            return self.json_or(JSON_OR_PATCH).await;
        }
        let request = self.request.clone();
        let bytes = self.read().await?;
        match parse(&request, &bytes)? {
            value @ Value::Array(_) => Ok(Some(value)),
            _ => Err(Failure::problem("", "invalid_type", "the body must be an array of operations")),
        }
    }

    /// Reads a JSON value, or the fields of a form as an object of strings; None if the body is empty.
    pub async fn json_or_form(self) -> Result<Option<Value>, Failure> {
        if media(&self.request) != Media::Form {
            return self.json_or(JSON_OR_FORM).await;
        }
        let bytes = self.read().await?;
        (!bytes.is_empty()).then(|| form(&bytes)).transpose()
    }

    /// Reads the form fields of a provider's callback, in the order sent. The memory of callbacks has a separate limit, so that
    /// callbacks use none of the memory for callers with credentials.
    pub async fn callback_form(self) -> Result<Vec<(String, String)>, Failure> {
        let is_form = media(&self.request) == Media::Form;
        let body = Body {
            limit: MAX_CALLBACK,
            within: CALLBACK_WITHIN,
            room: |admission| &admission.callbacks,
            ..self
        };
        let request = body.request.clone();
        let bytes = body.read().await?;
        if is_form { fields(&bytes, MAX_FORM_FIELDS) } else { Err(other_media(&request, FORM)) }
    }

    /// Reads the fields of a form of a page, at most `most`, in the order sent. An empty body has none.
    pub async fn page_form(mut self, most: usize) -> Result<Vec<(String, String)>, Failure> {
        let request = self.request.clone();
        let bytes = at_callers_pace(self.collect()).await?;
        self.check_coding()?;
        let is_form = bytes.is_empty() || media(&request) == Media::Form;
        if is_form { fields(&bytes, most) } else { Err(other_media(&request, FORM)) }
    }

    /// Returns true if the handler of this request reads its body.
    pub fn is_read(request: &HttpRequest) -> bool {
        request.extensions().contains::<BodyRead>()
    }

    async fn read(mut self) -> Result<BytesMut, Failure> {
        let bytes = at_callers_pace(self.collect()).await?;
        accept::check(&self.request)?;
        self.check_coding()?;
        Ok(bytes)
    }

    fn check_coding(&self) -> Result<(), Failure> {
        let coding = self.request.headers().get(CONTENT_ENCODING);
        if coding.is_some_and(|coding| coding != "identity") {
            let message = "the body must not have a content coding; leave out the header Content-Encoding";
            return Err(unsupported(message));
        }
        Ok(())
    }

    /// Reads the whole body. The memory charged to the caller grows with every received piece and is released after the answer.
    /// 413 if the body exceeds its limit, 503 if the caller's share of memory is used up.
    async fn collect(&mut self) -> Result<BytesMut, Failure> {
        let admission = Admission::of(&self.request)?.clone();
        let principal = principal(&self.request);
        if !principal.has_secret() {
            self.limit = self.limit.min(MAX_USER_BODY);
        }
        let mut taken = ReservedRoom {
            usual: (self.room)(&admission).take(&principal, 0)?,
            files: admission.files.take(&principal, 0)?,
        };
        let mut bytes = BytesMut::new();
        let (begin, mut total) = (Instant::now(), 0);
        while let Some(chunk) = self.next(begin, total).await? {
            total += chunk.len();
            if total > self.limit {
                if total > self.limit + MAX_IGNORED {
                    break;
                }
                continue;
            }
            taken.grow(total)?;
            let was_large = is_large(bytes.len());
            bytes.extend_from_slice(&chunk);
            if is_large(total) && !was_large && !names_files(&bytes) {
                self.limit = MAX_BODY;
            }
        }
        if total > self.limit {
            return Err(too_large(self.limit));
        }
        admission.charge(&self.request, principal, total / BYTES_OF_A_REQUEST).await?;
        self.request.extensions_mut().insert(taken);
        Ok(bytes)
    }

    /// Reads the next piece of a body of which `total` bytes have arrived since `begin`. Returns None at the end of the body.
    /// 408 if the client is too slow.
    async fn next(&mut self, begin: Instant, total: usize) -> Result<Option<Bytes>, Failure> {
        let at_slowest = Duration::from_secs_f64(total as f64 / SLOWEST as f64);
        let end = begin + self.within.min(GRACE + at_slowest);
        let reading = self.request.conn_data::<Rc<Reading>>();
        reading.inspect(|reading| reading.want(AHEAD));
        match timeout_at(end, self.payload.next()).await {
            Ok(None) => {
                reading.inspect(|reading| reading.body_ended());
                Ok(None)
            }
            Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
            Ok(Some(Err(_))) => Err(Failure::problem("", "incomplete", "the body ended early")),
            Err(_) => {
                let message = "the body was not sent in time";
                Err(Failure::refused(StatusCode::REQUEST_TIMEOUT, "body_timeout", message))
            }
        }
    }
}

impl ReservedRoom {
    /// Extends the charged memory to `bytes` in total.
    fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        grow(&mut self.usual, bytes.min(MAX_BODY))?;
        grow(&mut self.files, bytes.saturating_sub(MAX_BODY))
    }

    /// Extends the charged memory by `bytes`.
    fn extend(&mut self, bytes: usize) -> Result<(), Failure> {
        let taken = self.usual.units() * 1024;
        grow(&mut self.usual, taken + bytes)
    }
}

/// Returns the [`Principal`] against whose limits the request counts. Until the credentials are verified, the caller counts as a
/// stranger at the peer's address.
pub fn principal(request: &HttpRequest) -> Principal {
    let proven = request.extensions().get().copied();
    proven.unwrap_or_else(|| Principal::stranger(peer::of_request(request)))
}

/// Returns true if `bytes` exceeds the limit for bodies without files.
pub fn is_large(bytes: usize) -> bool {
    bytes > MAX_BODY
}

/// Returns a 413 for a body of more than `limit` bytes.
pub fn too_large(limit: usize) -> Failure {
    let message = format!("the body is larger than {limit} bytes");
    Failure::refused(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
}

/// Returns true if the beginning of a body contains the member that holds files.
fn names_files(bytes: &[u8]) -> bool {
    bytes.windows(FILES.len()).any(|window| window == FILES)
}

/// Extends a reservation, counted in KiB, to at least `bytes` in total.
fn grow(place: &mut Lease, bytes: usize) -> Result<(), Failure> {
    let missing = bytes.div_ceil(1024).saturating_sub(place.units());
    Ok(place.grow(missing)?)
}

/// Returns a 415 that names the media types that the call accepts, and the one that was sent.
fn other_media(request: &HttpRequest, wanted: &str) -> Failure {
    let sent =
        request.headers().get(CONTENT_TYPE).map(|value| value.as_bytes().escape_ascii().take(MAX_SHOWN));
    let sent: String = sent.into_iter().flatten().map(char::from).collect();
    unsupported(format!("the media type must be {wanted}, in UTF-8; the header Content-Type is {sent}"))
}

fn unsupported(message: impl Into<Cow<'static, str>>) -> Failure {
    Failure::refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
}

/// Returns the media type of a body. A body without `Content-Type` counts as JSON; RFC 9110, section 8.3, leaves that to the
/// recipient.
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

/// Charges the memory of the parsed value to the caller, then parses the body.
fn parse(request: &HttpRequest, bytes: &[u8]) -> Result<Value, Failure> {
    let most = if principal(request).has_secret() { MAX_CONTAINERS } else { MAX_USER_CONTAINERS };
    take_room(request, structure::check(bytes, most, MAX_BODY)?)?;
    parsed(bytes)
}

/// Like [`parse`], on a blocking thread.
async fn parse_large(request: &HttpRequest, bytes: BytesMut) -> Result<Value, Failure> {
    let (structure, bytes) =
        run_blocking(move || (structure::check(&bytes, MAX_CONTAINERS, MAX_BODY), bytes)).await?;
    take_room(request, structure?)?;
    run_blocking(move || parsed(&bytes)).await?
}

fn take_room(request: &HttpRequest, structure: Structure) -> Result<(), Failure> {
    let mut extensions = request.extensions_mut();
    extensions.get_mut::<ReservedRoom>().map_or(Ok(()), |taken| taken.extend(structure.memory()))
}

/// Runs CPU-bound work on a blocking thread, so that it does not delay other connections.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    at_callers_pace(web::block(work)).await.map_err(|error| Failure::Defect(error.to_string()))
}

fn parsed(bytes: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::problem("", "malformed_json", format!("the body must be JSON: {error}")))
}

fn form(bytes: &[u8]) -> Result<Value, Failure> {
    let fields = fields(bytes, MAX_FORM_FIELDS)?.into_iter();
    Ok(Value::Object(fields.map(|(key, value)| (key, Value::String(value))).collect::<Object>()))
}

fn fields(bytes: &[u8], most: usize) -> Result<Vec<(String, String)>, Failure> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|error| not_a_form(format_args!("byte {} is not", error.valid_up_to() + 1)))?;
    let text = text.replace('+', " ");
    let decode = |text| percent_decode_str(text).decode_utf8().map(|text| text.into_owned());
    let pairs = || text.split('&').filter(|pair| !pair.is_empty());
    if pairs().nth(most).is_some() {
        let message = format!("the form has more than {most} fields; send fewer");
        return Err(Failure::problem("", "too_many", message));
    }
    let pairs = pairs().zip(1..).map(|(pair, number)| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (decode(key), decode(value)) {
            (Ok(key), Ok(value)) => Ok((key, value)),
            (Err(_), _) => Err(not_a_form(format_args!("the name of field {number} is not"))),
            (Ok(key), Err(_)) => {
                Err(not_a_form(format_args!("the value of field {number}, {key:.40?}, is not")))
            }
        }
    });
    pairs.collect()
}

fn not_a_form(what: fmt::Arguments<'_>) -> Failure {
    Failure::problem("", "malformed_form", format!("the body must be a form in UTF-8; {what}"))
}
