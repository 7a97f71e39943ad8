//! Parts that the OpenAPI documents of all servers have: errors, headers, and members of answers.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Errors: status, name, schema of the body, description.
const ERRORS: [(&str, &str, &str, &str); 14] = [
    ("400", "Invalid", "Problems", "The request is malformed or invalid; the body lists every problem."),
    ("401", "Unauthorized", "Error", "The credentials are missing, wrong, or not a usable combination."),
    ("403", "Forbidden", "Error", "The credentials are valid, but do not allow this request."),
    ("404", "NotFound", "Error", "The resource does not exist, or does not belong to this app or user."),
    (
        "405",
        "MethodNotAllowed",
        "Error",
        "The path does not support this method; `Allow` lists the methods that it supports.",
    ),
    ("406", "NotAcceptable", "Error", "`Accept` allows no media type that the service can answer with."),
    (
        "408",
        "BodyTimeout",
        "Error",
        "The body arrived slower than 64 KiB per second after the first 2 s, or took longer than 30 s.",
    ),
    (
        "409",
        "Conflict",
        "Error",
        "The resource already exists, or the Idempotency-Key was used with another body.",
    ),
    ("413", "TooLarge", "Error", "The body exceeds the limit: 768 KiB, or 128 KiB without the API secret."),
    (
        "415",
        "UnsupportedMediaType",
        "Error",
        "The service does not support the body's media type or content coding.",
    ),
    ("422", "Unprocessable", "Error", "The request is well-formed, but cannot be applied."),
    (
        "429",
        "TooManyRequests",
        "Error",
        "The caller exceeded its rate limit; `Retry-After` states how long to wait.",
    ),
    (
        "500",
        "InternalError",
        "Defect",
        "An internal error. The service's log shows the cause under the `errorId`.",
    ),
    (
        "503",
        "Unavailable",
        "Error",
        "The service cannot accept the request now. Retry it; for a send, use the same Idempotency-Key.",
    ),
];

/// Headers of answers: key, name, true if it is always present, description.
const HEADERS: [(&str, &str, bool, &str); 10] = [
    (
        "RequestId",
        "X-Request-Id",
        true,
        "Id of the request: the id that the client sent if it is well-formed, otherwise a new id.",
    ),
    ("Allow", "Allow", true, "The methods that the path supports."),
    (
        "Challenge",
        "WWW-Authenticate",
        true,
        "`Bearer`, the scheme of users' tokens. The other credentials have their own headers.",
    ),
    ("RetryAfter", "Retry-After", true, "Seconds after which the client may retry the request."),
    (
        "RateLimit-Limit",
        "RateLimit-Limit",
        false,
        "Rate limit of the caller in requests per second. If several limits apply (app, user, peer), it is the one with the fewest requests left.",
    ),
    (
        "RateLimit-Remaining",
        "RateLimit-Remaining",
        false,
        "Requests left under the limit in `RateLimit-Limit`.",
    ),
    ("RateLimit-Reset", "RateLimit-Reset", false, "Seconds until the full limit is available again."),
    (
        "Deprecation",
        "Deprecation",
        false,
        "The request used a feature that is deprecated since this time (RFC 9745).",
    ),
    (
        "Warning",
        "Warning",
        false,
        "Names a query parameter that the call does not have, or a malformed address that the service stored; the code is 299. Sent once for each.",
    ),
    ("Link", "Link", false, "Link to the explanation of the deprecation."),
];

/// Headers that only some answers have, with the statuses of these answers. An empty list means all statuses.
const HEADERS_OF: [(&str, &[&str]); 4] =
    [("Allow", &["405"]), ("Challenge", &["401"]), ("RetryAfter", &["429", "503"]), ("RequestId", &[])];

