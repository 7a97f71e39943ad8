//! Reads a JSON body member by member, and collects every problem instead of stopping at the first.

use serde_json::Value;

use crate::content::Object;
use crate::excerpt::excerpt;
use crate::link::{is_icon, is_link};
use crate::problem::MAX_FIELD;
use crate::{Problem, Timestamp};

/// Nesting of arrays and objects in a request.
pub const MAX_DEPTH: usize = 32;

/// Largest whole number that every JSON parser represents exactly: 2^53 − 1.
pub const MAX_SAFE_NUMBER: f64 = 9_007_199_254_740_991.0;

/// Length of an identifier or idempotency key, in bytes.
pub const MAX_IDENTIFIER: usize = 255;

const MAX_PROBLEMS: usize = 1_000;

/// Methods that read a member return None if it is missing, `null` or invalid. If it is invalid, they also add a problem.
#[derive(Debug)]
pub struct Fields {
    path: String,
    members: Object,
}

impl Fields {
    /// Opens `value` as an object at `path`, which is empty for the body itself. An empty array is accepted as an empty object.
    pub fn open(path: &str, value: Value, problems: &mut Vec<Problem>) -> Option<Fields> {
        match value {
            Value::Object(members) => Some(Fields { path: path.to_owned(), members }),
            Value::Array(items) if items.is_empty() => {
                Some(Fields { path: path.to_owned(), members: Object::new() })
            }
            _ => {
                let name = if path.is_empty() { "the body" } else { path };
                problems.push(Problem::new(path, "invalid_type", format!("{name} must be an object")));
                None
            }
        }
    }

