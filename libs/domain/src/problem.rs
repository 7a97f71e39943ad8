use serde::Serialize;

use crate::excerpt::excerpt;

/// Length in bytes.
pub const MAX_FIELD: usize = 256;
/// Length in bytes.
pub const MAX_PROBLEM_MESSAGE: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Path of the offending member, such as `sendTo.recipients[3]`.
    pub field: String,
    /// Stable and machine-readable, such as `too_long`.
    pub code: &'static str,
    /// One sentence that names the field and the fix.
    pub message: String,
}

impl Problem {
    /// `message` must also name the member, because it may be shown without `field`. Texts that are too long are truncated.
    pub fn new(field: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Problem {
            field: excerpt(field.into(), MAX_FIELD),
            code,
            message: excerpt(message.into(), MAX_PROBLEM_MESSAGE),
        }
    }
}

#[must_use]
pub fn joined(problems: &[Problem]) -> String {
    problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind}")]
pub struct UnknownName {
    pub kind: &'static str,
    pub text: String,
}