/// Adds the errors and the headers to which operations refer.
pub fn add_components(components: &mut Map<String, Value>) {
    let headers: Map<_, _> = HEADERS
        .iter()
        .map(|(key, _, required, description)| {
            let header =
                json!({"description": description, "required": required, "schema": {"type": "string"}});
            ((*key).to_owned(), header)
        })
        .collect();
    let responses: Map<_, _> = ERRORS
        .iter()
        .map(|(status, name, schema, description)| {
            let content =
                json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}});
            let response =
                json!({"description": description, "content": content, "headers": headers_of(status, true)});
            ((*name).to_owned(), response)
        })
        .collect();
    components.insert("headers".to_owned(), headers.into());
    components.insert("responses".to_owned(), responses.into());
}

/// Returns a reference to a shared error.
pub fn error(status: &str) -> Value {
    let name = ERRORS.iter().find(|(known, ..)| *known == status).map_or("", |(_, name, ..)| name);
    json!({"$ref": format!("#/components/responses/{name}")})
}

/// Adds the shared headers to a handler's response. If the response is an error, also adds the body schema of its status. `is_api` is true if callers need
/// credentials.
pub fn complete_response(status: &str, response: &mut Value, is_api: bool) {
    if response.get("$ref").is_some() {
        return;
    }
    let known = ERRORS.iter().find(|(known, ..)| *known == status);
    if let (Some((_, _, schema, _)), None) = (known, response.get("content")) {
        let schema = json!({"$ref": format!("#/components/schemas/{schema}")});
        response["content"] = json!({"application/json": {"schema": schema}});
    }
    let shared = headers_of(status, is_api);
    if let (Some(own), Value::Object(mut headers)) =
        (response.get("headers").and_then(Value::as_object), shared.clone())
    {
        headers.extend(own.clone());
        response["headers"] = headers.into();
    } else {
        response["headers"] = shared;
    }
}

/// Returns the headers of an answer by name, as references.
fn headers_of(status: &str, is_api: bool) -> Value {
    let applies = |key: &str, required: bool| match HEADERS_OF.iter().find(|(name, _)| *name == key) {
        Some((_, statuses)) => statuses.is_empty() || statuses.contains(&status),
        None => is_api || required,
    };
    let shown = HEADERS.iter().filter(|(key, _, required, _)| applies(key, *required));
    let reference = |key: &str| json!({"$ref": format!("#/components/headers/{key}")});
    shown.map(|(key, name, ..)| ((*name).to_owned(), reference(key))).collect::<Map<_, _>>().into()
}

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Iterates over the operations with their paths.
pub fn operations(paths: &mut Map<String, Value>) -> impl Iterator<Item = (&str, &mut Value)> {
    paths.iter_mut().flat_map(|(path, calls)| {
        let calls = calls.as_object_mut().into_iter().flat_map(Map::iter_mut);
        let calls = calls.filter(|(method, _)| METHODS.contains(&method.as_str()));
        calls.map(|(_, operation)| (path.as_str(), operation))
    })
}

/// Returns the names of all schemas that answers use.
pub fn answer_schemas(document: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for calls in document["paths"].as_object().into_iter().flat_map(Map::values) {
        for operation in calls.as_object().into_iter().flat_map(Map::values) {
            collect(&operation["responses"], &document["components"]["schemas"], &mut names);
        }
    }
    names
}

fn collect(value: &Value, schemas: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, schemas, names)),
        Value::Object(members) => {
            let reference = members.get("$ref").and_then(Value::as_str);
            if let Some(name) =
                reference.and_then(|reference| reference.strip_prefix("#/components/schemas/"))
                && names.insert(name.to_owned())
            {
                collect(&schemas[name], schemas, names);
            }
            members.values().for_each(|member| collect(member, schemas, names));
        }
        _ => {}
    }
}

/// Makes every member required: in answers, a member without a value is null, never absent.
pub fn require_members(schema: &mut Value) {
    if let Some(members) = schema.get("properties").and_then(Value::as_object) {
        schema["required"] = members.keys().cloned().collect();
    }
    for key in ["properties", "items", "allOf", "oneOf"] {
        match schema.get_mut(key) {
            Some(Value::Array(parts)) => parts.iter_mut().for_each(require_members),
            Some(Value::Object(members)) if key == "properties" => {
                members.values_mut().for_each(require_members);
            }
            Some(part) => require_members(part),
            None => {}
        }
    }
}
