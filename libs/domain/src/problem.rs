use serde::Serialize;
use serde_json::{Value, json};

use crate::body::{Described, ObjectSchema, Presence, Schemas, named};
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

impl Described for Problem {
    fn schema(schemas: &mut Schemas) -> Value {
        named(schemas, "Problem", |_| {
            let mut problem = ObjectSchema::new(&["One problem of a request."]);
            let mut add = |key, about: &str| {
                problem.add(key, Presence::Required, &[about], json!({"type": "string"}));
            };
            add(
                "field",
                "Path of the member, such as `sendTo.recipients[3]`, or the name of a parameter or header; empty if the problem\n\
                 concerns the whole body.",
            );
            add("code", "Stable code, such as `too_long`.");
            add("message", "One sentence that names the field and the fix.");
            problem.finish()
        })
    }
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
