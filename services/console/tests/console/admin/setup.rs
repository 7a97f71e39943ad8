use std::collections::BTreeSet;

use domain::Role;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::contract::{AdminClient, Answered, Operation, token};
use crate::access::filled;
use crate::fixture::TestConsole;

/// A program with the token of an administrator.
struct Program {
    console: TestConsole,
    client: AdminClient,
    token: String,
}

impl Program {
    async fn start() -> Program {
        let (console, ..) = filled().await;
        let client = AdminClient::of(&console).await;
        let token = token(&console, Role::Admin, None).await;
        Program { console, client, token }
    }

    fn operation(&self, method: &str, path: &str) -> Operation {
        let path = path.split('?').next().unwrap();
        let is_of = |operation: &Operation| {
            let (own, given) = (operation.path.split('/'), path.split('/'));
            operation.method == method
                && own.clone().count() == given.clone().count()
                && own.zip(given).all(|(own, given)| own.starts_with('{') || own == given)
        };
        self.client.operations().into_iter().find(is_of).unwrap_or_else(|| panic!("{method} {path}"))
    }

    /// Makes a call that must succeed, and returns the body of its answer.
    async fn call(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.try_call(method, path, body).await;
        assert!(answer.status.is_success(), "{method} {path}: {} {}", answer.status, answer.body);
        answer.body
    }

    async fn try_call(&self, method: &str, path: &str, body: Value) -> Answered {
        let operation = self.operation(method, path);
        let body = (!body.is_null()).then_some(&body);
        self.client.call(&operation, path, Some(&self.token), body).await
    }

