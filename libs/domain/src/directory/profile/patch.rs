//! JSON Patch (RFC 6902) on profiles.

use std::slice;

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchErrorKind, PatchOperation, RemoveOperation,
    ReplaceOperation, TestOperation,
};
use serde_json::{Number, Value, json};

use super::change::check_whole;
use super::{MAX_PROFILE, Refusal, check, tokens};
use crate::Problem;
use crate::body::{Schemas, named, reference};
use crate::content::Object;
use crate::fields::MAX_DEPTH;
use crate::size::json_size;

/// Limit for a caller with the app's secret.
pub const MAX_OPERATIONS: usize = 1_000;
/// Limit for any other caller.
pub const MAX_USER_OPERATIONS: usize = 100;
/// Bytes that the operations of a patch may process in total. Each operation counts as the whole document, because it may have to walk,
/// move or copy all of it.
pub const MAX_WORK: usize = 1024 * 1024;

const OPERATIONS: [&str; 6] = ["add", "remove", "replace", "move", "copy", "test"];
const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

crate::schemas! {
    /// Schema of a JSON Patch.
    pub PatchSchema = |schemas| named(schemas, "JsonPatch", |schemas| json!({
        "description": "A JSON Patch (RFC 6902): at most 1,000 operations with the API secret, otherwise 100. The number of \
            operations times the\nsize of the profile in bytes must not exceed 1 MiB.",
        "type": "array",
        "maxItems": MAX_OPERATIONS,
        "items": named(schemas, "PatchOperation", operation_schema),
        "example": [
            {"op": "test", "path": "/plan", "value": "free"},
            {"op": "replace", "path": "/plan", "value": "pro"},
            {"op": "remove", "path": "/fcm/tokens/0"},
        ],
    }));
}

fn operation_schema(schemas: &mut Schemas) -> Value {
    named(schemas, "Pointer", |_| {
        json!({
            "description": "A JSON Pointer (RFC 6901).",
            "type": "string",
            "pattern": "^(/([^~]|~[01])*)?$",
            "example": "/plan",
        })
    });
    let operations = OPERATIONS.map(|name| {
        let mut operation = json!({
            "type": "object",
            "required": ["path", "op"],
            "properties": {"op": {"type": "string", "enum": [name]}, "path": reference("Pointer")},
        });
        let (member, schema, required) = match name {
            "remove" => return operation,
            "move" | "copy" => ("from", reference("Pointer"), ["from", "path", "op"]),
            _ => ("value", json!({}), ["path", "value", "op"]),
        };
        operation["required"] = json!(required);
        operation["properties"][member] = schema;
        operation
    });
    json!({"description": "An operation of a JSON Patch.", "oneOf": operations})
}

