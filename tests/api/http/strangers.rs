//! Routes that need no credentials.

use serde_json::{Map, Value};

use crate::attacker::Attacker;
use crate::service::{Backing, Service};

/// Route that is exempt from the rate limit: a load balancer must never count as a flood.
const EXEMPT: &str = "GET /healthz";

/// Returns the method and path of every operation that needs no credentials, by the OpenAPI document.
fn open_routes(document: &Value) -> Vec<String> {
    let none = Map::new();
    let mut routes = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap_or(&none) {
        for (method, operation) in operations.as_object().unwrap_or(&none) {
            // An operation without a requirement of its own has the document's.
            let security = operation.get("security").or_else(|| document.get("security"));
            let is_open = security.and_then(Value::as_array).is_none_or(|demands| {
                demands.is_empty()
                    || demands.iter().any(|demand| demand.as_object().is_some_and(Map::is_empty))
            });
            if is_open && operation.is_object() && operation.get("responses").is_some() {
                let path: String = path
                    .split('/')
                    .map(|part| if part.starts_with('{') { "x" } else { part })
                    .collect::<Vec<_>>()
                    .join("/");
                routes.push(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    routes
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_without_credentials_but_healthz_is_limited_by_peer() {
    let service = Service::start_configured(|config| {
        config.gateway.peer_rate_limit = 3;
        config.gateway.refusal_rate_limit = 3;
    })
    .await;
    let document = service.call("GET /openapi.json").send().await.is(200);
    let mut routes = open_routes(&document);
    for known in [
        EXEMPT,
        "GET /readyz",
        "GET /openapi.json",
        "GET /docs",
        "GET /guide/x",
        "GET /clients/x/x",
        "POST /v3/push/click/x",
    ] {
        assert!(routes.iter().any(|route| route == known), "{known} is missing in {routes:?}");
    }
    // Calls that no handler serves, and calls whose credentials are missing.
    for other in [
        "GET /nothing",
        "DELETE /",
        "DELETE /docs",
        "GET /openapi.json/",
        "GET /v3/notifications",
        "POST /v3/x",
    ] {
        routes.push(other.to_owned());
    }
    assert!(routes.len() > 15, "{routes:?}");
    for (number, route) in (1..).zip(&routes) {
        let attacker = Attacker::new(number, service.address);
        let request =
            format!("{route} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let mut statuses = Vec::new();
        for _ in 0..20 {
            statuses.push(attacker.status(request.as_bytes()).await.unwrap());
        }
        assert_eq!(statuses.contains(&429), route != EXEMPT, "{route}: {statuses:?}");
    }
}

#[tokio::test]
async fn large_answers_to_strangers_are_compressed() {
    let service = Service::start_with(Backing::Nothing).await;
    let client = reqwest::Client::new();
    let get = async |path: &str, encoding: &str| {
        let url = format!("http://{}{path}", service.address);
        let answer = client.get(url).header("Accept-Encoding", encoding).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        let used = answer.headers().get("content-encoding").map(|used| used.to_str().unwrap().to_owned());
        (used, answer.bytes().await.unwrap().len())
    };
    for path in [
        "/openapi.json",
        "/docs",
        "/docs/search.json",
        "/guide/api",
        "/llms-full.txt",
        "/clients/inbox/index.js",
    ] {
        let (zipped, plain) = (get(path, "gzip").await, get(path, "identity").await);
        assert_eq!((zipped.0.as_deref(), &plain.0), (Some("gzip"), &None), "{path}");
        assert!(zipped.1 * 2 < plain.1, "{path}: {} of {} bytes", zipped.1, plain.1);
    }
}