    #[must_use]
    pub fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// True if the member exists and is not `null`.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.members.get(key).is_some_and(|value| !value.is_null())
    }

    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.members.remove(key).filter(|value| !value.is_null())
    }

    /// `max` is in bytes.
    pub fn string(&mut self, key: &str, max: usize, problems: &mut Vec<Problem>) -> Option<String> {
        let value = self.take(key)?;
        let path = self.path(key);
        match value {
            Value::String(text) if text.len() <= max => Some(text),
            Value::String(text) => {
                let message = format!("{path} has {} bytes; at most {max} are allowed", text.len());
                problems.push(Problem::new(path, "too_long", message));
                None
            }
            _ => {
                let message = format!("{path} must be a string");
                problems.push(Problem::new(path, "invalid_type", message));
                None
            }
        }
    }

    /// Reads 1 to `max` bytes without control characters.
    pub fn line(&mut self, key: &str, max: usize, problems: &mut Vec<Problem>) -> Option<String> {
        let text = self.string(key, max, problems)?;
        let path = self.path(key);
        let problem = if text.is_empty() {
            Problem::new(&path, "empty", format!("{path} must not be empty"))
        } else if text.chars().any(char::is_control) {
            let message = format!("{path} must not contain line breaks or other control characters");
            Problem::new(&path, "invalid_character", message)
        } else {
            return Some(text);
        };
        problems.push(problem);
        None
    }

    pub fn link(&mut self, key: &str, max: usize, problems: &mut Vec<Problem>) -> Option<String> {
        let text = self.string(key, max, problems)?;
        let demand = "must be a relative link, or one of http, https, mailto or a scheme of your app";
        self.demand(key, text, is_link, demand, problems)
    }

    pub fn icon(&mut self, key: &str, max: usize, problems: &mut Vec<Problem>) -> Option<String> {
        let text = self.string(key, max, problems)?;
        let demand = "must be a name, a link to an image (http, https or relative) or data:image/…";
        self.demand(key, text, is_icon, demand, problems)
    }

    fn demand(
        &self,
        key: &str,
        text: String,
        holds: fn(&str) -> bool,
        demand: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<String> {
        if holds(&text) {
            return Some(text);
        }
        let path = self.path(key);
        let message = format!("{path} {demand}");
        problems.push(Problem::new(path, "invalid_link", message));
        None
    }

    /// Reads 1 to 255 bytes without control characters.
    pub fn identifier(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<String> {
        let path = self.path(key);
        match self.take(key)? {
            Value::String(text) => check_identifier(&path, text, problems),
            _ => {
                problems.push(Problem::new(&path, "invalid_type", format!("{path} must be a string")));
                None
            }
        }
    }

    pub fn required_identifier(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<String> {
        self.require(key, problems);
        self.identifier(key, problems)
    }

    pub fn require(&self, key: &str, problems: &mut Vec<Problem>) {
        if !self.has(key) {
            let path = self.path(key);
            problems.push(Problem::new(&path, "required", format!("{path} is required")));
        }
    }

    pub fn object(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<Fields> {
        let value = self.take(key)?;
        Fields::open(&self.path(key), value, problems)
    }

    pub fn free_object(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<Object> {
        self.object(key, problems).map(|fields| fields.members)
    }

    pub fn array(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<Vec<Value>> {
        match self.take(key)? {
            Value::Array(items) => Some(items),
            _ => {
                let path = self.path(key);
                problems.push(Problem::new(&path, "invalid_type", format!("{path} must be an array")));
                None
            }
        }
    }

    pub fn flag(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<bool> {
        let value = self.take(key)?;
        let flag = value.as_bool();
        if flag.is_none() {
            let path = self.path(key);
            problems.push(Problem::new(&path, "invalid_type", format!("{path} must be true or false")));
        }
        flag
    }

    /// Accepts `7.0` as 7.
    pub fn whole_number(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<i64> {
        let value = self.take(key)?;
        let number = value.as_i64().or_else(|| whole(value.as_f64()?));
        if number.is_none() {
            let path = self.path(key);
            problems.push(Problem::new(&path, "invalid_type", format!("{path} must be a whole number")));
        }
        number
    }

    pub fn time(&mut self, key: &str, problems: &mut Vec<Problem>) -> Option<Timestamp> {
        let value = self.take(key)?;
        let time = value.as_str().and_then(Timestamp::parse);
        if time.is_none() {
            let path = self.path(key);
            let message = format!("{path} must be an RFC 3339 date-time such as 2027-01-31T09:00:00Z");
            problems.push(Problem::new(path, "invalid_time", message));
        }
        time
    }

    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }

    #[must_use]
    pub fn rest(self) -> Object {
        self.members
    }

    /// Reports members that were not read as problems, if `strict`.
    pub fn finish(self, strict: bool, problems: &mut Vec<Problem>) {
        if strict {
            for key in self.members.keys() {
                let path = self.path(key);
                problems.push(Problem::new(
                    &path,
                    "unknown_member",
                    format!("{path} is not a member of this request"),
                ));
            }
        }
    }
}

// Returns None for a number beyond ±(2^53 − 1): the JSON parser may have rounded it to a number that the client did not send.
fn whole(number: f64) -> Option<i64> {
    let exact = number.fract() == 0.0 && number.abs() <= MAX_SAFE_NUMBER;
    exact.then_some(number as i64)
}

/// Accepts 1 to 255 bytes without control characters.
pub fn check_identifier(path: &str, text: String, problems: &mut Vec<Problem>) -> Option<String> {
    let problem = if text.is_empty() {
        Problem::new(path, "empty", format!("{path} must not be empty"))
    } else if text.len() > MAX_IDENTIFIER {
        let message = format!("{path} has {} bytes; at most {MAX_IDENTIFIER} are allowed", text.len());
        Problem::new(path, "too_long", message)
    } else if text.chars().any(char::is_control) {
        Problem::new(path, "invalid_character", format!("{path} must not contain control characters"))
    } else {
        return Some(text);
    };
    problems.push(problem);
    None
}

/// Reports each U+0000, each number outside ±(2^53 − 1) and each value nested deeper than 32 levels. Stops at 1,000 problems, the most that
/// a response lists; a request of a few KiB could otherwise produce millions.
pub fn check_plain_json(path: &str, value: &Value, problems: &mut Vec<Problem>) {
    walk(path, value, 1, problems);
}

fn walk(path: &str, value: &Value, depth: usize, problems: &mut Vec<Problem>) {
    if problems.len() >= MAX_PROBLEMS {
        return;
    }
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => {
            if number.as_f64().is_none_or(|number| number.abs() > MAX_SAFE_NUMBER) {
                problems.push(Problem::new(
                    path,
                    "unsafe_number",
                    format!("{path} must lie within ±(2^53 − 1)"),
                ));
            }
        }
        Value::String(text) => check_no_nul(path, text, problems),
        _ if depth > MAX_DEPTH => {
            problems.push(Problem::new(
                path,
                "too_deep",
                format!("{path} nests deeper than {MAX_DEPTH} levels"),
            ));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if needs_walk(item) {
                    walk(&excerpt(format!("{path}[{index}]"), MAX_FIELD), item, depth + 1, problems);
                }
            }
        }
        Value::Object(members) => {
            for (key, item) in members {
                check_no_nul(path, key, problems);
                if needs_walk(item) {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    walk(&excerpt(path, MAX_FIELD), item, depth + 1, problems);
                }
            }
        }
    }
}

// Building a path costs an allocation, so build it only for values that can have a problem.
fn needs_walk(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => number.as_f64().is_none_or(|number| number.abs() > MAX_SAFE_NUMBER),
        Value::String(text) => text.contains('\0'),
        Value::Array(_) | Value::Object(_) => true,
    }
}

fn check_no_nul(path: &str, text: &str, problems: &mut Vec<Problem>) {
    if text.contains('\0') {
        problems.push(Problem::new(path, "invalid_character", format!("{path} must not contain U+0000")));
    }
}
