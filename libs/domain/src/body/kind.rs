//! Kinds of members.

use std::marker::PhantomData;

use serde_json::{Value, json};

use super::{Body, Described, Kind, Schemas, reference};
use crate::content::Object;
use crate::fields::Fields;
use crate::{Channel, Lane, Problem, Timestamp};

/// A value of any type, which the reader checks itself. `S` gives the schema.
#[derive(Debug)]
pub struct Any<S>(PhantomData<S>);

/// A member that is read as `K`. `S` gives the schema, whose other rules the reader checks itself.
#[derive(Debug)]
pub struct As<S, K>(PhantomData<(S, K)>);

/// A string of at most `MAX` bytes.
#[derive(Debug)]
pub struct Text<const MAX: usize>;

/// A string of 1 to `MAX` bytes.
#[derive(Debug)]
pub struct Filled<const MAX: usize>;

/// A single-line string of 1 to `MAX` bytes, without control characters.
#[derive(Debug)]
pub struct Line<const MAX: usize>;

/// A link of at most `MAX` bytes.
#[derive(Debug)]
pub struct Link<const MAX: usize>;

/// An icon of at most `MAX` bytes.
#[derive(Debug)]
pub struct Icon<const MAX: usize>;

/// A string without a limit of its own.
#[derive(Debug)]
pub struct AnyText;

/// An identifier that the app chose: 1 to 255 bytes without control characters.
#[derive(Debug)]
pub struct Identifier;

/// An RFC 3339 date-time.
#[derive(Debug)]
pub struct Time;

/// A boolean.
#[derive(Debug)]
pub struct Flag;

/// A whole number.
#[derive(Debug)]
pub struct Whole;

/// An object whose members are not checked.
#[derive(Debug)]
pub struct FreeObject;

/// An array of `S`. If `MAX` is not 0, it is the maximum number of elements, which the reader checks itself.
#[derive(Debug)]
pub struct List<S, const MAX: usize = 0>(PhantomData<S>);

/// An object that has its own declaration.
#[derive(Debug)]
pub struct Nested<B>(PhantomData<B>);

/// Like [`Nested`], but the schema is not named.
#[derive(Debug)]
pub struct Inline<B>(PhantomData<B>);

/// A deprecated member.
#[derive(Debug)]
pub struct Deprecated<K>(PhantomData<K>);

/// Returns the schema of a string whose length the reader counts in bytes. JSON Schema counts characters, of which there are never
/// more than bytes. So `maxLength` allows every valid string, and the description states the limit in bytes.
#[must_use]
pub fn bytes(min: usize, max: usize) -> Value {
    let mut schema = json!({
        "type": "string",
        "maxLength": max,
        "description": format!("At most {max} bytes of UTF-8."),
    });
    if min > 0 {
        schema["minLength"] = min.into();
    }
    schema
}

/// Returns the schema of a string with a pattern.
#[must_use]
pub fn with_pattern(mut schema: Value, pattern: &str) -> Value {
    schema["pattern"] = pattern.into();
    schema
}

crate::kinds! {
    Text<MAX>, (const MAX: usize) => String, |fields, key, problems| fields.string(key, MAX, problems), |_| bytes(0, MAX);
    Filled<MAX>, (const MAX: usize) => String, read_filled::<MAX>, |_| bytes(1, MAX);
    Line<MAX>, (const MAX: usize) => String, |fields, key, problems| fields.line(key, MAX, problems), |_| bytes(1, MAX);
    Link<MAX>, (const MAX: usize) => String, |fields, key, problems| fields.link(key, MAX, problems), |_| bytes(0, MAX);
    Icon<MAX>, (const MAX: usize) => String, |fields, key, problems| fields.icon(key, MAX, problems), |_| bytes(0, MAX);
    Identifier, () => String, |fields, key, problems| fields.identifier(key, problems), |_| reference("Identifier");
    AnyText, () => String, |fields, key, problems| fields.string(key, usize::MAX, problems), |_| json!({"type": "string"});
    Time, () => Timestamp, |fields, key, problems| fields.time(key, problems), |_| reference("Time");
    Flag, () => bool, |fields, key, problems| fields.flag(key, problems), |_| json!({"type": "boolean"});
    Whole, () => i64, |fields, key, problems| fields.whole_number(key, problems), |_| json!({"type": "integer", "format": "int64"});
    FreeObject, () => Object, |fields, key, problems| fields.free_object(key, problems), |_| reference("FreeObject");
    Any<S>, (S: Described) => Value, |fields, key, _| fields.take(key), S::schema;
    Nested<B>, (B: Body) => B, |fields, key, problems| fields.object(key, problems).map(B::of), B::schema;
    Inline<B>, (B: Body) => B, |fields, key, problems| fields.object(key, problems).map(B::of), B::definition;
    List<S, MAX>, (S: Described, const MAX: usize) => Vec<Value>, |fields, key, problems| fields.array(key, problems), list::<S, MAX>;
    As<S, K>, (S: Described, K: Kind) => K::Value, K::read, S::schema;
    Deprecated<K>, (K: Kind) => K::Value, K::read, deprecated::<K>;
}

fn list<S: Described, const MAX: usize>(schemas: &mut Schemas) -> Value {
    let mut schema = json!({"type": "array", "items": S::schema(schemas)});
    if MAX > 0 {
        schema["maxItems"] = MAX.into();
    }
    schema
}

fn deprecated<S: Described>(schemas: &mut Schemas) -> Value {
    let mut schema = S::schema(schemas);
    schema["deprecated"] = true.into();
    schema
}

fn read_filled<const MAX: usize>(
    fields: &mut Fields,
    key: &'static str,
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let text = fields.string(key, MAX, problems)?;
    if text.is_empty() {
        let path = fields.path(key);
        problems.push(Problem::new(&path, "empty", format!("{path} must not be empty")));
    }
    Some(text)
}

crate::schemas! {
    /// An identifier of a topic.
    pub TopicIdentifier = |_| reference("TopicIdentifier");
    /// A whole number that the service assigned as an id.
    pub Id = |_| reference("Id");
}

impl Described for Lane {
    fn schema(_: &mut Schemas) -> Value {
        reference("Lane")
    }
}

impl Described for Channel {
    fn schema(_: &mut Schemas) -> Value {
        reference("Channel")
    }
}
