//! `/openapi.json` and `/docs`.

use serde_json::{Value, json};

use crate::service::{Backing, Service};

#[tokio::test]
async fn the_document_is_served_once_and_then_answered_with_304() {
    let service = Service::start_with(Backing::Nothing).await;
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
async fn the_documentation_page_loads_nothing_from_other_hosts() {
    let service = Service::start_with(Backing::Nothing).await;
    let page = service.call("GET /docs").send().await;
    let policy = page.header("content-security-policy").unwrap().to_owned();
    let sources = policy.split([' ', ';']).filter(|word| !word.is_empty() && !word.contains('-'));
    let foreign: Vec<_> = sources.filter(|source| !["'none'", "'self'", "data:"].contains(source)).collect();
    assert!(policy.starts_with("default-src 'none'; ") && foreign.is_empty(), "{foreign:?}");
    let Value::String(html) = page.is(200) else { panic!("the page is not text") };
    let loaded: Vec<_> =
        html.split(['"']).filter(|text| text.starts_with('/') || text.contains("://")).collect();
    assert_eq!(loaded.len(), 4, "{loaded:?}");
    for file in loaded {
        let answer = service.call(&format!("GET {file}")).send().await;
        assert_eq!(answer.header("content-security-policy"), Some(&*policy), "{file}");
        let Value::String(text) = answer.is(200) else { panic!("{file} is not text") };
        assert!(!text.is_empty(), "{file}");
    }
    let Value::String(script) = service.call("GET /docs/page.js").send().await.is(200) else { panic!() };
    assert!(script.contains("validatorUrl: null") && !script.contains("://"), "{script}");
    for file in ["index.html", "..%2Fopenapi.json", "swagger-initializer.js", "x"] {
        service.call(&format!("GET /docs/{file}")).send().await.fails(404, "not_found");
    }
}

#[tokio::test]
async fn the_browser_clients_are_served_with_and_without_a_release() {
    let service = Service::start_with(Backing::Nothing).await;
    let release = env!("CARGO_PKG_VERSION");
    let fixed = service.call(&format!("GET /clients/{release}/inbox/index.js")).send().await;
    assert_eq!(fixed.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(fixed.header("access-control-allow-origin"), Some("*"), "pages of other origins import it");
    assert_eq!(fixed.header("cross-origin-resource-policy"), Some("cross-origin"));
    assert_eq!(fixed.header("cache-control"), Some("public, max-age=31536000, immutable"));
    let script = fixed.is(200);
    assert!(script.as_str().unwrap().contains("tidings-inbox"));
    let path = format!("GET /clients/{release}/inbox/index.js");
    let zipped = service.call(&path).header("Accept-Encoding", "br, gzip").send().await;
    assert_eq!((zipped.status, zipped.header("content-encoding")), (200, Some("gzip")));

    // A page with the path of another release works during and after an upgrade.
    for other in ["0.0.1", "999.0.0"] {
        let other = service.call(&format!("GET /clients/{other}/inbox/index.js")).send().await;
        assert_eq!(other.header("cache-control"), Some("no-store"));
        assert_eq!(other.is(200), script);
    }

    let newest = service.call("GET /clients/inbox/index.js").send().await;
    assert_eq!(newest.header("cache-control"), Some("public, max-age=300"));
    let tag = newest.header("etag").unwrap().to_owned();
    assert_eq!(newest.is(200), script);
    let again = service.call("GET /clients/inbox/index.js").header("If-None-Match", &tag).send().await;
    assert_eq!(again.is(304), Value::Null);
    for path in [
        "clients/inbox/other.js",
        "clients/demo/shop.js",
        "clients/0.0.1/inbox/other.js",
        "clients/latest/inbox/index.js",
        "clients/..%2Fx/y",
    ] {
        service.call(&format!("GET /{path}")).send().await.fails(404, "not_found");
    }
}

#[tokio::test]
async fn the_minified_clients_are_served_in_the_smallest_form_that_the_caller_accepts() {
    let service = Service::start_with(Backing::Nothing).await;
    let mut tags = std::collections::BTreeSet::new();
    let forms = [("gzip, br", Some("br")), ("gzip, br;q=0", Some("gzip")), ("identity", None)];
    for (accepted, coding) in forms {
        let file = service.call("GET /clients/min/inbox.js").header("Accept-Encoding", accepted).send().await;
        assert_eq!((file.status, file.header("content-encoding")), (200, coding), "{accepted}");
        assert_eq!(file.header("vary"), Some("accept-encoding"));
        let tag = file.header("etag").unwrap().to_owned();
        let again = service.call("GET /clients/min/inbox.js").header("Accept-Encoding", accepted);
        assert_eq!(again.header("If-None-Match", &tag).send().await.is(304), Value::Null);
        tags.insert(tag);
    }
    assert_eq!(tags.len(), forms.len(), "each form has its tag");
}

/// Finds the row of `docs/limits.md` that begins with this text, and returns its second column.
fn listed(row: &str) -> String {
    let page = include_str!("../../../docs/limits.md");
    let row = format!("| {row} |");
    let line = page.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("no row {row}"));
    line.split('|').nth(2).unwrap().trim().to_owned()
}

#[test]
fn docs_limits_states_the_limits_of_live_connections() {
    use gateway::limits;
    let seconds = |time: std::time::Duration| format!("{} s", time.as_secs());
    let connections = service_kit::Config::default().gateway.realtime_connections;
    let rows = [
        ("live connections (`/v3/stream`, `/socket.io/`)", connections.to_string()),
        ("live connections opened per second", limits::OPENED_PER_SECOND.to_string()),
        (
            "live connections of a user, also of one that does not exist yet; \
             the oldest is closed, but never one with a proof for one without",
            limits::PER_USER.to_string(),
        ),
        (
            "updates that wait for a client; more become a reset",
            format!("{}, and {} KiB", limits::QUEUED, limits::QUEUED_BYTES / 1024),
        ),
        ("time for a Socket.IO client to send CONNECT", seconds(limits::CONNECT_WITHIN)),
        (
            "size of a message of a Socket.IO client, as its frames declare it",
            format!("{} bytes", limits::MAX_FRAME),
        ),
        (
            "memory of unfinished messages of Socket.IO clients over 4 KiB",
            format!("{} KiB", limits::MESSAGE_ROOM),
        ),
        ("bytes for a Socket.IO client that it has not read", format!("{} bytes", limits::MAX_UNREAD)),
        ("size of a head: request line and headers", format!("{} bytes", limits::MAX_HEAD)),
        ("frames per second of a Socket.IO client", limits::PACKETS.to_string()),
    ];
    for (row, limit) in rows {
        assert_eq!(listed(row), limit, "{row}");
    }
}

#[test]
fn docs_limits_states_the_limits_of_the_code() {
    use gateway::limits;
    let config = service_kit::Config::default();
    let (gateway, seconds) = (&config.gateway, |time: std::time::Duration| format!("{} s", time.as_secs()));
    let rows = [
        ("requests per second of a user", gateway.user_rate_limit.to_string()),
        ("requests per second with a public key or nothing", gateway.peer_rate_limit.to_string()),
        ("requests per second with wrong credentials", gateway.refusal_rate_limit.to_string()),
        ("look-ups per second of unknown API keys", gateway.refusal_rate_limit.to_string()),
        ("concurrent look-ups of unknown API keys", limits::LOOK_UPS.to_string()),
        (
            "sends per second in the transactional lane; sends above this rate go to the bulk lane",
            gateway.transactional_rate.to_string(),
        ),
        ("requests waiting for database or log", gateway.waiting_room.to_string()),
        ("memory of bodies, as sent and as parsed", format!("{} KiB", limits::BODY_ROOM)),
        ("memory of files, in addition to bodies", format!("{} KiB", limits::FILE_ROOM)),
        ("memory of callbacks", format!("{} KiB", limits::CALLBACK_ROOM)),
        ("memory of answers over 16 KiB that clients have not read", format!("{} KiB", limits::ANSWER_ROOM)),
        ("size of the body of a request with the secret", format!("{} bytes", gateway::MAX_BODY)),
        (
            "size of the body of a request with the secret that has files",
            format!("{} bytes", gateway::MAX_BODY_WITH_FILES),
        ),
        ("size of the body of a request without the secret", format!("{} bytes", gateway::MAX_USER_BODY)),
        ("size of a callback", format!("{} bytes", gateway::MAX_CALLBACK)),
        ("objects and arrays in the body of a request with the secret", limits::MAX_CONTAINERS.to_string()),
        (
            "objects and arrays in the body of a request without the secret",
            limits::MAX_USER_CONTAINERS.to_string(),
        ),
        ("slowest body, after 2 s of grace", format!("{} bytes per second", limits::SLOWEST)),
        ("time for a body", seconds(limits::SENT_WITHIN)),
        ("time for a callback", seconds(limits::CALLBACK_WITHIN)),
        ("time for a client to acknowledge bytes", seconds(limits::STALLED_FOR)),
        (
            "time without a request in progress, including reading the answer and sending the next head",
            seconds(limits::IDLE_AT_MOST),
        ),
        (
            "the same for peers without the secret while connections are scarce",
            seconds(limits::IDLE_WHILE_SCARCE),
        ),
        ("time for one answer of the database or the log", seconds(limits::STEP)),
        ("items in an inbox; the oldest are removed", config.inbox.keep_per_user.to_string()),
        ("age of an item in an inbox", format!("{} days", config.inbox.keep.as_secs() / 86_400)),
        ("connections of one process to PostgreSQL", config.database.max_connections.to_string()),
        ("messages of a stream", config.nats.max_messages.to_string()),
        ("concurrent calls of a worker, per lane", config.delivery.max_concurrency.to_string()),
        ("time for one webhook call", seconds(config.webhooks.timeout)),
    ];
    for (row, expected) in rows {
        assert_eq!(listed(row), expected, "{row}");
    }
    assert_eq!(limits::GRACE.as_secs(), 2);
    assert_eq!((limits::BYTES_OF_A_REQUEST, limits::OPERATIONS_OF_A_REQUEST), (8192, 10));
    let of_app = listed("requests per second of a backend; and of all users of an app, by proof");
    assert_eq!(of_app, gateway.rate_limit.to_string());
    assert!(listed("connections").starts_with(&format!("{},", gateway.connections)));
}

#[test]
fn docs_limits_states_the_quotas_and_the_size_of_a_change() {
    use store::control::quota::Quota;
    let rows = [
        ("users; calls by the app's backend may exceed it", Quota::Users),
        ("categories", Quota::Categories),
        ("devices", Quota::Devices),
        ("topics", Quota::Topics),
        ("subscriptions to topics", Quota::Subscriptions),
    ];
    let page = include_str!("../../../docs/limits.md");
    for (row, quota) in rows {
        assert_eq!(listed(row), quota.default_limit().to_string(), "{row}");
        assert!(page.contains(&format!("| `tidings app set {}=` |", quota.switch())), "{row}");
    }
    let users = gateway::limits::USERS_OF_A_CHANGE.to_string();
    assert_eq!(listed("users whose subscriptions one request changes"), users);
    let days = format!("{} days", gateway::limits::LONGEST_SNOOZE.as_secs() / 86_400);
    assert_eq!(listed("time for which a notification can be snoozed"), days);
}
