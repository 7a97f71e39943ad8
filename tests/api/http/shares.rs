//! While one client attacks the gateway, the gateway must still serve the requests of other apps. Each attack uses its own IP
//! address and raw sockets, and continues while another app makes its requests.

use std::time::Duration;

use serde_json::json;
use testkit::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::attacker::{Attacker, status, unfinished};
use crate::service::{App, Backing, SOON, Service, plain_send};

const SEND: &str = "POST /v3/notifications";
/// Number of sends that the app under protection makes during an attack.
const REQUESTS: usize = 30;
/// Number of bytes that are missing from the end of a stalled body.
const MISSING: usize = 4 * 1024;
/// On a slow machine, connections of an attack end before the last of them is accepted, until the machine has less other work.
const AT_FULL_STRENGTH: Duration = Duration::from_secs(100);
/// Time limit of a request that should be refused at once.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

async fn service() -> Service {
    Service::start_with(Backing::Nothing).await
}

/// Builds the head of a user's call that carries the public key and no other credential.
fn by_public_key(app: &App, user: &str, call: &str) -> String {
    format!(
        "{call} HTTP/1.1\r\nContent-Type: application/json\r\nX-SERVICE-API-KEY: {}\r\n\
         X-SERVICE-USER-ID: {user}\r\n",
        app.key
    )
}

fn by_secret(app: &App, call: &str) -> String {
    format!(
        "{call} HTTP/1.1\r\nContent-Type: application/json\r\nX-SERVICE-API-KEY: {}\r\n\
         X-SERVICE-API-SECRET: {}\r\n",
        app.key, app.secret
    )
}

/// Makes calls by the app's backend and one of its users, and asserts that all succeed.
async fn is_served(service: &Service, app: &App) {
    for request in 0..REQUESTS {
        service.by(app, SEND).json(&plain_send(&["ada"])).send().await.is(202);
        if request % 10 == 0 {
            service.by(app, "PUT /v3/users/ada").json(&json!({"n": request})).send().await.is(200);
            service.of(app, "ada", "PUT /v3/profile").json(&json!({"n": request})).send().await.is(200);
            service.of(app, "ada", "GET /v3/notifications").send().await.is(200);
        }
    }
}

