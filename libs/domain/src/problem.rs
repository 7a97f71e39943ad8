//! Validation problems of requests, phrased so that the caller can fix them.

use serde::Serialize;

use crate::excerpt::excerpt;

/// Longest `field` of a problem, in bytes.
pub const MAX_FIELD: usize = 256;
/// Longest `message` of a problem, in bytes.
pub const MAX_PROBLEM_MESSAGE: usize = 1024;

/// One validation problem of a request body or query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Path of the offending member, such as `sendTo.recipients[3]`.
    pub field: String,
    /// Stable machine-readable code, such as `too_long`.
    pub code: &'static str,
    /// One sentence that names the field and the fix.
    pub message: String,
}

impl Problem {
    /// Creates a problem with the member at the path `field`. `message` must also name the member, because it may be shown
    /// without `field`. Truncates a field or message that is too long.
    pub fn new(field: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Problem {
            field: excerpt(field.into(), MAX_FIELD),
            code,
            message: excerpt(message.into(), MAX_PROBLEM_MESSAGE),
        }
    }
}

/// Joins the messages of problems into one line.
#[must_use]
pub fn joined(problems: &[Problem]) -> String {
    problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
}

/// A text that is not the name of any value of an enum.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind}")]
pub struct UnknownName {
    /// Name of the enum.
    pub kind: &'static str,
    /// The rejected text.
    pub text: String,
}
