//! The OpenAPI document of the admin API, made from its calls.

use domain::body::Schemas;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use web::failure::{DefectBody, ErrorBody, ProblemsBody};
use web::openapi::{add_components, answer_schemas, complete_response, error, operations, require_members};
use web::vocabulary::{Channel, Count, Cursor, FreeObject, Identifier, Lane, Reason, Status, Time, Uuid};

use super::refused::ForbiddenBody;
use super::route::{NamedSchemas, Route, answer_schema};
use super::routes::{ROUTES, TAGS};
use super::shape::{RedriveState, Role};

/// Path of the API below the base path of the console.
pub(super) const ROOT: &str = "/v1/admin";
const ABOUT: &str = include_str!("description.md");
const BEARER: &str =
    "A token that `tidings token create` or `POST /v1/admin/tokens` printed. Cookies are never accepted.";
const FORBIDDEN: &str = "The role of the token is too low (`role_required`; `needs` names one that suffices), or the app has reached a quota \
    (`quota_reached`).";
/// Statuses of the failures that every call can have.
const ALWAYS: [&str; 7] = ["400", "401", "403", "406", "429", "500", "503"];

/// Builds the document of a console that is reached at `url`.
pub(super) fn describe(url: &str) -> serde_json::Result<Value> {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    let mut answers: NamedSchemas = Vec::new();
    shared_schemas(&mut answers);
    for route in ROUTES {
        let operation = operation(route, &mut answers, &mut schemas);
        let path = format!("{ROOT}{}", route.path);
        paths.entry(path).or_insert_with(|| json!({}))[route.method.to_lowercase()] = operation;
    }
    for (name, schema) in answers {
        schemas.insert(name, serde_json::to_value(schema)?);
    }
    web::described::add(&mut schemas);
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidings admin API", "version": "1.0.0", "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": url}],
        "tags": TAGS.map(|(name, about)| json!({"name": name, "description": about})),
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer", "description": BEARER},
        }},
    });
    complete(&mut document);
    Ok(document)
}

/// Adds the schemas to which errors, parameters and bodies refer.
fn shared_schemas(answers: &mut NamedSchemas) {
    fn add<T: ToSchema>(answers: &mut NamedSchemas) {
        answer_schema::<T>(answers);
    }
    let all = [
        add::<ProblemsBody<'static>>,
        add::<ErrorBody<'static>>,
        add::<DefectBody>,
        add::<ForbiddenBody>,
        add::<Channel>,
        add::<Status>,
        add::<Reason>,
        add::<Lane>,
        add::<Time>,
        add::<Uuid>,
        add::<Count>,
        add::<Cursor>,
        add::<Identifier>,
        add::<FreeObject>,
        add::<Role>,
        add::<RedriveState>,
    ];
    all.iter().for_each(|add| add(answers));
}

fn operation(route: &Route, answers: &mut NamedSchemas, schemas: &mut Schemas) -> Value {
    let (summary, rest) = route.about.split_first().unwrap_or((&"", &[]));
    let least = route.permission.least_role().map_or("none", domain::Role::as_str);
    let text = rest.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let description = format!("{text} Needs the role {least}.");
    let answer = (route.answer)(answers);
    let success = if route.status == 204 {
        json!({"description": "Done."})
    } else {
        let schema = json!({"$ref": format!("#/components/schemas/{answer}")});
        json!({"description": "Success.", "content": {"application/json": {"schema": schema}}})
    };
    let mut operation = json!({
        "operationId": route.id,
        "tags": [route.tag],
        "summary": summary.trim().trim_end_matches('.'),
        "description": description.trim(),
        "x-least-role": least,
        "security": [{"bearer": []}],
        "parameters": parameters(route),
        "responses": {route.status.to_string(): success},
    });
    if let Some(body) = route.body {
        operation["requestBody"] = json!({"content": {"application/json": {"schema": body(schemas)}}});
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let path = route.path_parameters().map(|name| {
        let about = match name {
            "app" => "Name or id of the app.",
            "endpoint" => "URL or id of the endpoint.",
            "category" => "Identifier of the category; its id to delete it.",
            _ => "Name or id of the object.",
        };
        json!({"name": name, "in": "path", "required": true, "description": about, "schema": {"type": "string", "minLength": 1}})
    });
    let query = route.query.iter().map(|parameter| {
        let (name, about, schema) = (parameter.name, parameter.about, (parameter.schema)());
        json!({"name": name, "in": "query", "required": name == "person", "description": about, "schema": schema})
    });
    let is_conditional = route.fails.contains(&"412");
    let shared = is_conditional.then_some("IfMatch").into_iter().chain(["RequestId"]);
    let shared = shared.map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
    path.chain(query).chain(shared).collect()
}

/// Adds the errors, headers and required members that the calls share.
fn complete(document: &mut Value) {
    let fails = |id: &Value| ROUTES.iter().find(|route| id == route.id).map_or(&[][..], |route| route.fails);
    if let Some(paths) = document["paths"].as_object_mut() {
        for (path, operation) in operations(paths) {
            let mut statuses = ALWAYS.to_vec();
            statuses.extend(fails(&operation["operationId"]));
            statuses
                .extend(path.contains('{').then_some("404").or(path.ends_with("tokens").then_some("404")));
            if operation.get("requestBody").is_some() {
                statuses.extend(["408", "413", "415"]);
            }
            // The parameter or the member `app` may name an unknown app.
            let refers_to_app = operation.to_string().contains("\"app\"") || path.ends_with("operators");
            statuses.extend(refers_to_app.then_some("404"));
            for status in statuses {
                operation["responses"][status] = match status {
                    "412" => json!({"$ref": "#/components/responses/PreconditionFailed"}),
                    status => error(status),
                };
            }
            for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
                complete_response(status, response, true);
            }
        }
    }
    let answers = answer_schemas(document);
    let Some(components) = document["components"].as_object_mut() else { return };
    add_components(components);
    components.insert("parameters".to_owned(), json!({
        "RequestId": {
            "name": "X-Request-Id", "in": "header", "required": false, "schema": {"type": "string"},
            "description": "Id of the request in the answer and in the log: 1 to 128 letters, digits or `-_.:/+=`.",
        },
        "IfMatch": {
            "name": "If-Match", "in": "header", "required": false, "schema": {"type": "string", "pattern": "^\"[0-9]+\"$"},
            "description": "The `version` for which the change is made, in quotation marks.", "example": "\"3\"",
        },
    }));
    let mut stale = json!({"description": "The object has another version than the one in `If-Match`; nothing was changed."});
    complete_response("404", &mut stale, true);
    components["responses"]["PreconditionFailed"] = stale;
    components["responses"]["Forbidden"]["content"]["application/json"]["schema"] =
        json!({"$ref": "#/components/schemas/Forbidden"});
    components["responses"]["Forbidden"]["description"] = FORBIDDEN.into();
    components["responses"]["TooLarge"]["description"] = "The body has more than 768 KiB.".into();
    components["headers"]["Challenge"]["description"] = "`Bearer`.".into();
    for name in answers.iter().map(String::as_str).chain(["Forbidden"]) {
        require_members(&mut components["schemas"][name]);
    }
}
