//! Schemas of the document, with references resolved.

use serde_json::Value;

/// The OpenAPI document.
#[derive(Clone, Copy)]
pub(crate) struct Document<'a>(pub(crate) &'a Value);

/// A schema without its reference and without null.
pub(crate) struct Shape<'a> {
    pub(crate) schema: &'a Value,
    /// The description next to the reference, or that of the schema.
    pub(crate) description: &'a str,
    pub(crate) is_nullable: bool,
}

impl<'a> Document<'a> {
    /// Follows a reference to a component.
    pub(crate) fn resolve(self, value: &'a Value) -> &'a Value {
        let reference = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        reference.and_then(|pointer| self.0.pointer(pointer)).unwrap_or(value)
    }

    /// Removes the references and the choice of null around a schema. An outer description wins over an inner one.
    pub(crate) fn shape(self, value: &'a Value) -> Shape<'a> {
        let mut shape = Shape { schema: value, description: "", is_nullable: false };
        loop {
            if shape.description.is_empty() {
                shape.description = shape.schema["description"].as_str().unwrap_or_default();
            }
            let resolved = self.resolve(shape.schema);
            let choices = shape.schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
            let (nulls, others): (Vec<_>, Vec<_>) =
                choices.iter().partition(|choice| choice["type"] == "null");
            let inner = match (&others[..], shape.schema["allOf"].as_array().map(Vec::as_slice)) {
                ([only], _) => only,
                (_, Some([only])) => only,
                _ if !std::ptr::eq(resolved, shape.schema) => resolved,
                _ => break,
            };
            shape.is_nullable |= !nulls.is_empty();
            shape.schema = inner;
        }
        let types = shape.schema["type"].as_array();
        shape.is_nullable |= types.is_some_and(|types| types.iter().any(|name| name == "null"));
        let choices = shape.schema["oneOf"].as_array();
        shape.is_nullable |=
            choices.is_some_and(|choices| choices.iter().any(|choice| choice["type"] == "null"));
        shape
    }

    /// Returns the choices of a schema, without null.
    pub(crate) fn choices(self, schema: &'a Value) -> impl Iterator<Item = &'a Value> {
        let choices = ["oneOf", "anyOf"].into_iter().find_map(|key| schema[key].as_array());
        choices.into_iter().flatten().filter(|choice| choice["type"] != "null")
    }

    /// Names the type in words.
    pub(crate) fn type_name(self, schema: &'a Value) -> String {
        let schema = self.shape(schema).schema;
        let mut names: Vec<String> = Vec::new();
        for name in self.choices(schema).map(|choice| self.type_name(choice)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if !names.is_empty() {
            return names.join(" or ");
        }
        if schema["enum"].is_array() {
            return "enum".to_owned();
        }
        match (base_type(schema), schema["format"].as_str()) {
            ("array", _) if schema["items"].is_object() => {
                format!("array of {}", self.type_name(&schema["items"]))
            }
            ("string", Some(format @ ("date-time" | "uuid" | "uri" | "binary"))) => format.to_owned(),
            ("", _) => "any".to_owned(),
            (name, _) => name.to_owned(),
        }
    }
}

/// Returns the type of a schema, without null.
pub(crate) fn base_type(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(name) => name,
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("null")
        }
        _ if schema["properties"].is_object() => "object",
        _ => "",
    }
}
