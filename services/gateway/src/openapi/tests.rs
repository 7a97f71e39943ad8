//! The document describes every route and shows an example of every body.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::openapi::describe;
use crate::routes;

fn paths(document: &Value) -> impl Iterator<Item = (String, String, &Value)> {
    document["paths"].as_object().unwrap().iter().flat_map(|(path, calls)| {
        let calls = calls.as_object().unwrap().iter();
        calls.map(|(method, operation)| (method.to_uppercase(), path.clone(), operation))
    })
}

/// Returns a path without the names of its parameters.
fn shape(path: &str) -> String {
    path.split('/')
        .map(|segment| if segment.starts_with('{') { "{}" } else { segment })
        .collect::<Vec<_>>()
        .join("/")
}

#[test]
fn the_document_has_every_route_and_no_other() {
    let document = describe("X-SERVICE").unwrap();
    let documented: BTreeSet<_> = paths(&document).map(|(method, path, _)| (shape(&path), method)).collect();
    let mut routed = BTreeSet::new();
    for (path, methods, _) in routes::table().resources {
        routed.extend(methods.iter().map(|method| (shape(path), method.to_string())));
    }
    let missing: Vec<_> = routed.difference(&documented).collect();
    let surplus: Vec<_> = documented.difference(&routed).collect();
    assert!(missing.is_empty(), "describe these in openapi.rs or alias.rs: {missing:?}");
    assert!(surplus.is_empty(), "described, but not routed: {surplus:?}");
}

#[test]
fn every_operation_has_an_id_a_known_tag_and_a_summary() {
    let document = describe("X-SERVICE").unwrap();
    let tags: Vec<_> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    let mut ids = BTreeSet::new();
    for (method, path, operation) in paths(&document) {
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{method} {path}: another operation has the id {id}");
        assert!(
            tags.contains(&&operation["tags"][0]),
            "{method} {path}: {} is not one of the tags",
            operation["tags"]
        );
        assert!(operation["summary"].is_string(), "{method} {path} has no summary");
        // Links in messages need no credentials: the token in the path authenticates the call.
        let is_api = path.starts_with("/v3") && !path.contains("{token}");
        assert_eq!(operation.get("security").is_some(), is_api, "{method} {path}: state `security`");
    }
}

#[test]
fn the_path_parameters_of_an_operation_are_those_of_its_path() {
    let document = describe("X-SERVICE").unwrap();
    for (method, path, operation) in paths(&document) {
        let parameters = operation["parameters"].as_array().unwrap().iter();
        let named: BTreeSet<_> = parameters
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| format!("{{{}}}", parameter["name"].as_str().unwrap()))
            .collect();
        let placed: BTreeSet<_> =
            path.split('/').filter(|segment| segment.starts_with('{')).map(str::to_owned).collect();
        assert_eq!(named, placed, "{method} {path}");
    }
}

#[test]
fn every_cursor_parameter_has_the_pattern_of_cursors() {
    let document = describe("X-SERVICE").unwrap();
    let mut found = 0;
    for (method, path, operation) in paths(&document) {
        for parameter in operation["parameters"].as_array().unwrap() {
            if parameter["name"] == "cursor" {
                let schema = parameter["schema"].to_string();
                assert!(schema.contains("^[A-Za-z0-9_-]*$"), "{method} {path}: {schema}");
                found += 1;
            }
        }
    }
    assert!(found >= 3, "{found} operations have a cursor");
}

#[test]
fn every_body_has_an_example() {
    let document = describe("X-SERVICE").unwrap();
    let mut bodies = Vec::new();
    for (method, path, operation) in paths(&document) {
        let request = operation.get("requestBody").into_iter().map(|body| ("the request".to_owned(), body));
        let answers = operation["responses"].as_object().unwrap().iter();
        let answers = answers.map(|(status, answer)| (format!("the {status}"), resolved(&document, answer)));
        for (what, body) in request.chain(answers) {
            for (media, content) in body.get("content").and_then(Value::as_object).into_iter().flatten() {
                bodies.push((format!("{method} {path}: {what} as {media}"), content));
            }
        }
    }
    assert!(bodies.len() > 100, "{} bodies", bodies.len());
    for (what, content) in bodies {
        let found = content.get("example").is_some() || has_example(&document, &content["schema"]);
        assert!(found, "{what} has no example");
    }
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => document.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
        None => value,
    }
}

