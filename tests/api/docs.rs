//! `/openapi.json` and `/docs`.

use serde_json::{Value, json};

use crate::service::{Behind, Service};

#[tokio::test]
async fn the_document_is_served_once_and_confirmed_afterwards() {
    let service = Service::start_with(Behind::Nothing).await;
    let answer = service.call("GET /openapi.json").send().await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let tag = answer.header("etag").unwrap().to_owned();
    let document = answer.is(200);
    assert_eq!((&document["openapi"], &document["info"]["version"]), (&json!("3.1.0"), &json!("3.0.0")));
    assert_eq!(document["components"]["securitySchemes"]["apiKey"]["name"], "X-SERVICE-API-KEY");
    for known in [tag.as_str(), "*", &format!("\"other\", W/{tag}")] {
        let again = service.call("GET /openapi.json").header("If-None-Match", known).send().await;
        assert_eq!(again.header("etag"), Some(&*tag));
        assert_eq!(again.is(304), Value::Null);
    }
    service.call("GET /openapi.json/").header("If-None-Match", "\"other\"").send().await.is(200);
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere() {
    let service = Service::start_with(Behind::Nothing).await;
    let page = service.call("GET /docs").send().await;
    let policy = page.header("content-security-policy").unwrap().to_owned();
    let sources = policy.split([' ', ';']).filter(|word| !word.is_empty() && !word.contains('-'));
    let foreign: Vec<_> = sources.filter(|source| !["'none'", "'self'", "data:"].contains(source)).collect();
    assert!(policy.starts_with("default-src 'none'; ") && foreign.is_empty(), "{foreign:?}");
    let Value::String(html) = page.is(200) else { panic!("the page is not a text") };
    let loaded: Vec<_> =
        html.split(['"']).filter(|text| text.starts_with('/') || text.contains("://")).collect();
    assert_eq!(loaded.len(), 4, "{loaded:?}");
    for file in loaded {
        let answer = service.call(&format!("GET {file}")).send().await;
        assert_eq!(answer.header("content-security-policy"), Some(&*policy), "{file}");
        let Value::String(text) = answer.is(200) else { panic!("{file} is not a text") };
        assert!(!text.is_empty(), "{file}");
    }
    let Value::String(script) = service.call("GET /docs/page.js").send().await.is(200) else { panic!() };
    assert!(script.contains("validatorUrl: null") && !script.contains("://"), "{script}");
    for file in ["index.html", "..%2Fopenapi.json", "swagger-initializer.js", "x"] {
        service.call(&format!("GET /docs/{file}")).send().await.fails(404, "not_found");
    }
}
