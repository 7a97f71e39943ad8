//! `/`, `/openapi.json`, `/docs`, `/guide` and `/clients`.

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

/// Returns the values of an attribute in a page.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let before = format!(" {name}=\"");
    html.split(&before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

async fn text(service: &Service, path: &str) -> String {
    let Value::String(text) = service.call(&format!("GET {path}")).send().await.is(200) else {
        panic!("{path} is not text")
    };
    text
}

#[tokio::test]
async fn the_pages_load_nothing_from_other_hosts() {
    let service = Service::start_with(Backing::Nothing).await;
    for page in ["/docs", "/guide", "/guide/inbox", "/guide/deploy-compose", "/guide/decisions"] {
        let answer = service.call(&format!("GET {page}")).send().await;
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        let tag = answer.header("etag").unwrap().to_owned();
        let policy = answer.header("content-security-policy").unwrap().to_owned();
        let sources = policy.split([' ', ';']).filter(|word| !word.is_empty() && !word.contains('-'));
        let foreign: Vec<_> = sources.filter(|source| !["'none'", "'self'"].contains(source)).collect();
        assert!(policy.starts_with("default-src 'none'; ") && foreign.is_empty(), "{foreign:?}");
        let Value::String(html) = answer.is(200) else { panic!("{page} is not text") };
        // Code on the page shows elements that the page does not have.
        let without_code: String = html
            .split("<code>")
            .map(|part| part.split_once("</code>").map_or(part, |(_, rest)| rest))
            .collect();
        let loaded = attributes(&without_code, "src").into_iter().chain(["/docs/handbook.css"]);
        for file in loaded {
            let answer = service.call(&format!("GET {file}")).send().await;
            assert_eq!(answer.header("content-security-policy"), Some(&*policy), "{page}: {file}");
            answer.is(200);
        }
        assert!(
            !html.contains("style=") && !html.contains("<style"),
            "{page}: the policy blocks inline styles"
        );
        let again = service.call(&format!("GET {page}")).header("If-None-Match", &tag).send().await;
        assert_eq!(again.is(304), Value::Null, "{page}");
    }
    for file in ["index.html", "..%2Fopenapi.json", "swagger-ui.css", "x"] {
        service.call(&format!("GET /docs/{file}")).send().await.fails(404, "not_found");
        service.call(&format!("GET /guide/{file}")).send().await.fails(404, "not_found");
    }
}

#[tokio::test]
async fn a_browser_gets_a_page_with_links_for_a_page_that_does_not_exist() {
    let service = Service::start_with(Backing::Nothing).await;
    let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
    for path in ["/guide/apii", "/docs/swagger-ui.css"] {
        let answer = service.call(&format!("GET {path}")).header("Accept", browser).send().await;
        assert_eq!((answer.status, answer.header("content-type")), (404, Some("text/html; charset=utf-8")));
        assert_eq!(answer.header("vary").map(str::to_lowercase).as_deref(), Some("accept"), "{path}");
        let html = answer.is(404).as_str().unwrap().to_owned();
        assert!(html.contains("<h1>No such page</h1>") && html.contains("<a href=\"/guide\">"), "{html}");
        let program = service.call(&format!("GET {path}")).header("Accept", "*/*").send().await;
        program.fails(404, "not_found");
    }
    // The document does not list deeper paths.
    let url = format!("http://{}/guide/decisions/0001.md", service.address);
    let answer = reqwest::Client::new().get(url).header("Accept", browser).send().await.unwrap();
    assert_eq!(answer.status(), 404);
    assert!(answer.text().await.unwrap().contains("<h1>No such page</h1>"));
}

#[tokio::test]
async fn every_operation_is_on_the_page_and_in_the_search() {
    let service = Service::start_with(Backing::Nothing).await;
    let document = service.call("GET /openapi.json").send().await.is(200);
    let html = text(&service, "/docs").await;
    let found = service.call("GET /docs/search.json").send().await.is(200);
    let found: Vec<_> = found.as_array().unwrap().iter().map(|entry| entry[2].as_str().unwrap()).collect();
    let (mut operations, mut aliases) = (0, 0);
    for (path, calls) in document["paths"].as_object().unwrap() {
        for (method, operation) in calls.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let is_section = html.contains(&format!("<section class=\"op\" id=\"{id}\">"));
            if operation["x-alias-of"].is_string() {
                aliases += 1;
                let alias = format!("<code>{} {path}</code>", method.to_uppercase());
                assert!(!is_section && html.contains(&alias), "{alias} is not folded");
            } else {
                operations += 1;
                assert!(is_section && found.contains(&&*format!("/docs#{id}")), "{id} is missing");
            }
        }
    }
    assert!(operations > 60 && aliases == 19, "{operations} operations, {aliases} aliases");
    assert!(found.contains(&"/guide/api#track-a-send"), "{found:?}");
}

