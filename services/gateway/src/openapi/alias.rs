//! Additional paths and methods of handlers.

use serde_json::{Map, Value, json};

/// Aliases: method and path of the alias, then method and path of the operation that it stands for.
const ALIASES: [(&str, &str, &str, &str); 19] = [
    ("post", "/v3/notifications/categories", "post", "/v3/categories"),
    ("delete", "/v3/notifications/categories/{id}", "delete", "/v3/categories/{id}"),
    ("put", "/v3/preferences", "patch", "/v3/preferences"),
    ("patch", "/v3/notifications/{id}/click", "post", "/v3/notifications/{id}/click"),
    ("put", "/v3/notifications/{id}/reads", "post", "/v3/notifications/{id}/click"),
    ("post", "/v3/notifications/{id}/reads", "post", "/v3/notifications/{id}/click"),
    ("post", "/v3/notifications/{id}/views", "put", "/v3/notifications/{id}/views"),
    (
        "put",
        "/v3/notifications/markAllNotificationsAsSeen",
        "post",
        "/v3/notifications/markAllNotificationsAsSeen",
    ),
    (
        "patch",
        "/v3/notifications/markAllNotificationsAsSeen",
        "post",
        "/v3/notifications/markAllNotificationsAsSeen",
    ),
    (
        "put",
        "/v3/notifications/markAllNotificationsAsRead",
        "post",
        "/v3/notifications/markAllNotificationsAsRead",
    ),
    (
        "patch",
        "/v3/notifications/markAllNotificationsAsRead",
        "post",
        "/v3/notifications/markAllNotificationsAsRead",
    ),
    (
        "put",
        "/v3/notifications/markAllNotificationsAsDeleted",
        "post",
        "/v3/notifications/markAllNotificationsAsDeleted",
    ),
    (
        "patch",
        "/v3/notifications/markAllNotificationsAsDeleted",
        "post",
        "/v3/notifications/markAllNotificationsAsDeleted",
    ),
    ("post", "/v3/markAllNotificationsAsSeen", "post", "/v3/notifications/markAllNotificationsAsSeen"),
    ("put", "/v3/markAllNotificationsAsSeen", "post", "/v3/notifications/markAllNotificationsAsSeen"),
    ("patch", "/v3/markAllNotificationsAsSeen", "post", "/v3/notifications/markAllNotificationsAsSeen"),
    // `bulk` is also a valid user identifier, so this path also serves the calls for a single user.
    ("get", "/v3/users/bulk", "get", "/v3/users/{identifier}"),
    ("put", "/v3/users/bulk", "put", "/v3/users/{identifier}"),
    ("delete", "/v3/users/bulk", "delete", "/v3/users/{identifier}"),
];

/// Adds an operation with its own id for every alias. Its member `x-alias-of` is the id of the operation that it stands for.
pub(crate) fn add(paths: &mut Map<String, Value>) {
    for (method, path, of_method, of_path) in ALIASES {
        let Some(mut operation) = paths.get(of_path).and_then(|calls| calls.get(of_method)).cloned() else {
            continue;
        };
        let id = format!("{}By{}", operation["operationId"].as_str().unwrap_or_default(), name(method, path));
        let description = format!("Same as `{} {of_path}`.", of_method.to_uppercase());
        operation["x-alias-of"] = operation["operationId"].take();
        operation["operationId"] = json!(id);
        operation["description"] = json!(description);
        if let Some(parameters) = operation["parameters"].as_array_mut() {
            parameters.retain(|parameter| parameter["in"] != "path" || is_in(path, &parameter["name"]));
        }
        // The alias has a literal segment (`bulk`) in place of `{identifier}`. If no user has that identifier, the answer
        // is a 404.
        if of_path.contains('{') && !path.contains('{') {
            operation["responses"]["404"] = web::openapi::error("404");
        }
        paths.entry(path).or_insert_with(|| json!({}))[method] = operation;
    }
}

/// Returns true if the path has a parameter of this name.
fn is_in(path: &str, name: &Value) -> bool {
    name.as_str().is_some_and(|name| path.contains(&format!("{{{name}}}")))
}

/// Builds a name such as `PostNotificationsCategories`.
fn name(method: &str, path: &str) -> String {
    let segments = path
        .split('/')
        .filter(|segment| !segment.is_empty() && *segment != "v3" && !segment.starts_with('{'));
    std::iter::once(method).chain(segments).map(capitalized).collect()
}

fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
    format!("{}{rest}", first.to_uppercase())
}
