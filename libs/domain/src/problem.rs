//! What is wrong with a request, told so that the caller can mend it.

use serde::Serialize;

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
    /// A problem with `field`; `message` should read well on its own.
    pub fn new(field: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Problem { field: field.into(), code, message: message.into() }
    }
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
