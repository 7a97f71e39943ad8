//! Failures of requests, and the answers to them.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::sync::LazyLock;
use std::time::Instant;

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};
use credentials::link::LinkError;
use domain::Problem;
use domain::profile::{self, PatchFailure};
use operations::OperationError;
use serde::Serialize;
use service_kit::clock;
use service_kit::line_rate::LineRate;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::described;

use fairness::quota::Overuse;

/// Seconds after which a client may retry a request that was answered with 503.
pub const RETRY_AFTER_SECONDS: &str = "1";
const MOST_PROBLEMS: usize = 100;

/// Value of `WWW-Authenticate` in a 401. Bearer tokens are the only credentials of this API that have an HTTP authentication
/// scheme (RFC 9110, section 11.6.1, and RFC 6750).
/// `status` of every error.
const ERROR: &str = "error";
const CHALLENGE: &str = "Bearer realm=\"tidings\"";
const NO_SUCH_METHOD: &str = "the resource does not support this method";
const FULL: &str = "too many live connections; connect again later";
const LIMITED: &str = "the caller exceeded its limit of requests per second; repeat the request later";

/// Callers can cause such a line with each request.
static UNAVAILABLE: LazyLock<LineRate<&'static str>> = LazyLock::new(LineRate::default);

/// Reason why a request fails.
#[derive(Clone, Debug)]
pub enum Failure {
    /// 400: the request is malformed or invalid. Contains every problem that was found.
    Invalid(Vec<Problem>),
    /// Any 4xx except 400, 405 and 429.
    Refused {
        status: StatusCode,
        /// Stable machine-readable code.
        code: &'static str,
        /// One sentence for the caller.
        message: Cow<'static, str>,
    },
    /// 405. Contains the methods that the resource supports, as the value of `Allow`.
    Method(String),
    /// 429: the caller exceeded a rate limit.
    Limited {
        /// Seconds until the next request is allowed.
        seconds: u64,
    },
    /// 429: the app reached a quota of bytes per day.
    QuotaReached {
        /// One sentence for the caller that names the quota.
        message: String,
        /// Seconds until the app may add as many bytes.
        seconds: u64,
    },
    /// 503: the database or the log cannot serve the request now.
    Unavailable {
        /// One sentence for the caller.
        message: &'static str,
        /// Cause, for the service's log only.
        cause: String,
    },
    /// 503: the caller's share of the live connections is used up, or too many of them are being opened.
    Full {
        /// Seconds after which the client may connect again.
        seconds: u64,
    },
    /// 500: an internal error. Contains the cause, for the service's log only. The answer has an id under which the log shows
    /// the cause.
    Defect(String),
}

/// The body of every error except 400 and 500.
#[derive(Serialize, ToSchema)]
#[schema(as = Error, example = json!({"status": "error", "message": "no such notification", "code": "not_found"}))]
pub struct ErrorBody<'a> {
    #[schema(pattern = "^error$")]
    status: &'static str,
    /// One sentence about the cause.
    message: &'a str,
    /// Stable code, such as `not_found`.
    code: &'a str,
}

/// The body of a 500.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Defect, example = json!({
    "status": "error",
    "message": "internal error",
    "code": "internal",
    "errorId": "018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11",
}))]
pub struct DefectBody {
    #[schema(pattern = "^error$")]
    status: &'static str,
    message: &'static str,
    code: &'static str,
    /// Id of this error in the service's log, where the cause is recorded.
    #[schema(value_type = String, format = "uuid")]
    error_id: Uuid,
}

/// The body of a 400. `errors` lists every problem; `message` contains only the messages of these problems.
#[derive(Serialize, ToSchema)]
#[schema(as = Problems, example = json!({
    "status": "error",
    "message": ["notification is required"],
    "errors": [{"field": "notification", "code": "required", "message": "notification is required"}],
}))]
pub struct ProblemsBody<'a> {
    #[schema(pattern = "^error$")]
    status: &'static str,
    message: Vec<&'a str>,
    #[schema(value_type = Vec<described::Problem>)]
    errors: &'a [Problem],
}

impl Failure {
    /// Creates a 400 with a single problem.
    pub fn problem(field: &str, code: &'static str, message: impl Into<String>) -> Failure {
        Failure::Invalid(vec![Problem::new(field, code, message)])
    }

    pub fn unauthorized(code: &'static str, message: impl Into<Cow<'static, str>>) -> Failure {
        Failure::refused(StatusCode::UNAUTHORIZED, code, message)
    }