#[tokio::test]
async fn the_guides_are_served_for_people_and_for_language_models() {
    let service = Service::start_with(Backing::Nothing).await;
    let list = text(&service, "/llms.txt").await;
    let sources: Vec<_> = list.split("](/guide/").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(sources.len() > 25 && sources.contains(&"overview.md"), "{sources:?}");
    for source in sources {
        let answer = service.call(&format!("GET /guide/{source}")).send().await;
        assert_eq!(answer.header("content-type"), Some("text/markdown; charset=utf-8"), "{source}");
        assert!(answer.is(200).as_str().unwrap().starts_with("# "), "{source}");
    }
    assert!(text(&service, "/llms-full.txt").await.contains("\n# Using the API\n"));
    let image = service.call("GET /guide/inbox-desktop.png").send().await;
    assert_eq!((image.status, image.header("content-type")), (200, Some("image/png")));
}

#[tokio::test]
async fn the_first_load_of_a_page_is_small() {
    let service = Service::start_with(Backing::Nothing).await;
    let client = reqwest::Client::new();
    let mut sizes = Vec::new();
    for path in ["/docs", "/docs/handbook.css", "/docs/handbook.js"] {
        let url = format!("http://{}{path}", service.address);
        let answer = client.get(url).header("Accept-Encoding", "gzip").send().await.unwrap();
        assert_eq!(answer.headers().get("content-encoding").unwrap(), "gzip", "{path}");
        sizes.push(answer.bytes().await.unwrap().len());
    }
    println!("{sizes:?} bytes");
    assert!(sizes.iter().sum::<usize>() <= 60_000, "{sizes:?} bytes, at most 60,000 together");
}

#[tokio::test]
async fn the_front_page_names_the_release_and_only_paths_that_exist() {
    let service = Service::start_with(Backing::Nothing).await;
    let page = service.call("GET /").header("Accept", "text/html,*/*;q=0.8").send().await;
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("script-src"), "{policy}");
    assert!(!policy.contains("unsafe-inline"), "{policy}");
    let Value::String(html) = page.is(200) else { panic!("the page is not text") };
    assert!(html.contains(env!("CARGO_PKG_VERSION")) && !html.contains("://"), "{html}");
    let mut paths: Vec<_> =
        html.split(['"', '\'']).filter(|text| text.starts_with('/')).map(str::to_owned).collect();

    let body = service.call("GET /").header("Accept", "application/json").send().await.is(200);
    assert_eq!((&body["name"], &body["ready"]), (&json!("Tidings"), &json!(true)));
    assert_eq!(body["unreachable"], json!([]));
    let members = body.as_object().unwrap().values();
    paths.extend(members.filter_map(Value::as_str).filter(|text| text.starts_with('/')).map(str::to_owned));
    assert!(paths.len() > 8, "{paths:?}");
    for path in paths {
        service.call(&format!("GET {path}")).send().await.is(200);
    }
    let icon = service.call("GET /favicon.ico").send().await;
    assert_eq!(icon.header("content-type"), Some("image/x-icon"));
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
        ("listed refused calls of an app, for 14 days", store::control::refused_call::KEPT.to_string()),
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
    let channels = domain::topic::MAX_CHANNELS.to_string();
    assert_eq!(listed("channels of a subscription in one request"), channels);
    let days = format!("{} days", gateway::limits::LONGEST_SNOOZE.as_secs() / 86_400);
    assert_eq!(listed("time for which a notification can be snoozed"), days);
}

#[test]
fn docs_limits_states_the_limits_of_content_without_a_template() {
    use domain::app_setting::{LONGEST_ADDRESS, LONGEST_BUTTON, LONGEST_NAME, LONGEST_URL};
    use domain::sms::segment::{MOST_SEGMENTS, MOST_SEGMENTS_WITH_LINK};
    let link = "segments of an SMS with the link of its send; a longer SMS is sent without the link";
    assert_eq!(listed(link), MOST_SEGMENTS_WITH_LINK.to_string());
    assert_eq!(listed("segments of an SMS"), MOST_SEGMENTS.to_string());
    for (row, characters) in [
        ("`brand-name` of an app", LONGEST_NAME),
        ("`email-button` and `email-unsubscribe` of an app", LONGEST_BUTTON),
        ("`brand-address` of an app", LONGEST_ADDRESS),
        ("URL in `brand-logo` of an app", LONGEST_URL),
    ] {
        assert_eq!(listed(row), format!("{characters} characters"), "{row}");
    }
}