fn has_example(document: &Value, schema: &Value) -> bool {
    let schema = resolved(document, schema);
    let choices = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    ["example", "examples"].iter().any(|key| schema.get(key).is_some())
        || schema.get("items").is_some_and(|items| has_example(document, items))
        || choices.into_iter().any(|choice| has_example(document, choice))
}

#[test]
fn every_reference_resolves() {
    let document = describe("X-SERVICE").unwrap();
    let text = document.to_string();
    let references: BTreeSet<_> =
        text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let dangling: Vec<_> =
        references.into_iter().filter(|reference| document.pointer(reference).is_none()).collect();
    assert!(
        dangling.is_empty(),
        "schemas are missing; write inline(…) for types that only parameters use: {dangling:?}"
    );
}

/// Returns the schemas of all strings within `schema`, with their paths. Follows references.
fn strings(
    document: &Value,
    path: &str,
    schema: &Value,
    seen: &mut BTreeSet<String>,
    found: &mut Vec<(String, Value)>,
) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str)
        && !seen.insert(reference.to_owned())
    {
        return;
    }
    let schema = resolved(document, schema);
    if schema.get("maxLength").is_some() {
        found.push((path.to_owned(), schema.clone()));
    }
    for (key, inner) in schema.as_object().into_iter().flatten() {
        let inner: Vec<_> = match inner {
            Value::Array(parts) => parts.iter().map(|part| (key, part)).collect(),
            Value::Object(members) if key == "properties" => members.iter().collect(),
            inner => vec![(key, inner)],
        };
        for (key, inner) in inner {
            strings(document, &format!("{path}/{key}"), inner, seen, found);
        }
    }
}

#[test]
fn every_length_limit_of_a_request_body_is_stated_in_bytes() {
    let document = describe("X-SERVICE").unwrap();
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for (method, path, operation) in paths(&document) {
        if let Some(body) = operation.get("requestBody") {
            strings(&document, &format!("{method} {path}"), body, &mut seen, &mut found);
        }
    }
    assert!(found.len() > 30, "{} strings have a limit", found.len());
    for (path, schema) in found {
        let limit = format!("{} bytes", schema["maxLength"]);
        let about = schema["description"].as_str().unwrap_or_default();
        assert!(about.contains(&limit), "{path}: the description must state the limit in bytes: {schema}");
    }
}

/// Adds the members that the bodies of a folder declare and no code of the same file reads.
fn find_unread(folder: &Path, declared: &mut usize, unread: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_unread(&path, declared, unread);
            continue;
        }
        let source = fs::read_to_string(&path).unwrap_or_default();
        for body in source.split("domain::body! {").skip(1) {
            for line in body.split("\n}").next().unwrap().lines() {
                let mut words = line.trim().split([' ', ':']);
                let presence = words.next().unwrap_or_default();
                if ["required", "worded", "optional", "conditional", "nullable"].contains(&presence) {
                    let member = words.next().unwrap();
                    *declared += 1;
                    if !source.contains(&format!(".{member}(")) {
                        unread.push(format!("{}: {member}", path.display()));
                    }
                }
            }
        }
    }
}

/// The compiler does not report dead code of another crate's macro.
#[test]
fn every_declared_member_is_read() {
    let (mut declared, mut unread) = (0, Vec::new());
    find_unread(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut declared, &mut unread);
    assert!(declared > 20, "{declared} members");
    assert!(unread.is_empty(), "the schema shows members that the reader ignores: {unread:?}");
}

#[test]
fn credential_headers_have_the_configured_prefix() {
    let document = describe("X-ACME").unwrap();
    assert_eq!(document["components"]["securitySchemes"]["apiKey"]["name"], "X-ACME-API-KEY");
    let text = document.to_string();
    assert!(text.contains("\"X-ACME-DEVICE-ID\"") && !text.contains("X-SERVICE"));
}
