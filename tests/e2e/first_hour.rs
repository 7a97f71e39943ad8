//! The mistakes of a first hour: each is named before anybody looks for it.

use reqwest::{Client, Method};
use serde_json::{Value, json};
use testkit::eventually;
use tokio::net::TcpListener;

use crate::directory::Directory;
use crate::running::{RunningProcess, STOPPED_WITHIN};

/// Calls the API as the backend of an app.
struct Backend<'a> {
    running: &'a RunningProcess,
    app: Value,
}

impl Backend<'_> {
    async fn call(&self, method: Method, path: &str, strict: bool, body: &Value) -> (u16, String, Value) {
        let request = Client::new().request(method, format!("{}/v3{path}", self.running.dev("api")));
        let request = request.header("X-SERVICE-API-KEY", self.app["apiKey"].as_str().unwrap());
        let request = request.header("X-SERVICE-API-SECRET", self.app["apiSecret"].as_str().unwrap());
        let request = if strict { request.header("Prefer", "handling=strict") } else { request };
        let request = if body.is_null() { request } else { request.json(body) };
        let answer = request.send().await.unwrap();
        let warning = answer.headers().get("warning").map(|text| text.to_str().unwrap().to_owned());
        (answer.status().as_u16(), warning.unwrap_or_default(), answer.json().await.unwrap())
    }

    /// Returns the codes of the problems for which the API refuses the send with strict handling.
    async fn refusals(&self, send: &Value) -> Vec<Value> {
        let (status, _, answer) = self.call(Method::POST, "/notifications", true, send).await;
        assert_eq!(status, 400, "{answer}");
        answer["errors"].as_array().unwrap().iter().map(|error| error["code"].clone()).collect()
    }
}

#[tokio::test]
async fn each_mistake_of_the_first_hour_is_named() {
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join("data")).await;
    let app = directory.run(&["app", "create", "shop", "--data-dir", "data", "--json"]).json();
    let stand_in = ["provider", "set", "shop", "--stand-in", "sms", "--data-dir", "data"];
    assert_eq!(directory.run(&stand_in).code, 0);
    set_a_dead_mail_server(&directory).await;
    put_a_template_with_the_name_of_a_person(&directory);

    let backend = Backend { running: &running, app };
    let profile = json!({"phoneNumber": "+49 151 1234-5678", "email": "ada@example.com"});
    let (status, warning, _) = backend.call(Method::PUT, "/users/ada", false, &profile).await;
    assert_eq!((status, warning.as_str()), (200, ""), "spaces are no mistake");
    let malformed = json!({"phoneNumber": "ask me"});
    let (_, warning, _) = backend.call(Method::PUT, "/users/bob", false, &malformed).await;
    assert!(warning.contains("phoneNumber must be"), "{warning}");

    let send = json!({
        "notification": {"templateIdentifier": "order"},
        "sendTo": {"recipients": ["ada", "nobody"]},
    });
    assert_eq!(backend.refusals(&send).await, ["missing_data", "unknown_recipient"]);
    let (status, _, sent) = backend.call(Method::POST, "/notifications", false, &send).await;
    assert_eq!(status, 202, "{sent}");
    let request = sent["requestId"].as_str().unwrap();
    what_waits_names_the_provider(&directory, &backend, request).await;

    let explained = directory.run(&["explain", "shop", "ada", request, "--data-dir", "data"]);
    assert!(explained.output.contains("waiting") && explained.output.contains("relay"), "{explained:?}");
    let nobody = directory.run(&["sends", "shop", "--recipient", "nobody", "--data-dir", "data"]);
    assert!(nobody.output.contains(request), "{nobody:?}");
    assert_eq!(running.stop().await, 0, "{}", running.log());
}

async fn set_a_dead_mail_server(directory: &Directory) {
    // The port is free again once the listener is dropped.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let provider = json!({
        "identifier": "relay", "channel": "email", "kind": "smtp",
        "settings": {"host": "127.0.0.1", "port": port, "security": "none", "from": "shop@example.com"},
    });
    let set = ["provider", "set", "shop", "--data-dir", "data"];
    let set = directory.run_with(&set, &[], &provider.to_string());
    assert_eq!(set.code, 0, "{set:?}");
    let tested = directory.run(&["provider", "test", "shop", "relay", "--data-dir", "data"]);
    assert!(tested.code == 1 && tested.errors.contains("refused"), "{tested:?}");
}

fn put_a_template_with_the_name_of_a_person(directory: &Directory) {
    let template = json!({"identifier": "order", "channels": {
        "email": {"subject": "Order {{ order }}", "text": "Hello {{ recipient.name }}, order {{ order }} left today."},
        "sms": {"text": "Order {{ order }} left today."},
    }});
    let put = ["template", "put", "shop", "--data-dir", "data"];
    let put = directory.run_with(&put, &[], &template.to_string());
    let said = format!("{}{}", put.output, put.errors);
    assert!(
        put.code == 0 && said.contains("recipient.name is empty") && said.contains("recipient.app.name"),
        "{said}"
    );
}

async fn what_waits_names_the_provider(directory: &Directory, backend: &Backend<'_>, request: &str) {
    let path = format!("/requests/{request}");
    let stored = eventually(STOPPED_WITHIN, "the email waits", async || {
        let (_, _, stored) = backend.call(Method::GET, &path, false, &Value::Null).await;
        stored["waiting"][0]["provider"].is_string().then_some(stored)
    })
    .await;
    assert_eq!(stored["waiting"][0]["provider"], "relay", "{stored}");
    assert!(stored["waiting"][0]["nextAttemptAt"].is_string(), "{stored}");
    let warned: Vec<_> = stored["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| (&warning["field"], &warning["code"]))
        .collect();
    let expected = [
        (&json!("data.order"), &json!("missing_data")),
        (&json!("recipient.name"), &json!("missing_profile")),
        (&json!("sendTo.recipients"), &json!("unknown_recipient")),
    ];
    assert_eq!(warned, expected, "{stored}");
    let waiting = directory.run_with(&["waiting", "--app", "shop"], &[("TIDINGS_DATA_DIR", "data")], "");
    assert!(waiting.output.contains("relay"), "{waiting:?}");
    let elsewhere = directory.run_with(&["app", "list"], &[("TIDINGS_DATA_DIR", "elsewhere")], "");
    assert!(
        elsewhere.code == 1 && elsewhere.errors.contains("no `tidings up` runs on elsewhere"),
        "{elsewhere:?}"
    );
    std::fs::write(directory.path().join("empty.toml"), "").unwrap();
    let file =
        directory.run_with(&["app", "list", "--config", "empty.toml"], &[("TIDINGS_DATA_DIR", "data")], "");
    assert!(file.code == 2 && file.errors.contains("no database is configured"), "{file:?}");
}
