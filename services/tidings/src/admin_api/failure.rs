//! Failures of calls. If a cause is that of a use case, the error is the one that the use case returns.

use std::error::Error;

use domain::Problem;
use operations::{Conflict, Object, OperationError};
use reqwest::StatusCode;
use serde_json::Value;
use url::Url;

/// Beginning of the message for an unknown person with similar identifiers.
const SIMILAR: &str = "no such user; similar identifiers: ";

/// Failure of a call that no use case returns. Its text never contains the token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the console at {url} cannot be reached: {cause}")]
    Unreachable { url: String, cause: String },
    #[error("the console at {0} did not answer in time")]
    Slow(String),
    #[error("{url} redirects{to}: a token is not sent on, so name the address of the console itself")]
    Redirect { url: String, to: String },
    #[error(
        "{url} answered with {status} and {kind} instead of JSON: check the address and the base path, and whether a proxy asks for a sign-in"
    )]
    NoJson { url: String, status: StatusCode, kind: String },
    #[error("the answer has more than {0} bytes: ask for less, with --limit or a filter")]
    TooLarge(usize),
    #[error("the console answers in another form, so it may have another release than this program: {0}")]
    OtherRelease(serde_json::Error),
    #[error("the console has no such call, so it may have an earlier release than this program")]
    NoSuchCall,
    #[error("a URL cannot contain the name {0:?}: use an id, or run the command where DATABASE_URL is set")]
    Unnameable(String),
    #[error("the token is unknown, expired or revoked: `tidings token create` prints a new one")]
    Token,
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Refused(String),
}

impl CallError {
    pub(super) fn unanswered(url: &str, error: &reqwest::Error) -> CallError {
        if error.is_timeout() && !error.is_connect() {
            return CallError::Slow(url.to_owned());
        }
        let mut cause: &dyn Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        CallError::Unreachable { url: url.to_owned(), cause: cause.to_string() }
    }

    /// Names only the origin, because the rest may contain secrets of a sign-in.
    pub(super) fn redirect(url: &str, to: Option<&str>) -> CallError {
        let to = to.and_then(|to| Url::parse(to).ok()).map(|to| to.origin().ascii_serialization());
        CallError::Redirect { url: url.to_owned(), to: to.map_or_else(String::new, |to| format!(" to {to}")) }
    }
}

impl From<CallError> for OperationError {
    fn from(error: CallError) -> OperationError {
        OperationError::Defect(Box::new(error))
    }
}

/// Returns true if the error is the one for a missing object.
pub(crate) fn is_missing(error: &OperationError) -> bool {
    match error {
        OperationError::NotFound(_) => true,
        OperationError::Defect(cause) => matches!(cause.downcast_ref(), Some(CallError::Missing(_))),
        _ => false,
    }
}

/// Returns true if the missing object is of this kind.
pub(crate) fn names(error: &OperationError, object: Object) -> bool {
    let OperationError::Defect(cause) = error else { return false };
    let Some(CallError::Missing(message)) = cause.downcast_ref() else { return false };
    message.split(';').next() == Some(&format!("no such {object}"))
}

/// Returns the identifiers that are similar to the one of a missing person.
pub(crate) fn similar(error: &OperationError) -> Vec<String> {
    let OperationError::Defect(cause) = error else { return Vec::new() };
    let Some(CallError::Missing(message)) = cause.downcast_ref() else { return Vec::new() };
    let listed = message.strip_prefix(SIMILAR).into_iter().flat_map(|listed| listed.split(", "));
    listed.map(str::to_owned).collect()
}

/// Returns the error for an answer without success.
pub(super) fn of_answer(status: StatusCode, answer: &Value) -> OperationError {
    let message = answer["message"].as_str().unwrap_or_default();
    let code = answer["code"].as_str().unwrap_or_default();
    let refused = |text: String| OperationError::from(CallError::Refused(text));
    match status {
        StatusCode::BAD_REQUEST => invalid(answer),
        StatusCode::UNAUTHORIZED => CallError::Token.into(),
        StatusCode::FORBIDDEN => match answer["needs"].as_str() {
            Some(role) => refused(format!("the token needs the role {role} or a higher one")),
            None => refused(message.to_owned()),
        },
        StatusCode::NOT_FOUND if message.starts_with("no such call") => CallError::NoSuchCall.into(),
        StatusCode::NOT_FOUND => CallError::Missing(message.to_owned()).into(),
        StatusCode::CONFLICT => match Conflict::of_code(code) {
            Some(conflict) => OperationError::Conflict(conflict),
            None => refused(message.to_owned()),
        },
        StatusCode::INTERNAL_SERVER_ERROR => {
            let id = answer["errorId"].as_str().unwrap_or_default();
            refused(format!("the console failed with an internal error, which its log has with the id {id}"))
        }
        _ if message.is_empty() => refused(format!("the console answered with {status}")),
        _ => refused(message.to_owned()),
    }
}

fn invalid(answer: &Value) -> OperationError {
    let problems = answer["errors"].as_array().into_iter().flatten().map(|problem| {
        let text = |name: &str| problem[name].as_str().unwrap_or_default();
        Problem::new(text("field"), "invalid", text("message"))
    });
    OperationError::Invalid(problems.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_become_the_errors_of_use_cases_and_say_what_to_do() {
        let shown = |status: u16, answer: Value| {
            of_answer(StatusCode::from_u16(status).unwrap(), &answer).to_string()
        };
        let problem = json!({"message": ["name is too long"], "errors": [{"field": "name", "code": "too_long", "message": "name is too long"}]});
        for (status, answer, expected) in [
            (400, problem, "name is too long"),
            (
                401,
                json!({"code": "invalid_token", "message": "x"}),
                "`tidings token create` prints a new one",
            ),
            (403, json!({"code": "role_required", "needs": "operator"}), "the role operator"),
            (403, json!({"code": "quota_reached", "message": "the quota", "needs": null}), "the quota"),
            (404, json!({"code": "not_found", "message": "no such provider"}), "no such provider"),
            (404, json!({"code": "not_found", "message": "no such call; …"}), "an earlier release"),
            (409, json!({"code": "name_taken", "message": "x"}), "the name is taken"),
            (409, json!({"code": "of_a_later_release", "message": "it is not allowed"}), "it is not allowed"),
            (412, json!({"code": "stale_version", "message": "read it again"}), "read it again"),
            (429, json!({"code": "rate_limited", "message": "too many"}), "too many"),
            (500, json!({"code": "internal", "errorId": "7"}), "with the id 7"),
            (503, json!({"code": "unavailable", "message": "repeat it"}), "repeat it"),
            (502, json!({}), "502"),
        ] {
            let text = shown(status, answer);
            assert!(text.contains(expected), "{status}: {text}");
        }
    }

    #[test]
    fn a_redirect_is_reported_without_the_path_and_the_query() {
        let to = Some("https://sso.example.com/start?rd=secret");
        let text = CallError::redirect("https://console.example.com", to).to_string();
        assert!(text.contains("https://sso.example.com:") && !text.contains("secret"), "{text}");
    }
}