    /// Creates a 404 with the code `not_found`.
    pub fn not_found(message: &'static str) -> Failure {
        Failure::refused(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Creates any 4xx except 400, 405 and 429.
    pub fn refused(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Failure {
        Failure::Refused { status, code, message: message.into() }
    }

    /// Creates a 503 with a message for the caller and a cause for the log.
    pub fn unavailable(message: &'static str, cause: impl Display) -> Failure {
        Failure::Unavailable { message, cause: cause.to_string() }
    }
}

/// Finishes the validation of a request: returns the value if there are no problems, otherwise a 400 with all problems.
pub fn valid_or_problems<T>(value: Option<T>, problems: Vec<Problem>) -> Result<T, Failure> {
    match value {
        Some(value) if problems.is_empty() => Ok(value),
        _ => Err(Failure::Invalid(problems)),
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Refused(refusal) => refusal.into(),
            store::Error::QuotaReached(quota) => {
                let message = format!(
                    "the app has reached its quota of {quota}; an operator can raise it with `tidings app set APP {}=N`",
                    quota.switch()
                );
                Failure::refused(StatusCode::FORBIDDEN, "quota_reached", message)
            }
            error if error.is_unavailable() => {
                Failure::unavailable("the database cannot serve the request now; repeat it", error)
            }
            error if error.is_overtaken() => Failure::unavailable(
                "the resource was removed while the request was served; repeat the request",
                error,
            ),
            // A newer release wrote the row. During an upgrade, a gateway of that release may serve the client's retry.
            error if error.is_unreadable() => {
                Failure::unavailable("a newer release wrote the resource; repeat the request", error)
            }
            error => Failure::Defect(error.to_string()),
        }
    }
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::Invalid(problems) => Failure::Invalid(problems),
            OperationError::NotFound(object) => {
                Failure::refused(StatusCode::NOT_FOUND, "not_found", format!("no such {object}"))
            }
            OperationError::Conflict(conflict) => {
                Failure::refused(StatusCode::CONFLICT, conflict.code(), conflict.to_string())
            }
            OperationError::Denied(_) => {
                Failure::refused(StatusCode::FORBIDDEN, "role_required", error.to_string())
            }
            OperationError::WrongDeviceSecret => {
                Failure::unauthorized("invalid_device_secret", error.to_string())
            }
            OperationError::Profile(refusal) => refusal.into(),
            OperationError::Quota(quota) => store::Error::QuotaReached(quota).into(),
            OperationError::Volume { message, wait } => {
                Failure::QuotaReached { message, seconds: wait.as_secs().max(1) }
            }
            OperationError::TooLarge => {
                Failure::refused(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error.to_string())
            }
            OperationError::Unavailable(error) => error.into(),
            OperationError::Later { message, cause } => Failure::Unavailable { message, cause },
            OperationError::Defect(error) => Failure::Defect(error.to_string()),
        }
    }
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Store(error) => error.into(),
            error => Failure::Defect(error.to_string()),
        }
    }
}

impl From<profile::Refusal> for Failure {
    fn from(refusal: profile::Refusal) -> Self {
        let message = refusal.to_string();
        let unprocessable = |code, message| Failure::refused(StatusCode::UNPROCESSABLE_ENTITY, code, message);
        match refusal {
            profile::Refusal::Invalid(problems) => Failure::Invalid(problems),
            profile::Refusal::TooLong(_) => Failure::problem("profile", "too_long", message),
            profile::Refusal::TooMuchWork { .. } => Failure::problem("", "too_much_work", message),
            profile::Refusal::TooDeep => Failure::problem("profile", "too_deep", message),
            profile::Refusal::AddressGuarded => {
                Failure::refused(StatusCode::FORBIDDEN, "address_guarded", message)
            }
            profile::Refusal::AppOnly => Failure::refused(StatusCode::FORBIDDEN, "app_only", message),
            profile::Refusal::ReservedKey => unprocessable("reserved_key", message),
            profile::Refusal::NoObject => unprocessable("not_an_object", message),
            profile::Refusal::Inapplicable(_, PatchFailure::TestFailed) => {
                unprocessable("test_failed", message)
            }
            profile::Refusal::Inapplicable(..) => unprocessable("not_applicable", message),
        }
    }
}

impl From<Overuse> for Failure {
    fn from(_: Overuse) -> Self {
        crowded()
    }
}

/// Creates a 503 for a request whose caller already uses its whole share of the memory or of the queue of waiting requests.
pub fn crowded() -> Failure {
    Failure::unavailable("too many requests are being served; repeat this one", "no room for another request")
}

