use domain::Role;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::access::path;
use super::contract::{AdminClient, token};
use crate::access::filled;
use crate::fixture::encoded;

/// Values that callers might send in place of a name or number.
const TEXTS: [&str; 8] = [
    "",
    "a/b?c#d",
    "\u{0}",
    "'; DROP TABLE app; --",
    "-1",
    "9223372036854775808",
    "ünï\u{202e}code",
    "{app}",
];

fn bodies() -> Vec<Value> {
    let deep = (0..200).fold(json!(1), |inner, _| json!({ "a": inner }));
    vec![json!(null), json!([]), json!("x"), json!({"unknown": 1}), deep, json!({"": {"\u{0}": "\u{0}"}})]
}

/// Replaces the value of each member of an example.
fn mutations(example: &Value) -> Vec<Value> {
    let wrong = [
        json!(null),
        json!(-1),
        json!("\u{0}"),
        json!([1]),
        json!({"x": 1}),
        json!(1e300),
        json!("x".repeat(3_000)),
    ];
    let mut mutated = Vec::new();
    for (member, _) in example.as_object().into_iter().flatten() {
        for value in &wrong {
            let mut body = example.clone();
            body[member] = value.clone();
            mutated.push(body);
        }
    }
    mutated
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_calls_are_refused_as_the_document_says() {
    let (console, ..) = filled().await;
    let client = AdminClient::of(&console).await;
    let token = token(&console, Role::Admin, None).await;
    let mut made = 0;
    for operation in client.operations() {
        let path = path(&operation, "shop");
        let example = operation.body.clone();
        if let Some(example) = &example {
            for body in bodies().iter().chain(&mutations(example)) {
                let answer = client.call(&operation, &path, Some(&token), Some(body)).await;
                assert!(
                    !answer.status.is_server_error(),
                    "{} {path} {body}: {}",
                    operation.method,
                    answer.body
                );
                made += 1;
            }
        }
        for text in TEXTS.iter().filter(|text| !text.is_empty()) {
            let hostile = operation
                .path
                .split('/')
                .map(|part| if part.starts_with('{') { encoded(text) } else { part.to_owned() });
            let hostile = hostile.collect::<Vec<_>>().join("/");
            let answer = client.call(&operation, &hostile, Some(&token), example.as_ref()).await;
            assert!(!answer.status.is_server_error(), "{} {hostile}: {}", operation.method, answer.body);
            let call = &client.document["paths"][format!("/v1/admin{}", operation.path)];
            let call = &call[operation.method.as_str().to_lowercase()];
            for parameter in
                call["parameters"].as_array().unwrap().iter().filter(|parameter| parameter["in"] == "query")
            {
                let name = parameter["name"].as_str().unwrap();
                let joint = if path.contains('?') { '&' } else { '?' };
                let query = format!("{path}{joint}{name}={}", encoded(text));
                let answer = client.call(&operation, &query, Some(&token), None).await;
                assert!(!answer.status.is_server_error(), "{query}: {}", answer.body);
                made += 1;
            }
            made += 1;
        }
    }
    println!("{made} malformed calls were made");
    assert!(made > 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_members_and_parameters_and_other_bodies_are_refused() {
    let (console, ..) = filled().await;
    let client = AdminClient::of(&console).await;
    let token = token(&console, Role::Admin, None).await;
    for operation in client.operations() {
        let path = path(&operation, "shop");
        let joint = if path.contains('?') { '&' } else { '?' };
        let answer = client
            .call(&operation, &format!("{path}{joint}nonsense=1"), Some(&token), operation.body.as_ref())
            .await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(answer.body["errors"][0]["code"], "unknown_parameter", "{path}");
        let Some(mut body) = operation.body.clone() else { continue };
        body["nonsense"] = json!(1);
        let answer = client.call(&operation, &path, Some(&token), Some(&body)).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path} {}", answer.body);
        assert!(answer.body.to_string().contains("nonsense"), "{path} {}", answer.body);
    }
    let list = client.operations().into_iter().find(|operation| operation.path == "/parked").unwrap();
    for empty in ["since", "cause", "app", "delivery"] {
        let answer = client.call(&list, &format!("/parked?{empty}="), Some(&token), None).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "an empty {empty} would list all");
    }
    let root = format!("{}/v1/admin", console.base);
    let http = reqwest::Client::new();
    let create = client
        .operations()
        .into_iter()
        .find(|operation| operation.path == "/apps" && operation.method == Method::POST)
        .unwrap();
    for (body, media, status) in [
        ("{", "application/json", 400),
        ("{}", "text/plain", 415),
        (&*"x".repeat(800 * 1024), "application/json", 413),
        (&*format!("{}1{}", "[".repeat(60_000), "]".repeat(60_000)), "application/json", 400),
    ] {
        let call = http.post(format!("{root}/apps")).bearer_auth(&token).header("content-type", media);
        let answer = client.check(&create, call.body(body.to_owned())).await;
        assert_eq!(answer.status.as_u16(), status, "{media}");
    }
    let call = http.post(format!("{root}/apps")).bearer_auth(&token).header("accept", "text/html");
    assert_eq!(client.check(&create, call).await.status, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods_name_what_exists() {
    let (console, ..) = filled().await;
    for (method, path, status) in [
        (Method::GET, "/v1/admin", 404),
        (Method::GET, "/v1/admin/", 404),
        (Method::GET, "/v1/admin/nothing", 404),
        (Method::PUT, "/v1/admin/apps", 405),
        (Method::GET, "/v1/admin/apps/%FF", 404),
        (Method::GET, "/v1/administrator", 404),
    ] {
        let answer = console.call(method.clone(), path).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{method} {path}");
        if status == 405 {
            assert_eq!(answer.headers()["allow"], "GET, POST, HEAD");
        }
    }
}
