//! Common parts of all operations: credentials and parameters. `web::openapi` has those of all APIs.

use domain::fields::MAX_IDENTIFIER;
use serde_json::{Map, Value, json};
use web::openapi::{complete_response, error};

use crate::openapi::security::Access;

/// Headers of devices, without their prefix.
const DEVICE_HEADERS: [&str; 2] = ["DEVICE-ID", "DEVICE-SECRET"];

/// Adds the components that operations refer to.
pub(crate) fn add_components(components: &mut Map<String, Value>) {
    web::openapi::add_components(components);
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