/// Returns the problems that an answer lists, at most [`MOST_PROBLEMS`]. If there are more, the last entry states how many are
/// left out.
fn listed(problems: &[Problem]) -> Cow<'_, [Problem]> {
    if problems.len() <= MOST_PROBLEMS {
        return Cow::Borrowed(problems);
    }
    let (shown, left_out) = problems.split_at(MOST_PROBLEMS - 1);
    let message = format!("{} further problems are not listed; fix these first", left_out.len());
    let mut shown = shown.to_vec();
    shown.push(Problem::new("", "too_many_problems", message));
    Cow::Owned(shown)
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Invalid(problems) => write!(f, "{} problems", problems.len()),
            Failure::Refused { message, .. } => f.write_str(message),
            Failure::QuotaReached { message, .. } => f.write_str(message),
            Failure::Method(_) => f.write_str(NO_SUCH_METHOD),
            Failure::Limited { .. } => f.write_str(LIMITED),
            Failure::Full { .. } => f.write_str(FULL),
            Failure::Unavailable { cause, .. } | Failure::Defect(cause) => f.write_str(cause),
        }
    }
}

impl Failure {
    /// Returns the code that answers contain.
    pub fn code(&self) -> &'static str {
        match self {
            Failure::Invalid(problems) => problems.first().map_or("invalid", |problem| problem.code),
            Failure::Refused { code, .. } => code,
            Failure::Method(_) => "method_not_allowed",
            Failure::Limited { .. } => "rate_limited",
            Failure::QuotaReached { .. } => "quota_reached",
            Failure::Unavailable { .. } | Failure::Full { .. } => "unavailable",
            Failure::Defect(_) => "internal",
        }
    }

    /// Returns the message for the caller. Unlike the text of [`Display`], it contains no internal cause.
    pub fn public_message(&self) -> String {
        match self {
            Failure::Invalid(problems) => {
                problems.first().map_or_else(String::new, |problem| problem.message.clone())
            }
            Failure::Unavailable { message, .. } => (*message).to_owned(),
            Failure::Defect(cause) => {
                tracing::error!(cause, "a live connection failed with an internal error");
                "internal error".to_owned()
            }
            other => other.to_string(),
        }
    }
}

impl ResponseError for Failure {
    fn status_code(&self) -> StatusCode {
        match self {
            Failure::Invalid(_) => StatusCode::BAD_REQUEST,
            Failure::Refused { status, .. } => *status,
            Failure::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Failure::Limited { .. } | Failure::QuotaReached { .. } => StatusCode::TOO_MANY_REQUESTS,
            Failure::Unavailable { .. } | Failure::Full { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Failure::Defect(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        let body = |message, code| ErrorBody { status: ERROR, message, code };
        match self {
            Failure::Invalid(problems) => {
                let problems = listed(problems);
                let message = problems.iter().map(|problem| problem.message.as_str()).collect();
                response.json(ProblemsBody { status: ERROR, message, errors: &problems })
            }
            Failure::Refused { status, code, message } => {
                if *status == StatusCode::UNAUTHORIZED {
                    response.insert_header((WWW_AUTHENTICATE, CHALLENGE));
                }
                response.json(body(message, code))
            }
            Failure::Method(allow) => {
                response.insert_header((ALLOW, allow.as_str()));
                response.json(body(NO_SUCH_METHOD, "method_not_allowed"))
            }
            Failure::Limited { seconds } => {
                response.insert_header((RETRY_AFTER, *seconds));
                response.json(body(LIMITED, "rate_limited"))
            }
            Failure::QuotaReached { message, seconds } => {
                response.insert_header((RETRY_AFTER, *seconds));
                response.json(body(message, "quota_reached"))
            }
            Failure::Full { seconds } => {
                response.insert_header((RETRY_AFTER, *seconds));
                response.json(body(FULL, "unavailable"))
            }
            Failure::Unavailable { message, cause } => {
                if let Some(left_out) = UNAVAILABLE.line(message, Instant::now()) {
                    tracing::warn!(
                        cause,
                        left_out,
                        "cannot serve a request now; answered it with 503, so the client may retry it"
                    );
                }
                response.insert_header((RETRY_AFTER, RETRY_AFTER_SECONDS));
                response.json(body(message, "unavailable"))
            }
            Failure::Defect(cause) => {
                let error_id = clock::new_id();
                tracing::error!(%error_id, cause, "a request failed with an internal error");
                let (message, code) = ("internal error", "internal");
                response.json(DefectBody { status: ERROR, message, code, error_id })
            }
        }
    }
}
