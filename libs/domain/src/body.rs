//! Descriptions of request bodies. [`body!`](crate::body!) declares the members of a body once; the reader and the JSON Schema
//! of the OpenAPI document both come from the declaration.

pub mod kind;
pub mod rest;
#[cfg(test)]
mod tests;
pub mod words;

use serde_json::Map;

pub use serde_json::{Value, json};

use crate::Problem;
use crate::fields::Fields;

/// Schemas by name: `components.schemas` of the OpenAPI document.
pub type Schemas = Map<String, Value>;

/// Reads a member, as [`Kind::read`] does.
pub type Reader<T> = fn(&mut Fields, &'static str, &mut Vec<Problem>) -> Option<T>;

/// A type that has a JSON Schema.
pub trait Described {
    /// Returns the schema. Adds the named schemas to which it refers.
    fn schema(schemas: &mut Schemas) -> Value;
}

/// A kind of member: its JSON Schema and its reader.
pub trait Kind: Described {
    type Value;

    /// Reads the member `key`. Returns None if it is missing, `null` or invalid. If it is invalid, also adds a problem.
    fn read(fields: &mut Fields, key: &'static str, problems: &mut Vec<Problem>) -> Option<Self::Value>;
}

/// An object that [`body!`](crate::body!) declares.
pub trait Body: Described + Sized {
    fn of(fields: Fields) -> Self;

    /// Returns the members that were not read.
    fn into_fields(self) -> Fields;

    /// The schema itself, to which [`Described::schema`] refers by name.
    fn definition(schemas: &mut Schemas) -> Value;

    /// Opens `value` as [`Fields::open`] does.
    fn open(path: &str, value: Value, problems: &mut Vec<Problem>) -> Option<Self> {
        Fields::open(path, value, problems).map(Self::of)
    }
}

/// When a member must be present, and whether it may be `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Required,
    /// Like `Required`, but the reader reports in its own words that the member is missing.
    Worded,
    /// May be missing or `null`, which mean the same.
    Optional,
    /// The reader decides when it is required. The schema does not allow `null`.
    Conditional,
    /// Must be present, but may be `null`.
    Nullable,
}

/// Declares the members of a request body.
///
/// Each member has a presence ([`Presence`] in lower case), a name, its name in JSON after `as` if that differs, and a [`Kind`].
/// The macro creates a method for each member that reads it. The compiler therefore refuses a member that is read without being
/// declared. In this crate it warns of one that is never read; in the gateway, a test does. Doc comments become the descriptions of the schema.
#[macro_export]
macro_rules! body {
    (@key $member:ident) => { stringify!($member) };
    (@key $member:ident $key:literal) => { $key };
    (@name $name:ident) => { stringify!($name) };
    (@name $name:ident $title:literal) => { $title };
    (@presence required) => { $crate::body::Presence::Required };
    (@presence worded) => { $crate::body::Presence::Worded };
    (@presence optional) => { $crate::body::Presence::Optional };
    (@presence conditional) => { $crate::body::Presence::Conditional };
    (@presence nullable) => { $crate::body::Presence::Nullable };
    (
        $(#[doc = $about:literal])*
        $vis:vis struct $name:ident $(as $title:literal)? {
            $($(#[doc = $doc:literal])* $presence:ident $member:ident $(as $key:literal)?: $kind:ty,)*
            $(..$rest:ty)?
        }
        $(example $example:tt)?
    ) => {
        $(#[doc = $about])*
        #[derive(Debug)]
        $vis struct $name {
            fields: $crate::fields::Fields,
        }

        impl $name {
            $(
                fn $member(
                    &mut self,
                    problems: &mut Vec<$crate::Problem>,
                ) -> Option<<$kind as $crate::body::Kind>::Value> {
                    let key = $crate::body!(@key $member $($key)?);
                    if $crate::body!(@presence $presence) == $crate::body::Presence::Required {
                        self.fields.require(key, problems);
                    }
                    <$kind as $crate::body::Kind>::read(&mut self.fields, key, problems)
                }
            )*
        }

        impl $crate::body::Described for $name {
            fn schema(schemas: &mut $crate::body::Schemas) -> $crate::body::Value {
                let name = $crate::body!(@name $name $($title)?);
                $crate::body::named(schemas, name, <$name as $crate::body::Body>::definition)
            }
        }

        impl $crate::body::Body for $name {
            fn of(fields: $crate::fields::Fields) -> Self {
                $name { fields }
            }

            fn into_fields(self) -> $crate::fields::Fields {
                self.fields
            }

            #[allow(unused_mut, reason = "not every body has other members and an example")]
            fn definition(schemas: &mut $crate::body::Schemas) -> $crate::body::Value {
                let mut schema = $crate::body::ObjectSchema::new(&[$($about),*]);
                $(
                    let member = <$kind as $crate::body::Described>::schema(schemas);
                    let key = $crate::body!(@key $member $($key)?);
                    schema.add(key, $crate::body!(@presence $presence), &[$($doc),*], member);
                )*
                let mut schema = schema.finish();
                $(<$rest as $crate::body::rest::Rest>::add_to(&mut schema, schemas);)?
                $(schema["example"] = $crate::body::json!($example);)?
                schema
            }
        }
    };
}

/// Implements [`Kind`] for types. Each line has the type, its generics, the type of its value, its reader and its schema.
#[macro_export]
macro_rules! kinds {
    ($($kind:ty, ($($generics:tt)*) => $value:ty, $read:expr, $schema:expr;)+) => { $(
        impl<$($generics)*> $crate::body::Described for $kind {
            fn schema(schemas: &mut $crate::body::Schemas) -> $crate::body::Value {
                let schema: fn(&mut $crate::body::Schemas) -> $crate::body::Value = $schema;
                schema(schemas)
            }
        }

        impl<$($generics)*> $crate::body::Kind for $kind {
            type Value = $value;

            fn read(
                fields: &mut $crate::fields::Fields,
                key: &'static str,
                problems: &mut Vec<$crate::Problem>,
            ) -> Option<$value> {
                let read: $crate::body::Reader<$value> = $read;
                read(fields, key, problems)
            }
        }
    )+ };
}

/// Declares types that have a schema and no reader. Each line has the type and its schema.
#[macro_export]
macro_rules! schemas {
    ($($(#[doc = $doc:literal])* $vis:vis $name:ident = $schema:expr;)+) => { $(
        $(#[doc = $doc])*
        #[derive(Debug)]
        $vis struct $name;

        impl $crate::body::Described for $name {
            fn schema(schemas: &mut $crate::body::Schemas) -> $crate::body::Value {
                let schema: fn(&mut $crate::body::Schemas) -> $crate::body::Value = $schema;
                schema(schemas)
            }
        }
    )+ };
}

/// Returns a reference to the schema `name`, after adding the schema if it is missing.
pub fn named(schemas: &mut Schemas, name: &str, define: impl FnOnce(&mut Schemas) -> Value) -> Value {
    if !schemas.contains_key(name) {
        // An entry ends the recursion of a schema that refers to itself.
        schemas.insert(name.to_owned(), Value::Null);
        let schema = define(schemas);
        schemas.insert(name.to_owned(), schema);
    }
    reference(name)
}

/// Returns a reference to a schema by name.
#[must_use]
pub fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Joins the lines of a doc comment.
#[must_use]
pub fn text(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}

/// Builds the schema of an object.
#[derive(Debug)]
pub struct ObjectSchema {
    about: String,
    required: Vec<&'static str>,
    properties: Map<String, Value>,
}

impl ObjectSchema {
    #[must_use]
    pub fn new(about: &[&str]) -> ObjectSchema {
        ObjectSchema { about: text(about), required: Vec::new(), properties: Map::new() }
    }

    /// Adds a member. `about` are the lines of its doc comment; a description of `schema` follows them.
    pub fn add(&mut self, key: &'static str, presence: Presence, about: &[&str], schema: Value) {
        if matches!(presence, Presence::Required | Presence::Worded | Presence::Nullable) {
            self.required.push(key);
        }
        let may_be_null = matches!(presence, Presence::Optional | Presence::Nullable);
        let schema =
            if may_be_null { or_null(schema, &text(about)) } else { described(schema, &text(about)) };
        self.properties.insert(key.to_owned(), schema);
    }

    #[must_use]
    pub fn finish(self) -> Value {
        let mut schema = json!({"type": "object"});
        if !self.about.is_empty() {
            schema["description"] = self.about.into();
        }
        if !self.required.is_empty() {
            schema["required"] = self.required.into();
        }
        if !self.properties.is_empty() {
            schema["properties"] = self.properties.into();
        }
        schema
    }
}

/// Adds a description, before the one that the schema has.
fn described(mut schema: Value, about: &str) -> Value {
    let own = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let about = [about, own].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    if !about.is_empty() {
        schema["description"] = about.into();
    }
    schema
}

/// Returns a schema with a description that also allows `null`.
fn or_null(mut schema: Value, about: &str) -> Value {
    let is_plain = ["$ref", "enum", "properties", "oneOf"].iter().all(|key| schema.get(key).is_none());
    if is_plain {
        schema["type"] = json!([schema["type"], "null"]);
        described(schema, about)
    } else if schema.get("$ref").is_some() {
        json!({"oneOf": [described(schema, about), {"type": "null"}]})
    } else {
        described(json!({"oneOf": [schema, {"type": "null"}]}), about)
    }
}
