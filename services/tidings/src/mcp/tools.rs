//! Tools made from the OpenAPI document of the admin API.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

/// Maximum length of a result, in bytes.
const LONGEST: usize = 32 * 1024;
/// Depth to which references between schemas are followed.
const DEPTH: usize = 6;
/// Tags whose calls are never tools: with them, an assistant could give itself any role.
const NEVER: [&str; 2] = ["operators", "tokens"];
/// Tags whose changes are tools with `--write`. None of them shows a secret.
const WRITABLE: [&str; 6] = ["templates", "providers", "categories", "topics", "waiting", "parked"];
/// Tool that answers the most frequent question, so it comes first.
const FIRST: &str = "explain";

pub(super) struct Tools(Vec<Operation>);

struct Operation {
    tool: Tool,
    method: String,
    path: String,
    /// Names of the parameters in the path and in the query.
    parameters: Vec<(String, bool)>,
}

/// A call of the admin API.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Option<Value>,
}

impl Tools {
    pub(super) fn of(document: &Value, write: bool) -> Tools {
        let mut operations = Vec::new();
        for (path, methods) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                if is_offered(method, operation, write) {
                    operations.push(Operation::of(document, (path, method), operation));
                }
            }
        }
        operations.sort_by_key(|operation| operation.tool.name != FIRST);
        Tools(operations)
    }

    pub(super) fn list(&self) -> impl Iterator<Item = Tool> {
        self.0.iter().map(|operation| operation.tool.clone())
    }

    /// Returns the call that a tool makes.
    ///
    /// # Errors
    /// Returns an error if there is no such tool, or if an argument is missing, unknown or of a wrong type.
    pub(super) fn call(&self, name: &str, mut arguments: Map<String, Value>) -> anyhow::Result<Call> {
        let found = self.0.iter().find(|operation| operation.tool.name == name);
        let operation = found.with_context(|| format!("there is no tool {name}"))?;
        let mut path = operation.path.clone();
        let mut query = Vec::new();
        for (parameter, is_in_path) in &operation.parameters {
            let value = match arguments.remove(parameter) {
                None | Some(Value::Null) if !is_in_path => continue,
                None | Some(Value::Null) => bail!("the argument {parameter} is missing"),
                Some(Value::String(text)) => text,
                Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
                Some(_) => bail!("the argument {parameter} must be a text, a number or true or false"),
            };
            if *is_in_path {
                // A URL with such a segment, also percent-encoded, means another call.
                if [".", ".."].contains(&value.as_str()) {
                    bail!("the argument {parameter} must be a name or an id");
                }
                let value = utf8_percent_encode(&value, NON_ALPHANUMERIC).to_string();
                path = path.replace(&format!("{{{parameter}}}"), &value);
            } else {
                query.push((parameter.clone(), value));
            }
        }
        let body = arguments.remove("body");
        if let Some(unknown) = arguments.keys().next() {
            bail!("{name} has no argument {unknown}");
        }
        Ok(Call { method: operation.method.to_uppercase(), path, query, body })
    }
}

fn is_offered(method: &str, operation: &Value, write: bool) -> bool {
    let tag = operation["tags"][0].as_str().unwrap_or_default();
    let is_preview = operation["operationId"].as_str().is_some_and(|id| id.starts_with("preview"));
    match method {
        _ if NEVER.contains(&tag) => false,
        "get" => true,
        "post" if is_preview => true,
        "post" | "put" | "patch" => write && WRITABLE.contains(&tag),
        _ => false,
    }
}

impl Operation {
    fn of(document: &Value, (path, method): (&str, &str), operation: &Value) -> Operation {
        let (mut properties, mut required, mut parameters) = (Map::new(), Vec::new(), Vec::new());
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let parameter = resolved(document, parameter);
            let (Some(name), Some(place)) = (parameter["name"].as_str(), parameter["in"].as_str()) else {
                continue;
            };
            if place != "path" && place != "query" {
                continue;
            }
            let mut schema = expanded(document, &parameter["schema"], DEPTH);
            schema["description"] = parameter["description"].clone();
            properties.insert(name.to_owned(), schema);
            if parameter["required"] == true {
                required.push(name.to_owned());
            }
            parameters.push((name.to_owned(), place == "path"));
        }
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        if body.is_object() {
            properties.insert("body".to_owned(), expanded(document, body, DEPTH));
        }
        let schema = Map::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), Value::Object(properties)),
            ("required".to_owned(), json!(required)),
            ("additionalProperties".to_owned(), json!(false)),
        ]);
        let text = |name: &str| operation[name].as_str().unwrap_or_default().to_owned();
        let is_change = method != "get" && !text("operationId").starts_with("preview");
        let annotations = ToolAnnotations::new().read_only(!is_change).open_world(false);
        let mut tool = Tool::new(
            text("operationId"),
            format!("{}. {}", text("summary"), text("description")),
            Arc::new(schema),
        );
        tool.annotations = Some(annotations);
        Operation { tool, method: method.to_owned(), path: path.to_owned(), parameters }
    }
}

/// Returns the object to which a reference leads, or the value itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    target.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

/// Returns a schema without references. Below `depth`, anything is valid.
fn expanded(document: &Value, schema: &Value, depth: usize) -> Value {
    if depth == 0 {
        return json!({});
    }
    match resolved(document, schema) {
        Value::Object(members) => {
            let deeper = if schema.get("$ref").is_some() { depth - 1 } else { depth };
            members.iter().map(|(name, value)| (name.clone(), expanded(document, value, deeper))).collect()
        }
        Value::Array(elements) => elements.iter().map(|element| expanded(document, element, depth)).collect(),
        value => value.clone(),
    }
}

