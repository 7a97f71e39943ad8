//! Sizes, media types and JSON of bodies.

use serde_json::{Value, json};

use crate::service::{Backing, Service, plain_send};

const SEND: &str = "POST /v3/notifications";

/// Returns `body`, padded with spaces to `size` bytes.
fn padded(body: &Value, size: usize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(body).unwrap();
    bytes.resize(size, b' ');
    bytes
}

#[tokio::test]
async fn a_body_of_768_kib_is_accepted_and_one_more_byte_is_refused() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let body = plain_send(&["ada"]);
    let largest = padded(&body, gateway::MAX_BODY);
    service.by(&shop, SEND).body(largest, "application/json").send().await.is(202);
    for size in [gateway::MAX_BODY + 1, 3 * gateway::MAX_BODY] {
        let answer = service.by(&shop, SEND).body(padded(&body, size), "application/json").send().await;
        answer.fails(413, "too_large");
    }
    let user = padded(&json!({"identifier": "ada"}), gateway::MAX_BODY + 1);
    service.by(&shop, "POST /v3/users").body(user, "application/json").send().await.fails(413, "too_large");
}

#[tokio::test]
async fn an_event_too_large_for_the_log_is_a_413() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    // The body writes each number as `1e15`; the event in the log writes all its digits, which takes four times as many bytes.
    let numbers = vec!["1e15"; 100_000].join(",");
    let body = format!(
        r#"{{"notification":{{"title":"x","blocks":[{{"n":[{numbers}]}}]}},"sendTo":{{"recipients":["ada"]}}}}"#
    );
    service.by(&shop, SEND).body(body, "application/json").send().await.fails(413, "too_large");
    assert_eq!(service.sends().await, 0);
}

#[tokio::test]
async fn a_body_without_a_length_is_read_up_to_the_limit() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let body = serde_json::to_vec(&plain_send(&["ada"])).unwrap();
    let chunked = |padding: usize| {
        let padding = "20\r\n                                \r\n".repeat(padding / 32);
        let request = format!(
            "POST /v3/notifications HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\
             X-SERVICE-API-KEY: {}\r\nX-SERVICE-API-SECRET: {}\r\nX-Request-Id: raw\r\n\r\n\
             {:x}\r\n{}\r\n{padding}0\r\n\r\n",
            shop.key,
            shop.secret,
            body.len(),
            String::from_utf8_lossy(&body),
        );
        service.raw(request)
    };
    assert!(chunked(0).await.starts_with("HTTP/1.1 202 "));
    assert!(chunked(gateway::MAX_BODY).await.starts_with("HTTP/1.1 413 "));
}

#[tokio::test]
async fn only_json_in_utf8_is_read() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let body = serde_json::to_vec(&plain_send(&["ada"])).unwrap();
    for media in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""]
    {
        service.by(&shop, SEND).body(&*body, media).send().await.is(202);
    }
    for media in
        ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "json"]
    {
        service.by(&shop, SEND).body(&*body, media).send().await.fails(415, "unsupported_media_type");
    }
    let compressed =
        service.by(&shop, SEND).header("Content-Encoding", "gzip").body(&*body, "application/json");
    compressed.send().await.fails(415, "unsupported_media_type");
}

#[tokio::test]
async fn another_media_type_is_refused_with_those_that_the_call_accepts() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let (json, patch) = ("application/json", "application/json-patch+json");
    let calls: [(&str, &[&str], &[&str]); 4] = [
        (
            "PATCH /v3/profile",
            &[json, patch],
            &["application/merge-patch+json", "text/json", "application/xml", ""],
        ),
        ("PATCH /v3/preferences", &[json], &[patch, "application/merge-patch+json", "text/plain"]),
        ("PUT /v3/profile", &[json], &[patch, "multipart/form-data; boundary=x", "text/plain"]),
        ("POST /v3/sdk/connect", &[json], &[patch, "application/jsonl"]),
    ];
    for (call, right, wrong) in calls {
        for media in wrong {
            let answer = service.of(&shop, "ada", call).body("[]", media).send().await;
            answer.fails(415, "unsupported_media_type");
            let message = answer.body["message"].as_str().unwrap();
            let (named, sent) = message.split_once(", in UTF-8; ").unwrap_or((message, ""));
            for media in [json, patch] {
                let is_named = named.split(' ').any(|word| word.trim_matches(',') == media);
                assert_eq!(is_named, right.contains(&media), "{call}: {media}: {message}");
            }
            assert!(sent.ends_with(media), "{call}: {message}");
        }
    }
}

#[tokio::test]
async fn malformed_bodies_are_a_400() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let deep = "[".repeat(50_000);
    let bodies: [&[u8]; 9] = [
        b"",
        b"hello",
        b"{\"a\":}",
        b"{\"a\":1}x",
        b"\xff\xfe",
        b"{\"a\":\"\xff\"}",
        br#"{"a":"\ud800"}"#,
        b"{\"a\":1e999}",
        deep.as_bytes(),
    ];
    for call in [SEND, "POST /v3/users", "POST /v3/categories"] {
        for body in bodies {
            let answer = service.by(&shop, call).body(body, "application/json").send().await;
            answer.has_problems(&[("", "malformed_json")]);
        }
    }
    let nested = |levels: usize| {
        let data = (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
        json!({"notification": {"title": "x"}, "sendTo": {"recipients": ["ada"]}, "data": data})
    };
    service.by(&shop, SEND).json(&nested(31)).send().await.is(202);
    let answer = service.by(&shop, SEND).json(&nested(40)).send().await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.body["errors"][0]["code"], "too_deep");
}

#[tokio::test]
async fn a_body_that_would_exhaust_memory_is_refused_before_parsing() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let objects = |object: &str, count: usize| format!("[{}]", vec![object; count].join(","));
    for (call, before) in [
        (SEND, r#"{"sendTo":{"recipients":["ada"]},"notification":{"title":"x"},"data":{"a":"#),
        ("POST /v3/users", r#"{"identifier":"ada","a":{"a":"#),
    ] {
        let body = format!("{before}{}}}}}", objects("{}", 100_000));
        let answer = service.by(&shop, call).body(body, "application/json").send().await;
        answer.has_problems(&[("", "too_many")]);
        assert!(answer.body["message"][0].as_str().unwrap().contains("split it"), "{}", answer.body);
    }
    // The member `attachments` raises the size limit, but only for the content of files.
    let attachments = r#"{"data":{"attachments":[],"a":"#;
    let body = format!("{attachments}{}}}}}", objects("{\"\":0}", 200_000));
    service.by(&shop, SEND).body(body, "application/json").send().await.fails(413, "too_large");
    // The maximum number of recipients, each with its own data.
    let people: Vec<_> =
        (0..10_000).map(|n| json!({"identifier": format!("user-{n}"), "data": {"n": [n]}})).collect();
    let send = json!({"notification": {"title": "x"}, "sendTo": {"recipients": people}});
    service.by(&shop, SEND).json(&send).send().await.is(202);
    assert_eq!(service.sends().await, 1);
}
