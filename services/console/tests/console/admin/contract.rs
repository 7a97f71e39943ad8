use std::collections::{BTreeMap, BTreeSet};

use credentials::secrets::sha256;
use domain::{Actor, AppId, Role};
use jsonschema::Validator;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use store::control::admin_token::NewAdminToken;
use tokio::sync::Mutex;

use crate::fixture::TestConsole;

const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);

/// A client that compares each answer with the document that the console serves.
pub(crate) struct AdminClient {
    client: Client,
    root: String,
    pub(crate) document: Value,
    validators: Mutex<BTreeMap<String, Validator>>,
    /// Operations that were answered with success.
    pub(crate) succeeded: Mutex<BTreeSet<String>>,
}

/// A route of the document.
pub(crate) struct Operation {
    pub(crate) method: Method,
    /// Below `/v1/admin`.
    pub(crate) path: String,
    pub(crate) least: Role,
    pub(crate) body: Option<Value>,
}

pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// Creates a token with a role. Returns its text.
pub(crate) async fn token(console: &TestConsole, role: Role, app: Option<AppId>) -> String {
    let scope = app.map_or("all".to_owned(), |app| app.to_string());
    let name = format!("{role}-of-{scope}");
    let text = format!("tdga_{name:A<43}");
    let control = console.installation.context.store.control();
    let new = NewAdminToken { name: &name, app, role, lifetime: DAY };
    control.create_admin_token(new, &sha256(text.as_bytes()), &Actor::System).await.unwrap().unwrap();
    text
}

impl AdminClient {
    pub(crate) async fn of(console: &TestConsole) -> AdminClient {
        let (client, root) = (Client::new(), format!("{}/v1/admin", console.base));
        let document = client.get(format!("{root}/openapi.json")).send().await.unwrap().json().await.unwrap();
        let (validators, succeeded) = (Mutex::default(), Mutex::default());
        AdminClient { client, root, document, validators, succeeded }
    }

    pub(crate) fn operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for (path, calls) in self.document["paths"].as_object().unwrap() {
            for (method, call) in calls.as_object().unwrap() {
                let schema = &call["requestBody"]["content"]["application/json"]["schema"];
                operations.push(Operation {
                    method: method.to_uppercase().parse().unwrap(),
                    path: path.strip_prefix("/v1/admin").unwrap().to_owned(),
                    least: call["x-least-role"].as_str().unwrap().parse().unwrap(),
                    body: (!schema.is_null()).then(|| self.resolved(schema)["example"].clone()),
                });
            }
        }
        operations
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => self.document.pointer(&reference[1..]).unwrap(),
            None => schema,
        }
    }

    /// Makes a call, and checks its answer against the document.
    pub(crate) async fn call(
        &self,
        operation: &Operation,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Answered {
        let mut call = self.client.request(operation.method.clone(), format!("{}{path}", self.root));
        call = token.into_iter().fold(call, |call, token| call.bearer_auth(token));
        call = body.into_iter().fold(call, |call, body| call.json(body));
        self.check(operation, call).await
    }

    /// Sends a request, and checks its answer against the document.
    pub(crate) async fn check(&self, operation: &Operation, call: reqwest::RequestBuilder) -> Answered {
        let answer = call.send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        let text = answer.text().await.unwrap();
        let name = format!("{} {}", operation.method, operation.path);
        let key = operation.method.as_str().to_lowercase();
        let declared = &self.document["paths"][format!("/v1/admin{}", operation.path)][key]["responses"]
            [status.as_str()];
        assert!(!declared.is_null(), "{name}: the document does not declare {status} {text}");
        let declared = self.resolved(declared);
        for (header, about) in declared["headers"].as_object().unwrap() {
            let is_there = headers.contains_key(header) || self.resolved(about)["required"] != true;
            assert!(is_there, "{name}: {status} lacks the header {header}");
        }
        let schema = &declared["content"]["application/json"]["schema"];
        let body = if schema.is_null() { Value::Null } else { serde_json::from_str(&text).unwrap() };
        assert!(
            !schema.is_null() || text.is_empty(),
            "{name}: {status} has a body that is not declared: {text}"
        );
        if !schema.is_null() {
            self.validate(&name, schema, &body).await;
        }
        if status.is_success() {
            self.succeeded.lock().await.insert(name);
        }
        Answered { status, headers, body }
    }

    async fn validate(&self, name: &str, schema: &Value, body: &Value) {
        let mut validators = self.validators.lock().await;
        let validator = validators.entry(schema.to_string()).or_insert_with(|| {
            let mut root = schema.clone();
            root["components"] = json!({"schemas": closed(&self.document["components"]["schemas"])});
            jsonschema::draft202012::options().should_validate_formats(true).build(&root).unwrap()
        });
        let problems: Vec<_> =
            validator.iter_errors(body).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(problems.is_empty(), "{name}: {body}\n{}", problems.join("\n"));
    }
}

/// Forbids members that an object does not declare.
fn closed(schemas: &Value) -> Value {
    let mut schemas = schemas.clone();
    for schema in schemas.as_object_mut().unwrap().values_mut() {
        if schema.get("properties").is_some() && schema.get("allOf").is_none() {
            schema["unevaluatedProperties"] = json!(false);
        }
    }
    schemas
}
