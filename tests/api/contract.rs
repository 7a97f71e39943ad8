//! Checks of answers against the OpenAPI document. Every answer in the suite is checked against the document that the
//! service serves: the status, the required headers, the media type, and the body. A body with undocumented members fails.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use jsonschema::Validator;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Url};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::coverage;

/// JSON pointer to the declared answer for paths that are not in the document.
const NO_SUCH_PATH: &str = "/components/responses/NotFound";
/// JSON pointer to the declared answer for methods that a path does not have.
const NO_SUCH_METHOD: &str = "/components/responses/MethodNotAllowed";

/// The document, the answers seen so far, and a cache of validators.
pub(crate) struct Contract {
    document: Value,
    seen: Mutex<BTreeSet<(String, u16)>>,
    /// Compiled validators, by the text of the schema.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

/// The parts of a request and its answer that are checked.
pub(crate) struct Exchange<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a str,
}

/// Adds `/v3` to a path of a client whose base URL lacks it, or has `/v4` for workflows.
fn with_base<'a>(path: &str, mut templates: impl Iterator<Item = &'a String>) -> String {
    let of_workflows = path.strip_prefix("/v4").filter(|rest| rest.starts_with("/workflows/"));
    let completed = format!("/v3{}", of_workflows.unwrap_or(path));
    let is_known = templates.any(|template| template.starts_with("/v3") && is_of(&completed, template));
    if is_known { completed } else { path.to_owned() }
}

