//! Common parts of all operations: errors, headers, parameters.

use domain::fields::MAX_IDENTIFIER;
use serde_json::{Map, Value, json};

use crate::openapi::security::Access;

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

/// Headers of devices, without their prefix.
const DEVICE_HEADERS: [&str; 2] = ["DEVICE-ID", "DEVICE-SECRET"];

/// Adds the components that operations refer to.
pub(crate) fn add_components(components: &mut Map<String, Value>) {
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
    components.insert("parameters".to_owned(), parameters());
}

fn parameters() -> Value {
    json!({
        "RequestId": {
            "name": "X-Request-Id", "in": "header", "required": false,
            "description": "Id of the request in the answer and in the service's log: 1 to 128 letters, digits or \
                `-_.:/+=`. Otherwise the service generates one.",
            "schema": {"type": "string"},
        },
        "Prefer": {
            "name": "Prefer", "in": "header", "required": false,
            "description": "`handling=strict`: unknown members and parameters are problems (RFC 7240). Otherwise, unknown members are ignored, and a header `Warning` names unknown parameters.",
            "schema": {"type": "string"}, "example": "handling=lenient",
        },
        "UserIdentifier": {
            "name": "userIdentifier", "in": "query", "required": false,
            "description": "The user that the app acts for, in place of the header. Without a valid API secret, the parameter is ignored, whatever its value.",
            "schema": {"type": "string", "minLength": 1, "maxLength": MAX_IDENTIFIER},
        },
    })
}

/// Completes an operation with its security, parameters, errors and headers.
pub(crate) fn complete(path: &str, prefix: &str, operation: &mut Value) {
    let access = Access::of(operation);
    if let Some(access) = access {
        operation["security"] = access.requirements();
    }
    let is_api = access.is_some();
    prefix_headers(prefix, operation);
    add_parameters(access, operation);
    for status in statuses(path, is_api, operation.get("requestBody").is_some()) {
        if operation["responses"].get(status).is_none() {
            operation["responses"][status] = error(status);
        }
    }
    if let Some(responses) = operation["responses"].as_object_mut() {
        for (status, response) in responses {
            complete_response(status, response, is_api);
        }
    }
    if operation.as_object_mut().is_some_and(|members| members.remove("x-deprecated").is_some()) {
        operation["deprecated"] = json!(true);
    }
}

/// Adds the prefix to the names of headers, which the handlers state without it.
fn prefix_headers(prefix: &str, operation: &mut Value) {
    for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
        if let Some(name) = DEVICE_HEADERS.into_iter().find(|name| parameter["name"] == *name) {
            parameter["name"] = json!(format!("{prefix}-{name}"));
        }
    }
}

fn add_parameters(access: Option<Access>, operation: &mut Value) {
    let mut names = vec!["RequestId"];
    names.extend(access.is_some().then_some("Prefer"));
    names.extend(access.is_some_and(|access| access != Access::App).then_some("UserIdentifier"));
    if !operation["parameters"].is_array() {
        operation["parameters"] = json!([]);
    }
    if let Some(parameters) = operation["parameters"].as_array_mut() {
        parameters
            .extend(names.iter().map(|name| json!({"$ref": format!("#/components/parameters/{name}")})));
    }
}

/// Returns the statuses of the errors that every operation of this kind can return.
fn statuses(path: &str, is_api: bool, has_body: bool) -> Vec<&'static str> {
    let mut statuses = Vec::new();
    if is_api {
        statuses.extend(["400", "401", "403", "406", "429", "500", "503"]);
    } else if path != "/healthz" {
        statuses.push("429");
    }
    if path.contains('{') {
        statuses.push("404");
    }
    if has_body {
        statuses.extend(["408", "413", "415"]);
    }
    statuses
}

/// Returns a reference to a shared error.
pub(super) fn error(status: &str) -> Value {
    let name = ERRORS.iter().find(|(known, ..)| *known == status).map_or("", |(_, name, ..)| name);
    json!({"$ref": format!("#/components/responses/{name}")})
}

/// Adds the shared headers to a handler's response. If the response is an error, also adds the body schema of its status.
fn complete_response(status: &str, response: &mut Value, is_api: bool) {
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