    /// Makes a call with `If-Match`, and returns its status.
    async fn put_if(&self, path: &str, version: &str, body: Value) -> StatusCode {
        let operation = self.operation("PUT", path);
        let url = format!("{}/v1/admin{path}", self.console.base);
        let call = reqwest::Client::new().put(url).bearer_auth(&self.token).header("if-match", version);
        self.client.check(&operation, call.json(&body)).await.status
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_sets_up_an_app() {
    let program = Program::start().await;
    let created = program.call("POST", "/apps", json!({"name": "a/b?c#d"})).await;
    assert!(created["apiSecret"].as_str().unwrap().starts_with("as_"));
    let app = "/apps/a%2Fb%3Fc%23d";
    let taken = program.try_call("POST", "/apps", json!({"name": "a/b?c#d"})).await;
    assert_eq!((taken.status, &taken.body["code"]), (StatusCode::CONFLICT, &json!("name_taken")));
    let changed = program.call("PATCH", app, json!({"settings": {"rate-limit": "500", "hmac": "on"}})).await;
    assert_eq!(
        (&changed["settings"]["rate-limit"], &changed["settings"]["hmac"]),
        (&json!("500"), &json!("on"))
    );
    let bad = json!({"settings": {"rate-limit": "many", "nonsense": "on", "hmac": 1}});
    let refused = program.try_call("PATCH", app, bad).await;
    assert_eq!(
        (refused.status, refused.body["errors"].as_array().unwrap().len()),
        (StatusCode::BAD_REQUEST, 3)
    );
    program.call("POST", &format!("{app}/secrets"), json!({"graceSeconds": 0})).await;
    program.call("POST", &format!("{app}/link-key"), json!({})).await;
    let key = program.call("POST", &format!("{app}/signing-keys"), json!({"algorithm": "ES256"})).await;
    let kid = key["kid"].as_str().unwrap();
    let listed = program.call("GET", &format!("{app}/signing-keys"), Value::Null).await.to_string();
    assert!(listed.contains(kid) && !listed.contains("PRIVATE"), "{listed}");
    program.call("DELETE", &format!("{app}/signing-keys/{kid}"), Value::Null).await;
    let shown = program.call("GET", app, Value::Null).await;
    assert_eq!(shown["secrets"][0]["set"], true);
    assert!(!shown.to_string().contains("as_"), "{shown}");
    program.call("PUT", &format!("{app}/categories/orders"), json!({"name": "Orders", "order": 3})).await;
    let category = program.call("GET", &format!("{app}/categories?limit=1"), Value::Null).await;
    let id = category["data"][0]["id"].as_str().unwrap();
    program.call("DELETE", &format!("{app}/categories/{id}"), Value::Null).await;
    program.call("PUT", &format!("{app}/topics/news"), json!({"name": "News", "open": true})).await;
    program.call("GET", &format!("{app}/topics"), Value::Null).await;
    program.call("DELETE", &format!("{app}/topics/news"), Value::Null).await;
    let hook = json!({"url": "https://shop.example.com/tidings", "events": ["delivery.failed"]});
    let hook = program.call("POST", &format!("{app}/webhooks"), hook).await;
    assert!(hook["secret"].is_string());
    let endpoint = format!("{app}/webhooks/{}", hook["id"].as_str().unwrap());
    let listed = program.call("GET", &format!("{app}/webhooks"), Value::Null).await.to_string();
    assert!(!listed.contains(hook["secret"].as_str().unwrap()), "{listed}");
    program.call("POST", &format!("{endpoint}/secret"), json!({})).await;
    program.call("GET", &format!("{endpoint}/failed"), Value::Null).await;
    program.call("POST", &format!("{endpoint}/redeliver"), Value::Null).await;
    program.call("DELETE", &endpoint, Value::Null).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_changes_providers_and_templates_only_in_the_version_that_it_read() {
    let program = Program::start().await;
    let (provider, template) = ("/apps/shop/providers/main", "/apps/shop/templates/welcome");
    let document = json!({"channel": "email", "kind": "smtp", "settings": {"host": "a", "password": "pa55"}});
    assert_eq!(program.put_if(provider, "\"1\"", document.clone()).await, StatusCode::PRECONDITION_FAILED);
    let put = program.call("PUT", provider, document.clone()).await;
    let version = format!("\"{}\"", put["version"]);
    let shown = program.call("GET", provider, Value::Null).await;
    assert_eq!((&shown["secrets"]["set"], &shown["settings"]["host"]), (&json!(true), &json!("a")));
    assert!(!shown.to_string().contains("pa55"), "{shown}");
    let moved = json!({"channel": "email", "kind": "smtp", "settings": {"host": "b"}});
    assert_eq!(
        program.put_if(provider, &version, moved).await,
        StatusCode::BAD_REQUEST,
        "no secret goes elsewhere"
    );
    let changed = json!({"channel": "email", "kind": "smtp", "settings": {"host": "b", "password": "pa55"}});
    assert_eq!(program.put_if(provider, &version, changed.clone()).await, StatusCode::OK);
    assert_eq!(program.put_if(provider, &version, document.clone()).await, StatusCode::PRECONDITION_FAILED);
    assert_eq!(program.put_if(provider, "1", document).await, StatusCode::BAD_REQUEST);
    let shown = program.call("GET", provider, Value::Null).await;
    assert_eq!(
        (&shown["secrets"]["set"], &shown["settings"]["host"]),
        (&json!(true), &json!("b")),
        "nothing is overwritten"
    );
    let other = json!({"identifier": "other", "channel": "email", "kind": "smtp"});
    assert_eq!(program.try_call("PUT", provider, other).await.status, StatusCode::BAD_REQUEST);
    program.call("POST", &format!("{provider}/disable"), Value::Null).await;
    program.call("POST", &format!("{provider}/enable"), Value::Null).await;
    assert_eq!(program.call("GET", "/apps/shop/providers", Value::Null).await["data"][0]["enabled"], true);
    program.call("DELETE", provider, Value::Null).await;

    let text = |text: &str| json!({"channels": {"sms": {"text": text}}});
    assert_eq!(program.call("PUT", template, text("Hi {{ name }}")).await["version"], 1);
    assert_eq!(program.put_if(template, "\"1\"", text("Hello {{ name }}")).await, StatusCode::OK);
    assert_eq!(program.put_if(template, "\"1\"", text("Bye")).await, StatusCode::PRECONDITION_FAILED);
    let preview =
        program.call("POST", &format!("{template}/preview"), json!({"data": {"name": "Ada"}})).await;
    assert_eq!(preview["channels"]["sms"]["text"], "Hello Ada", "{preview}");
    let restored = program.call("POST", &format!("{template}/versions/1/restore"), Value::Null).await;
    assert_eq!(restored["version"], 3);
    let versions = program.call("GET", &format!("{template}/versions"), Value::Null).await;
    assert_eq!(versions["data"].as_array().unwrap().len(), 3);
    let first = program.call("GET", &format!("{template}/versions/1"), Value::Null).await;
    assert_eq!(first["channels"], program.call("GET", template, Value::Null).await["channels"]);
    program.call("GET", "/apps/shop/templates", Value::Null).await;
    let broken = program.try_call("PUT", template, text("{{ name")).await;
    assert_eq!(broken.status, StatusCode::BAD_REQUEST, "{}", broken.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_reads_and_changes_what_waits_and_what_happened() {
    const SEND: &str = "0197b5a2-0000-7000-8000-000000000001";
    const DEAD: &str = "0197b5a2-0000-7000-8000-000000000009";
    let program = Program::start().await;
    for statement in crate::access::EVE {
        program.console.installation.run(statement).await;
    }
    let parked = program.call("GET", "/parked?app=shop&channel=email", Value::Null).await;
    let message = parked["data"][0]["id"].as_str().unwrap();
    program.call("GET", &format!("/parked/{message}"), Value::Null).await;
    let run = "/apps/shop/redrives/7";
    assert_eq!(program.call("POST", &format!("{run}/pause"), Value::Null).await["state"], "paused");
    let again = program.try_call("POST", &format!("{run}/pause"), Value::Null).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert_eq!(program.call("POST", &format!("{run}/resume"), Value::Null).await["state"], "running");
    assert_eq!(program.call("POST", &format!("{run}/stop"), Value::Null).await["state"], "stopped");
    assert_eq!(program.call("GET", run, Value::Null).await["state"], "stopped");
    program.call("GET", "/apps/shop/redrives", Value::Null).await;
    let preview = program.call("POST", "/apps/shop/parked/preview", json!({"cause": "535"})).await;
    let start =
        json!({"selection": {"cause": "535"}, "previewedAt": preview["at"], "expected": preview["expected"]});
    let started = program.try_call("POST", "/apps/shop/redrives", start).await;
    // The message of the fixture is not readable, so a redrive would do nothing.
    let expected = if preview["expected"] == 0 { StatusCode::BAD_REQUEST } else { StatusCode::CREATED };
    assert_eq!(started.status, expected, "{}", started.body);
    let waiting = program.call("GET", "/waiting?app=shop", Value::Null).await;
    let group = &waiting["data"][0];
    let cause = json!({"channel": group["channel"], "reason": group["reason"], "provider": group["provider"], "code": group["code"]});
    assert_eq!(program.call("POST", "/apps/shop/waiting/release", cause).await["changed"], 1);
    for path in ["/requests", "/people", "/people/ada", "/overview", "/refused", "/explain?person=ada"] {
        program.call("GET", &format!("/apps/shop{path}"), Value::Null).await;
    }
    let request = format!("/apps/shop/requests/{SEND}");
    program.call("GET", &request, Value::Null).await;
    program.call("GET", &format!("{request}/deliveries?limit=1"), Value::Null).await;
    program
        .call("GET", &format!("/apps/shop/explain?person=eve@example.com&request={SEND}"), Value::Null)
        .await;
    program.call("DELETE", &request, Value::Null).await;
    program.call("DELETE", &format!("/apps/shop/suppressions/email/{DEAD}"), Value::Null).await;
    program.call("DELETE", "/apps/shop/people/ada", Value::Null).await;
    let succeeded = program.client.succeeded.lock().await;
    assert!(succeeded.len() >= 18, "{succeeded:?}");
    assert!(succeeded.contains(&format!("{} /waiting", Method::GET)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_manages_operators_and_tokens_under_its_own_name() {
    let program = Program::start().await;
    for path in ["/apps", "/suppressions", "/processes", "/audit", "/operators", "/tokens"] {
        program.call("GET", path, Value::Null).await;
    }
    let operator = json!({"email": "bob@example.com", "role": "support", "app": "shop"});
    let link = program.call("POST", "/operators", operator).await;
    assert!(link["link"].as_str().unwrap().contains("/welcome?code="), "{link}");
    program.call("POST", "/operators/bob@example.com/link", Value::Null).await;
    program.call("PATCH", "/operators/bob@example.com", json!({"disabled": true})).await;
    let new = json!({"name": "ci", "role": "editor", "app": "shop", "expiresInSeconds": 3_600});
    let created = program.call("POST", "/tokens", new).await;
    assert!(created["token"].as_str().unwrap().starts_with("tdga_"));
    program.call("DELETE", "/tokens/ci", Value::Null).await;
    let audit = program.call("GET", "/audit?actorKind=token", Value::Null).await;
    let rows: BTreeSet<_> =
        audit["data"].as_array().unwrap().iter().map(|row| row["action"].as_str().unwrap()).collect();
    for action in ["operator.create", "operator.link", "operator.disable", "token.create", "token.revoke"] {
        assert!(rows.contains(action), "{rows:?}");
    }
    assert!(!audit.to_string().contains(created["token"].as_str().unwrap()));
}