impl Contract {
    /// Returns the contract of the service at this address. The document is read only once per process.
    pub(crate) async fn of(client: &Client, url: &Url) -> &'static Contract {
        static CONTRACT: OnceCell<Contract> = OnceCell::const_new();
        let load = async || {
            let answer = client.get(url.join("/openapi.json").unwrap()).send().await.unwrap();
            let document = answer.json().await.unwrap();
            Contract { document, seen: Mutex::default(), validators: Mutex::default() }
        };
        CONTRACT.get_or_init(load).await
    }

    /// Checks an answer. The panic message lists all problems.
    pub(crate) fn check(&self, exchange: &Exchange<'_>) {
        let problems = self.problems(exchange);
        let Exchange { method, path, status, body, .. } = exchange;
        assert!(problems.is_empty(), "{method} {path}: {status} {body}\n{}", problems.join("\n"));
    }

    /// Returns all problems of an answer.
    pub(crate) fn problems(&self, exchange: &Exchange<'_>) -> Vec<String> {
        if exchange.method == Method::OPTIONS {
            return vec![];
        }
        let (name, operation) = match self.operation(exchange) {
            Ok(found) => found,
            Err(pointer) => {
                return self.problems_of(self.document.pointer(pointer).unwrap(), exchange);
            }
        };
        if self.seen.lock().unwrap().insert((name.clone(), exchange.status)) {
            coverage::record(&name, exchange.status);
        }
        match operation["responses"].get(exchange.status.to_string()) {
            Some(response) => self.problems_of(response, exchange),
            None => vec!["the document does not declare this status".to_owned()],
        }
    }

    pub(crate) fn document(&self) -> &Value {
        &self.document
    }

    /// Returns the operation and its name. If the document does not list the path or method, returns the pointer to the answer
    /// that it declares for unknown paths or methods.
    fn operation(&self, exchange: &Exchange<'_>) -> Result<(String, &Value), &'static str> {
        let paths = self.document["paths"].as_object().unwrap();
        let stripped = exchange.path.strip_suffix('/').filter(|path| !path.is_empty());
        let path = &with_base(stripped.unwrap_or(exchange.path), paths.keys());
        let method = if exchange.method == Method::HEAD { &Method::GET } else { exchange.method };
        let method_key = method.as_str().to_lowercase();
        // A path without parameters takes precedence over one with parameters, unless only the latter has the method.
        let has_method = |calls: &Value| exchange.status == 405 || calls.get(&method_key).is_some();
        let mut named: Vec<_> = paths.iter().filter(|(template, _)| is_of(path, template)).collect();
        named.sort_by_key(|(template, _)| *template != path);
        let template = named.iter().find(|(_, calls)| has_method(calls)).or(named.first()).copied();
        let (template, calls) = template.ok_or(NO_SUCH_PATH)?;
        let operation = calls.get(&method_key).ok_or(NO_SUCH_METHOD)?;
        Ok((format!("{method} {template}"), operation))
    }

    fn problems_of(&self, response: &Value, exchange: &Exchange<'_>) -> Vec<String> {
        let response = self.resolved(response);
        let headers = response["headers"].as_object().into_iter().flatten();
        let always = headers.filter(|(_, header)| self.resolved(header)["required"] == true);
        let missing = always.filter(|(name, _)| !exchange.headers.contains_key(name.as_str()));
        let mut problems: Vec<_> = missing.map(|(name, _)| format!("the header {name} is missing")).collect();
        if exchange.method != Method::HEAD {
            problems.extend(self.problems_of_body(response, exchange));
        }
        problems
    }

    fn problems_of_body(&self, response: &Value, exchange: &Exchange<'_>) -> Vec<String> {
        let Some(content) = response.get("content") else {
            return if exchange.body.is_empty() { vec![] } else { vec!["a body is not declared".to_owned()] };
        };
        let media = exchange.headers.get("content-type").and_then(|media| media.to_str().ok());
        let essence = media.unwrap_or_default().split(';').next().unwrap_or_default();
        let Some(declared) = content.get(essence) else {
            return vec![format!("the media type {media:?} is not declared")];
        };
        if essence != "application/json" {
            return vec![];
        }
        let body = serde_json::from_str(exchange.body).unwrap();
        let validator = self.validator(&declared["schema"]);
        validator.iter_errors(&body).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    fn validator(&self, schema: &Value) -> Arc<Validator> {
        let mut validators = self.validators.lock().unwrap();
        let build = || {
            let options = jsonschema::draft202012::options().should_validate_formats(true);
            Arc::new(options.build(&self.closed(schema, false)).unwrap())
        };
        validators.entry(schema.to_string()).or_insert_with(build).clone()
    }

    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.document.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
            None => value,
        }
    }

    /// Resolves the references in a schema, and forbids members that it does not name. A schema inside an `allOf` stays open,
    /// because the other schemas of the `allOf` name further members.
    fn closed(&self, schema: &Value, is_part: bool) -> Value {
        let mut schema = self.resolved(schema).clone();
        for (key, value) in schema.as_object_mut().unwrap() {
            match (key.as_str(), value) {
                ("properties", Value::Object(members)) => {
                    members.values_mut().for_each(|member| *member = self.closed(member, false));
                }
                ("allOf", Value::Array(parts)) => {
                    parts.iter_mut().for_each(|part| *part = self.closed(part, true));
                }
                ("oneOf" | "anyOf", Value::Array(choices)) => {
                    choices.iter_mut().for_each(|choice| *choice = self.closed(choice, is_part));
                }
                ("items" | "additionalProperties", value @ Value::Object(_)) => {
                    *value = self.closed(value, false);
                }
                _ => {}
            }
        }
        let names_members = schema.get("properties").is_some() || schema.get("allOf").is_some();
        if names_members && !is_part && schema.get("additionalProperties").is_none() {
            schema["unevaluatedProperties"] = json!(false);
        }
        schema
    }

    /// Returns every operation with each success status that it declares.
    pub(crate) fn successes(&self) -> BTreeSet<(String, u16)> {
        let mut successes = BTreeSet::new();
        for (path, calls) in self.document["paths"].as_object().unwrap() {
            for (method, operation) in calls.as_object().unwrap() {
                let statuses = operation["responses"].as_object().unwrap().keys();
                let statuses = statuses.map(|status| status.parse().unwrap());
                let name = format!("{} {path}", method.to_uppercase());
                successes.extend(
                    statuses
                        .filter(|status| (200..300).contains(status))
                        .map(|status| (name.clone(), status)),
                );
            }
        }
        successes
    }
}

/// Returns true if a template such as `/v3/users/{identifier}` matches the path.
fn is_of(path: &str, template: &str) -> bool {
    let (segments, names) = (path.split('/'), template.split('/'));
    segments.clone().count() == names.clone().count()
        && segments
            .zip(names)
            .all(|(segment, name)| segment == name || (name.starts_with('{') && !segment.is_empty()))
}