/// Waits until the attack has used up the resources that one IP address may use, so that the gateway refuses the attacker's
/// next request.
async fn is_refused(attacker: Attacker, request: &[u8]) {
    eventually(AT_FULL_STRENGTH, "the attacker is refused", async || {
        // If the gateway accepts the request, this connection stalls like those of the attack. Close it and try again.
        let status = tokio::time::timeout(PROBE_LIMIT, attacker.status(request)).await;
        status.is_ok_and(|status| status == Some(503)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_bodies_of_one_public_key_never_refuse_another_apps_send() {
    let service = service().await;
    let (victim, demo) = (service.app("victim").await, service.app("demo").await);
    let attacker = Attacker::new(1, service.address);
    let head = by_public_key(&victim, "mallory", "PUT /v3/profile");
    let large = unfinished(&head, "{", gateway::MAX_BODY - MISSING, gateway::MAX_BODY);
    let fitting = unfinished(&head, "{", gateway::MAX_USER_BODY - MISSING, gateway::MAX_USER_BODY);
    let _large = attacker.stall(88, &large);
    let _fitting = attacker.stall(80, &fitting);
    // Small bodies use the memory that the large bodies leave free.
    let small = unfinished(&head, "{", 3 * 1024, 4 * 1024);
    let _small = attacker.stall(80, &small);
    is_refused(attacker, &small).await;
    is_served(&service, &demo).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_user_ids_apps_and_peers_never_refuse_another_apps_backend() {
    let service = service().await;
    let demo = service.app("demo").await;
    let mut attacks = Vec::new();
    for number in 0..12 {
        let app = service.app(&format!("victim {number}")).await;
        let attacker = Attacker::new(10 + number, service.address);
        let head = by_public_key(&app, &format!("mallory {number}"), "PUT /v3/profile");
        attacks.push(
            attacker
                .stall(20, &unfinished(&head, "{", gateway::MAX_USER_BODY - MISSING, gateway::MAX_USER_BODY)),
        );
        attacks.push(attacker.stall(5, &unfinished(&head, "{", 0, gateway::MAX_USER_BODY)));
        let own = service.app(&format!("own {number}")).await;
        let head = by_secret(&own, "PUT /v3/users/ada");
        attacks
            .push(attacker.stall(6, &unfinished(&head, "{", gateway::MAX_BODY - MISSING, gateway::MAX_BODY)));
    }
    let small = unfinished(&by_public_key(&demo, "mallory", "PUT /v3/profile"), "{", 0, 128 * 1024);
    let last = Attacker::new(10, service.address);
    let _more = last.stall(100, &small);
    is_refused(last, &small).await;
    for request in 0..REQUESTS {
        service.by(&demo, SEND).json(&plain_send(&["ada"])).send().await.is(202);
        service.by(&demo, "PUT /v3/users/ada").json(&json!({"n": request})).send().await.is(200);
    }
}

#[tokio::test]
async fn a_slow_body_is_answered_408_long_before_30_seconds() {
    let service = service().await;
    let shop = service.app("shop").await;
    let attacker = Attacker::new(1, service.address);
    for head in [by_public_key(&shop, "mallory", "PUT /v3/profile"), by_secret(&shop, "PUT /v3/users/ada")] {
        let connection = attacker.begin(&unfinished(&head, "{", 0, 1_000)).await.unwrap();
        let (mut answer, mut body) = connection.into_split();
        let trickle = tokio::spawn(async move {
            let mut pace = tokio::time::interval(Duration::from_millis(100));
            while body.write_all(b" ").await.is_ok() {
                pace.tick().await;
            }
        });
        let mut head = [0; 12];
        let read = tokio::time::timeout(Duration::from_secs(15), answer.read_exact(&mut head)).await;
        read.expect("the gateway answers within 15 s").unwrap();
        assert_eq!(&head, b"HTTP/1.1 408");
        trickle.abort();
    }
}

#[tokio::test]
async fn a_body_without_the_secret_may_have_128_kib() {
    let service = service().await;
    let shop = service.app("shop").await;
    let padded = |size: usize| {
        let mut body = b"{\"a\":1}".to_vec();
        body.resize(size, b' ');
        body
    };
    let put =
        |size| service.of(&shop, "ada", "PUT /v3/profile").body(padded(size), "application/json").send();
    put(gateway::MAX_USER_BODY).await.is(200);
    put(gateway::MAX_USER_BODY + 1).await.fails(413, "too_large");
    let many = format!("{{\"a\":[{}]}}", vec!["{}"; 6_000].join(","));
    let put = service.of(&shop, "ada", "PUT /v3/profile").body(many, "application/json").send().await;
    put.has_problems(&[("", "too_many")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_app_with_its_secret_never_uses_up_the_file_memory_of_another() {
    let service = service().await;
    let (greedy, demo) = (service.app("greedy").await, service.app("demo").await);
    let attacker = Attacker::new(1, service.address);
    let body = r#"{"data":{"attachments":[{"content":""#;
    let length = gateway::MAX_BODY_WITH_FILES;
    let request = unfinished(&by_secret(&greedy, SEND), body, length - MISSING, length);
    let _attack = attacker.stall(6, &request);
    is_refused(attacker, &request).await;
    let file = "QUJD".repeat(512 * 1024);
    let mut send = plain_send(&["ada"]);
    send["data"] = json!({"attachments": [
        {"name": "a.txt", "contentType": "text/plain", "content": file},
    ]});
    for _ in 0..3 {
        service.by(&demo, SEND).json(&send).send().await.is(202);
    }
    is_served(&service, &demo).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_with_wrong_secrets_or_public_keys_do_not_use_the_backends_rate() {
    let service = service().await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    service.run("UPDATE app SET rate_limit = 20").await;
    let wrong = App { secret: "wrong".to_owned(), ..shop.clone() };
    let attacker = Attacker::new(1, service.address);
    for (app, call) in [
        (&shop, by_secret(&wrong, "GET /v3/categories")),
        (&bank, by_public_key(&bank, "mallory", "GET /v3/notifications")),
    ] {
        let mut statuses = Vec::new();
        for _ in 0..200 {
            let request = format!("{call}Host: x\r\nConnection: close\r\n\r\n");
            statuses.push(attacker.status(request.as_bytes()).await);
        }
        assert!(statuses.iter().all(|status| matches!(status, Some(200 | 401 | 429))), "{statuses:?}");
        // Send 15 calls at once; the limit is 20 per second.
        let calls = (0..15).map(|_| service.by(app, "GET /v3/categories").send());
        for answer in futures_util::future::join_all(calls).await {
            assert_eq!(answer.header("ratelimit-limit"), Some("20"));
            answer.is(200);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn look_ups_of_unknown_api_keys_are_limited_by_peer_and_never_block_an_app() {
    let service = Service::start_configured(|config| config.gateway.refusal_rate_limit = 3).await;
    let shop = service.app("shop").await;
    service.by(&shop, "GET /v3/categories").send().await.is(200);
    let attacker = Attacker::new(1, service.address);
    let mut statuses = Vec::new();
    for number in 0..60 {
        let request = format!(
            "GET /v3/categories HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-SERVICE-API-KEY: random-{number}\r\n\
             X-SERVICE-USER-ID: m\r\n\r\n"
        );
        statuses.push(attacker.status(request.as_bytes()).await.unwrap());
        if number % 10 == 0 {
            service.by(&shop, "GET /v3/categories").send().await.is(200);
        }
    }
    assert!(statuses.contains(&401) && statuses.contains(&429), "{statuses:?}");
    is_served(&service, &shop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_calls_of_a_backend_share_one_look_up() {
    let service = Service::start_configured(|config| config.gateway.refusal_rate_limit = 3).await;
    let shop = service.app("shop").await;
    let calls = (0..200).map(|_| service.by(&shop, "GET /v3/categories").send());
    for answer in futures_util::future::join_all(calls).await {
        answer.is(200);
    }
}

/// Returns the statuses of three requests with wrong credentials, each with one of these headers.
async fn refusals(service: &Service, headers: [&str; 3]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for header in headers {
        let call = service.call("GET /v3/categories").header("X-Forwarded-For", header);
        statuses.push(call.send().await.status);
    }
    statuses
}

#[tokio::test]
async fn a_trusted_proxy_names_the_peer_and_a_client_does_not() {
    let limited = |config: &mut service_kit::Config| config.gateway.refusal_rate_limit = 1;
    let service = Service::start_configured(limited).await;
    let spoofed = eventually(SOON, "a request is refused by the rate limit", async || {
        let statuses = refusals(&service, ["192.0.2.1", "192.0.2.2", "192.0.2.3"]).await;
        statuses.contains(&429).then_some(statuses)
    })
    .await;
    assert!(spoofed.contains(&429));

    let service = Service::start_configured(|config| {
        limited(config);
        config.gateway.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    let behind = refusals(&service, ["192.0.2.1", "192.0.2.2", "192.0.2.3"]).await;
    assert_eq!(behind, [401; 3], "each request has its own peer");
    eventually(SOON, "a peer is limited regardless of its own headers", async || {
        let lines = ["203.0.113.1, 192.0.2.9", "203.0.113.2, 192.0.2.9", "unknown, 192.0.2.9"];
        refusals(&service, lines).await.contains(&429).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_peer_never_has_all_connections() {
    let service = Service::start_configured(|config| config.gateway.connections = 64).await;
    let shop = service.app("shop").await;
    let attacker = Attacker::new(1, service.address);
    let (mut open, mut closed) = (Vec::new(), 0);
    for _ in 0..100 {
        let Some(mut connection) = attacker.connect().await else {
            closed += 1;
            continue;
        };
        // The gateway either closes the connection or answers the request. After the answer the connection stays open and idle.
        let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
        match (connection.write_all(request).await, status(&mut connection).await) {
            (Ok(()), Some(200)) => open.push(connection),
            _ => closed += 1,
        }
    }
    assert!(open.len() <= 32 && closed >= 60, "{} open, {closed} closed", open.len());
    is_served(&service, &shop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_whose_second_head_never_ends_are_closed_while_connections_are_scarce() {
    let service = Service::start_configured(|config| config.gateway.connections = 64).await;
    let shop = service.app("shop").await;
    let mut open = Vec::new();
    for number in [1, 2] {
        for _ in 0..8 {
            let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHo";
            let mut connection = Attacker::new(number, service.address).begin(request).await.unwrap();
            assert_eq!(status(&mut connection).await, Some(200));
            open.push(connection);
        }
    }
    // With these 16 connections, connections are not scarce yet. With eight more they are, so the gateway must close eight of
    // the first 16.
    let _scarce = Attacker::new(3, service.address).stall(8, b"GET /healthz HTTP/1.1\r\nHo");
    let until_closed =
        |mut connection: TcpStream| async move { connection.read_to_end(&mut Vec::new()).await.ok() };
    let mut closed: JoinSet<_> = open.into_iter().map(until_closed).collect();
    for number in 1..=8 {
        let next = tokio::time::timeout(SOON, closed.join_next()).await;
        assert!(next.is_ok(), "connection {number} is still open");
    }
    is_served(&service, &shop).await;
}