/// A well-formed JSON Patch.
#[derive(Clone, Debug)]
pub struct Patch(Vec<PatchOperation>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchFailure {
    #[error("the value at path differs")]
    TestFailed,
    /// `path` does not exist, or the operation cannot be applied there.
    #[error("path does not exist")]
    NoPath,
    #[error("from does not exist")]
    NoFrom,
    #[error("path is inside from")]
    IntoItself,
}

impl Patch {
    /// Reads a patch of at most `most` operations. Problems name the operation and its member, such as `[2].op`. With `strict`, members
    /// that RFC 6902 does not define are problems.
    pub fn read(items: Vec<Value>, most: usize, strict: bool, problems: &mut Vec<Problem>) -> Patch {
        if items.len() > most {
            let with_secret = if most < MAX_OPERATIONS {
                format!(", and {MAX_OPERATIONS} with the API secret")
            } else {
                String::new()
            };
            let sent = items.len();
            let message = format!("the patch has {sent} operations; at most {most} are allowed{with_secret}");
            problems.push(Problem::new("", "too_many", message));
            return Patch(Vec::new());
        }
        let read = |(index, item)| read_operation(&format!("[{index}]"), item, strict, problems);
        Patch(items.into_iter().enumerate().filter_map(read).collect())
    }

    /// Returns true if an operation reads or writes the whole document, or a key for which `is_meant` returns true.
    pub(super) fn touches(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        let touches = |pointer: &PointerBuf| pointer.first().is_none_or(|key| is_meant(&key.decoded()));
        self.0.iter().any(|operation| match operation {
            PatchOperation::Add(AddOperation { path, .. })
            | PatchOperation::Remove(RemoveOperation { path })
            | PatchOperation::Replace(ReplaceOperation { path, .. })
            | PatchOperation::Test(TestOperation { path, .. }) => touches(path),
            PatchOperation::Move(MoveOperation { path, from })
            | PatchOperation::Copy(CopyOperation { path, from }) => touches(path) || touches(from),
        })
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().filter_map(|operation| match operation {
            PatchOperation::Add(AddOperation { value, .. })
            | PatchOperation::Replace(ReplaceOperation { value, .. }) => Some(value),
            _ => None,
        })
    }

    pub(super) fn written_pairs(&self) -> Object {
        let mut pairs = Object::new();
        for operation in &self.0 {
            let (PatchOperation::Add(AddOperation { path, value })
            | PatchOperation::Replace(ReplaceOperation { path, value })) = operation
            else {
                continue;
            };
            match (path.first(), path.count(), value) {
                (Some(key), 1, value) => drop(pairs.insert(key.decoded().into_owned(), value.clone())),
                (None, _, Value::Object(members)) => pairs.clone_from(members),
                _ => {}
            }
        }
        pairs
    }

    /// Brings the push tokens of the result into the form that a merge produces.
    pub(super) fn apply(&self, profile: &Object) -> Result<Object, Refusal> {
        let Value::Object(mut profile) = self.apply_to(Value::Object(profile.clone()))? else {
            return Err(Refusal::NoObject);
        };
        let mut problems = Vec::new();
        check("", &profile, &mut problems);
        if !problems.is_empty() {
            return Err(Refusal::Invalid(problems));
        }
        tokens::settle(&mut profile);
        check_whole(&profile)?;
        Ok(profile)
    }

    /// Applies all operations to a document. Fails if they process more than [`MAX_WORK`] bytes, or if the document meanwhile becomes
    /// larger or deeper than a profile may be, even if later operations would shrink it again: copies of copies could exhaust memory.
    pub fn apply_to(&self, mut document: Value) -> Result<Value, Refusal> {
        let mut size = json_size(&document);
        let mut work = 0;
        for (index, operation) in self.0.iter().enumerate() {
            work += size;
            if work > MAX_WORK {
                return Err(Refusal::TooMuchWork { operations: self.0.len(), size });
            }
            apply_one(operation, &mut document).map_err(|cause| Refusal::Inapplicable(index, cause))?;
            if !matches!(operation, PatchOperation::Test(_)) {
                size = bounded_size(&document)?;
            }
        }
        Ok(document)
    }
}

fn read_operation(
    at: &str,
    item: Value,
    strict: bool,
    problems: &mut Vec<Problem>,
) -> Option<PatchOperation> {
    let Value::Object(mut members) = item else {
        problems.push(Problem::new(at, "invalid_type", format!("{at} must be an object")));
        return None;
    };
    let op = read_op(at, members.get("op"), problems);
    let path = read_pointer(format!("{at}.path"), members.get("path"), problems);
    let from = match op {
        Some("move" | "copy") => read_pointer(format!("{at}.from"), members.get("from"), problems),
        _ => None,
    };
    // A value of `null` is not missing: an operation may set `null` or test for it.
    let value = members.remove("value");
    if value.is_none() && matches!(op, Some("add" | "replace" | "test")) {
        problems.push(required(&format!("{at}.value")));
    }
    for key in members.keys().filter(|key| strict && !MEMBERS.contains(&key.as_str())) {
        let message = format!("{at}.{key} is not a member of a patch operation");
        problems.push(Problem::new(format!("{at}.{key}"), "unknown_member", message));
    }
    let path = path?;
    Some(match op? {
        "add" => PatchOperation::Add(AddOperation { path, value: value? }),
        "replace" => PatchOperation::Replace(ReplaceOperation { path, value: value? }),
        "test" => PatchOperation::Test(TestOperation { path, value: value? }),
        "move" => PatchOperation::Move(MoveOperation { path, from: from? }),
        "copy" => PatchOperation::Copy(CopyOperation { path, from: from? }),
        _ => PatchOperation::Remove(RemoveOperation { path }),
    })
}

fn read_op(at: &str, op: Option<&Value>, problems: &mut Vec<Problem>) -> Option<&'static str> {
    let at = format!("{at}.op");
    let problem = match op {
        None => required(&at),
        Some(Value::String(sent)) => match OPERATIONS.into_iter().find(|known| known == sent) {
            Some(op) => return Some(op),
            None => {
                let message = format!("{at} must be one of {}", OPERATIONS.join(", "));
                Problem::new(at, "unknown_value", message)
            }
        },
        Some(_) => Problem::new(&at, "invalid_type", format!("{at} must be a string")),
    };
    problems.push(problem);
    None
}

fn read_pointer(at: String, pointer: Option<&Value>, problems: &mut Vec<Problem>) -> Option<PointerBuf> {
    let problem = match pointer {
        None => required(&at),
        Some(Value::String(text)) => match PointerBuf::parse(text.as_str()) {
            Ok(pointer) => return Some(pointer),
            Err(_) => {
                let message = format!("{at} must be a JSON Pointer, such as /name or /plan/tiers/0");
                Problem::new(at, "invalid_pointer", message)
            }
        },
        Some(_) => Problem::new(&at, "invalid_type", format!("{at} must be a string")),
    };
    problems.push(problem);
    None
}

fn required(at: &str) -> Problem {
    Problem::new(at, "required", format!("{at} is required"))
}

fn apply_one(operation: &PatchOperation, document: &mut Value) -> Result<(), PatchFailure> {
    if let PatchOperation::Test(TestOperation { path, value }) = operation {
        let found = document.pointer(path.as_str()).ok_or(PatchFailure::NoPath)?;
        return same(found, value).then_some(()).ok_or(PatchFailure::TestFailed);
    }
    // Callers drop the document if an operation fails, so the operations before it need no rollback.
    json_patch::patch_unsafe(document, slice::from_ref(operation)).map_err(|error| match error.kind {
        PatchErrorKind::TestFailed => PatchFailure::TestFailed,
        PatchErrorKind::InvalidFromPointer => PatchFailure::NoFrom,
        PatchErrorKind::CannotMoveInsideItself => PatchFailure::IntoItself,
        _ => PatchFailure::NoPath,
    })
}

/// Compares as RFC 6902, section 4.6, does: numbers by value, not by notation.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

// Requests may contain only whole numbers that an `f64` represents exactly.
fn same_number(one: &Number, other: &Number) -> bool {
    one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| one == other)
}

/// Size as JSON text, in bytes. Refuses a document that is larger or deeper than a profile may be.
fn bounded_size(document: &Value) -> Result<usize, Refusal> {
    if !is_within(document, MAX_DEPTH) {
        return Err(Refusal::TooDeep);
    }
    match json_size(document) {
        size if size > MAX_PROFILE => Err(Refusal::TooLong(size)),
        size => Ok(size),
    }
}

fn is_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => false,
        Value::Array(items) => items.iter().all(|item| is_within(item, levels - 1)),
        Value::Object(members) => members.values().all(|item| is_within(item, levels - 1)),
        _ => true,
    }
}
