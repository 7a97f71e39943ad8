//! Examples of bodies and parameters.

use serde_json::{Map, Value, json};

use super::schema::{Document, base_type};

/// Depth at which an example ends. No schema of the API is this deep.
const DEEPEST: usize = 12;

impl<'a> Document<'a> {
    /// Returns the example that a schema states, or builds one from the examples of its members.
    pub(crate) fn example_of(self, schema: &'a Value) -> Value {
        self.example_at(schema, 0)
    }

    fn example_at(self, schema: &'a Value, depth: usize) -> Value {
        if let Some(example) = stated(schema) {
            return example;
        }
        let schema = self.shape(schema).schema;
        if let Some(example) = stated(schema) {
            return example;
        }
        if depth > DEEPEST {
            return Value::Null;
        }
        if let Some(choice) = self.choices(schema).next() {
            return self.example_at(choice, depth + 1);
        }
        if let Some(first) = schema["enum"].get(0) {
            return first.clone();
        }
        match base_type(schema) {
            "object" => {
                let members = schema["properties"].as_object().into_iter().flatten();
                members
                    .map(|(name, member)| (name.clone(), self.example_at(member, depth + 1)))
                    .collect::<Map<_, _>>()
                    .into()
            }
            "array" => json!([self.example_at(&schema["items"], depth + 1)]),
            "string" => json!("text"),
            "integer" | "number" => json!(1),
            "boolean" => json!(true),
            _ => Value::Null,
        }
    }
}

fn stated(schema: &Value) -> Option<Value> {
    schema.get("example").or_else(|| schema["examples"].get(0)).cloned()
}
