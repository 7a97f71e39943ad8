//! `/openapi.json`: the document, generated once at start-up.

use std::collections::BTreeSet;

use actix_web::http::header::{CACHE_CONTROL, ETAG, EntityTag, IfNoneMatch};
use actix_web::web::{Bytes, Data};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credentials::secrets;
use serde_json::{Map, Value};
use utoipa::OpenApi;

use crate::gateway::Gateway;
use crate::openapi::vocabulary::FreeObject;
use crate::openapi::{Handlers, alias, security, shared};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The document in its served form.
pub(crate) struct Document {
    text: Bytes,
    tag: EntityTag,
}

impl Document {
    /// Generates the document of a gateway whose credential headers begin with `prefix`.
    pub(crate) fn new(prefix: &str) -> serde_json::Result<Document> {
        let text = serde_json::to_vec(&document(prefix)?)?;
        let tag = EntityTag::new_strong(URL_SAFE_NO_PAD.encode(secrets::sha256(&text)));
        Ok(Document { text: text.into(), tag })
    }
}

/// Gets this document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getDocument",
    tag = "operation",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer.")),
    responses(
        (
            status = 200,
            description = "An OpenAPI 3.1 document.",
            body = FreeObject,
            headers(("ETag" = String, description = "Changes with the document.")),
        ),
        (status = 304, description = "The document has not changed since the `ETag` in `If-None-Match`."),
    ),
)]
pub(crate) async fn serve(gateway: Data<Gateway>, request: HttpRequest) -> HttpResponse {
    let Document { text, tag } = &gateway.document;
    let is_known = match request.get_header::<IfNoneMatch>() {
        Some(IfNoneMatch::Any) => true,
        Some(IfNoneMatch::Items(tags)) => tags.iter().any(|known| known.weak_eq(tag)),
        None => false,
    };
    let mut response = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response.insert_header((ETAG, tag.to_string())).insert_header((CACHE_CONTROL, "no-cache"));
    if is_known { response.finish() } else { response.content_type("application/json").body(text.clone()) }
}

/// Generates the document from the handlers, and adds the parts that all operations share.
pub(crate) fn document(prefix: &str) -> serde_json::Result<Value> {
    let mut document = serde_json::to_value(Handlers::openapi())?;
    if let Some(paths) = document["paths"].as_object_mut() {
        alias::add(paths);
        for (path, operation) in operations(paths) {
            shared::complete(path, prefix, operation);
        }
    }
    let answers = answer_schemas(&document);
    if let Some(components) = document["components"].as_object_mut() {
        shared::add_components(components);
        components.insert("securitySchemes".to_owned(), security::schemes(prefix));
        answers.iter().for_each(|name| require_members(&mut components["schemas"][name]));
    }
    Ok(document)
}

/// Iterates over the operations with their paths.
fn operations(paths: &mut Map<String, Value>) -> impl Iterator<Item = (&str, &mut Value)> {
    paths.iter_mut().flat_map(|(path, calls)| {
        let calls = calls.as_object_mut().into_iter().flat_map(Map::iter_mut);
        let calls = calls.filter(|(method, _)| METHODS.contains(&method.as_str()));
        calls.map(|(_, operation)| (path.as_str(), operation))
    })
}

/// Returns the names of all schemas that answers use.
fn answer_schemas(document: &Value) -> BTreeSet<String> {
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
fn require_members(schema: &mut Value) {
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
