//! The operations of the OpenAPI document, as templates for requests.

use reqwest::Method;
use serde_json::Value;

pub(crate) struct Operation {
    pub(crate) method: Method,
    /// Template of the path, such as `/v3/users/{identifier}`.
    pub(crate) template: String,
    pub(crate) queries: Vec<String>,
    /// An example of the body.
    pub(crate) body: Option<Value>,
}

impl Operation {
    /// Returns every operation of a document.
    pub(crate) fn all(document: &Value) -> Vec<Operation> {
        let mut operations = Vec::new();
        for (template, calls) in document["paths"].as_object().unwrap() {
            for (method, operation) in calls.as_object().unwrap() {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let parameters = parameters.map(|parameter| resolved(document, parameter));
                let queries = parameters.filter(|parameter| parameter["in"] == "query");
                let body = &operation["requestBody"]["content"]["application/json"];
                operations.push(Operation {
                    method: method.to_uppercase().parse().unwrap(),
                    template: template.clone(),
                    queries: queries.map(|query| query["name"].as_str().unwrap().to_owned()).collect(),
                    body: example(document, body).cloned(),
                });
            }
        }
        operations
    }
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => document.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
        None => value,
    }
}

/// Returns the example of a media type, or of its schema.
fn example<'a>(document: &'a Value, content: &'a Value) -> Option<&'a Value> {
    let of_schema = |schema: &'a Value| {
        let schema = resolved(document, schema);
        schema.get("example").or_else(|| schema["examples"].get(0))
    };
    let schema = content.get("schema")?;
    let mut choices = schema["oneOf"].as_array().into_iter().flatten();
    content.get("example").or_else(|| of_schema(schema)).or_else(|| choices.find_map(of_schema))
}
