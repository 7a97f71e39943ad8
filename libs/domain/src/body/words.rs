//! Members with one of several fixed texts.

use std::marker::PhantomData;

use serde_json::{Value, json};

use super::{Described, Kind, Schemas};
use crate::Problem;
use crate::fields::Fields;

/// A type with a fixed text for each value.
pub trait Words: Copy + 'static {
    /// Description of the schema, or an empty text.
    const ABOUT: &'static str = "";
    const WORDS: &'static [(&'static str, Self)];
}

/// One of the texts of `W`.
#[derive(Debug)]
pub struct OneOf<W>(PhantomData<W>);

impl<W: Words> Described for OneOf<W> {
    fn schema(_: &mut Schemas) -> Value {
        let words: Vec<_> = W::WORDS.iter().map(|(word, _)| *word).collect();
        let mut schema = json!({"type": "string", "enum": words});
        if !W::ABOUT.is_empty() {
            schema["description"] = W::ABOUT.into();
        }
        schema
    }
}

impl<W: Words> Kind for OneOf<W> {
    type Value = W;

    fn read(fields: &mut Fields, key: &'static str, problems: &mut Vec<Problem>) -> Option<W> {
        let given = fields.take(key)?;
        let found = given.as_str().and_then(|text| W::WORDS.iter().find(|(word, _)| *word == text));
        if found.is_none() {
            let path = fields.path(key);
            let words: Vec<_> = W::WORDS.iter().map(|(word, _)| *word).collect();
            let message = format!("{path} must be one of {}", words.join(", "));
            problems.push(Problem::new(path, "unknown_value", message));
        }
        found.map(|(_, value)| *value)
    }
}