/// Returns a result as text. A list that is too long loses its last elements, and says so.
pub(super) fn shortened(mut result: Value) -> String {
    let text = result.to_string();
    if text.len() <= LONGEST {
        return text;
    }
    if let Some(elements) = result.get_mut("data").and_then(Value::as_array_mut) {
        let all = elements.len();
        let mut room = LONGEST.saturating_sub(512);
        let fits = elements.iter().take_while(|element| {
            let length = element.to_string().len() + 1;
            let fits = length <= room;
            room = room.saturating_sub(length);
            fits
        });
        let kept = fits.count();
        if kept > 0 {
            elements.truncate(kept);
            result["cut"] =
                json!(format!("{kept} of {all} elements are shown; ask for fewer with `limit`, or narrower"));
            // The other elements are on no page that nextCursor leads to.
            result["nextCursor"] = Value::Null;
            return result.to_string();
        }
    }
    let end = (0..=LONGEST).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}… (cut: the result has {} bytes)", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        let app = json!({"name": "app", "in": "path", "required": true, "schema": {"type": "string"}});
        let limit = json!({"$ref": "#/components/parameters/Limit"});
        let operation = |id: &str, tag: &str| json!({"operationId": id, "tags": [tag], "summary": "Does it", "parameters": [app, limit]});
        let body =
            json!({"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}});
        let mut put = operation("putTemplate", "templates");
        put["requestBody"] = body;
        json!({
            "paths": {
                "/v1/admin/apps/{app}/sends": {"get": operation("listRequests", "requests")},
                "/v1/admin/apps/{app}/templates": {"put": put, "delete": operation("removeTemplate", "templates")},
                "/v1/admin/apps/{app}/preview": {"post": operation("previewRedrive", "parked")},
                "/v1/admin/apps/{app}/secrets": {"post": operation("rotateSecret", "apps")},
                "/v1/admin/apps/{app}/explain": {"get": operation("explain", "people")},
                "/v1/admin/tokens": {"get": operation("listTokens", "tokens"), "post": operation("createToken", "tokens")},
            },
            "components": {
                "parameters": {"Limit": {"name": "limit", "in": "query", "schema": {"type": "integer"}, "description": "Most."}},
                "schemas": {"Tree": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Tree"}}}},
            },
        })
    }

    fn names(write: bool) -> Vec<String> {
        Tools::of(&document(), write).list().map(|tool| tool.name.into_owned()).collect()
    }

    fn arguments(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn without_write_nothing_changes_and_no_tool_ever_deletes_or_shows_credentials() {
        assert_eq!(names(false), ["explain", "previewRedrive", "listRequests"]);
        assert_eq!(names(true), ["explain", "previewRedrive", "listRequests", "putTemplate"]);
    }

    #[test]
    fn arguments_become_path_query_and_body_and_mistakes_are_named() {
        let tools = Tools::of(&document(), true);
        let call = tools.call("listRequests", arguments(&json!({"app": "a/b?c#d", "limit": 5}))).unwrap();
        assert_eq!((call.method.as_str(), call.path.as_str()), ("GET", "/v1/admin/apps/a%2Fb%3Fc%23d/sends"));
        assert_eq!(call.query, [("limit".to_owned(), "5".to_owned())]);
        let put = tools.call("putTemplate", arguments(&json!({"app": "shop", "body": {"a": 1}}))).unwrap();
        assert_eq!(put.body, Some(json!({"a": 1})));
        for (name, wrong, message) in [
            ("listTokens", json!({}), "there is no tool listTokens"),
            ("listRequests", json!({}), "the argument app is missing"),
            ("listRequests", json!({"app": ".."}), "the argument app must be a name or an id"),
            (
                "listRequests",
                json!({"app": ["shop"]}),
                "the argument app must be a text, a number or true or false",
            ),
            ("listRequests", json!({"app": "shop", "lim": 1}), "listRequests has no argument lim"),
        ] {
            assert_eq!(tools.call(name, arguments(&wrong)).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn schemas_have_no_references_and_recursion_ends() {
        let schemas: Vec<String> = Tools::of(&document(), true)
            .list()
            .map(|tool| Value::Object((*tool.input_schema).clone()).to_string())
            .collect();
        assert!(schemas.iter().all(|schema| !schema.contains("$ref")), "{schemas:?}");
        assert!(schemas.iter().any(|schema| schema.contains(r#""description":"Most.""#)), "{schemas:?}");
    }

    #[test]
    fn long_results_are_cut_and_say_so() {
        assert_eq!(shortened(json!({"data": [1, 2]})), r#"{"data":[1,2]}"#);
        let rows: Vec<String> = (0..1_000).map(|n| format!("{n} {}", "ü".repeat(40))).collect();
        let cut = shortened(json!({"data": rows, "nextCursor": "x"}));
        assert!(cut.len() <= LONGEST, "{}", cut.len());
        let cut: Value = serde_json::from_str(&cut).unwrap();
        let shown = cut["data"].as_array().unwrap().len();
        assert!((200..1_000).contains(&shown), "{shown}");
        assert!(cut["cut"].as_str().unwrap().starts_with(&format!("{shown} of 1000 elements")));
        assert!(shortened(json!("ü".repeat(40_000))).ends_with("(cut: the result has 80002 bytes)"));
    }
}
