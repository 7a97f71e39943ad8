//! What is wrong with a request, told so that the caller can mend it.

use serde::Serialize;

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
    /// A problem with `field`; `message` should read well on its own. Both are cut where they quote more than a reader
    /// needs.
    pub fn new(field: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Problem {
            field: excerpt(field.into(), MAX_FIELD),
            code,
            message: excerpt(message.into(), MAX_PROBLEM_MESSAGE),
        }
    }
}

/// The beginning of a text that is longer than `most` bytes, with an ellipsis.
#[must_use]
pub fn excerpt(mut text: String, most: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most.saturating_sub(ELLIPSIS.len())));
        text.push_str(ELLIPSIS);
    }
    text
}

/// A text that names no value of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {kind}")]
pub struct UnknownName {
    /// The enumeration asked for.
    pub kind: &'static str,
    /// The text that was given.
    pub text: String,
}
