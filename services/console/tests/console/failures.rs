use std::time::Duration;

use domain::Role;
use reqwest::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::fixture::TestConsole;

const FAILURE: &str = "This could not be read.";

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_fails_shows_a_failure_and_never_an_empty_list() {
    let console = TestConsole::start(|_| {}).await;
    console.installation.app("shop").await;
    let admin = console.operator(Role::Admin, None).await;
    let empty = [
        ("/apps/shop/sends", "No send yet."),
        ("/apps/shop/people", "No people yet."),
        ("/apps/shop/waiting", "No delivery waits."),
        ("/apps/shop/parked", "Nothing is parked."),
        ("/apps/shop/templates", "No templates yet."),
        ("/apps/shop/refused", "No call was refused."),
        ("/apps/shop/audit?q=nothing", "No row matches"),
        ("/apps/shop/providers", "No provider yet."),
        ("/apps/shop/webhooks", "No endpoint yet."),
        ("/apps/shop/categories", "No category yet."),
        ("/apps/shop/topics", "No topic yet."),
        ("/tokens", "No token yet."),
    ];
    for (path, text) in empty {
        let page = console.page(path, &admin).await;
        assert!(page.contains(text) && !page.contains(FAILURE), "{path}");
    }
    console
        .installation
        .run(
            "ALTER TABLE request RENAME TO request_2; ALTER TABLE app_user RENAME TO app_user_2;
             ALTER TABLE parked RENAME TO parked_2; ALTER TABLE timer RENAME TO timer_2;
             ALTER TABLE audit RENAME TO audit_2;
             ALTER TABLE refused_call RENAME TO refused_call_2; ALTER TABLE redrive_run RENAME TO redrive_run_2;
             ALTER TABLE webhook_message RENAME TO webhook_message_2; ALTER TABLE category RENAME TO category_2;
             ALTER TABLE topic RENAME TO topic_2; ALTER TABLE admin_token RENAME TO admin_token_2;
             ALTER TABLE template RENAME TO template_2; ALTER TABLE provider RENAME TO provider_2",
        )
        .await;
    for (path, text) in empty {
        let page = console.page(path, &admin).await;
        assert!(
            page.contains(FAILURE) && page.contains("Try again") && !page.contains(text),
            "{path}: {page}"
        );
    }
    assert_eq!(
        console.get("/apps/shop/people/ada", &admin).await.status(),
        StatusCode::INTERNAL_SERVER_ERROR
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overview_that_cannot_be_read_says_so() {
    let console = TestConsole::start(|_| {}).await;
    console.installation.app("shop").await;
    let admin = console.operator(Role::Admin, None).await;
    console.installation.run("ALTER TABLE delivery RENAME TO delivery_2").await;
    let page = console.page("/apps/shop", &admin).await;
    assert!(page.contains(FAILURE) && !page.contains("All well."), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_addresses_get_a_designed_page_and_every_answer_has_the_policy() {
    let console = TestConsole::start(|_| {}).await;
    let admin = console.operator(Role::Admin, None).await;
    for path in ["/nothing", "/apps/none", "/apps/%FF", "/apps", "/sign-in", "/console.css", "/healthz"] {
        let answer = console.get(path, &admin).await;
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{path} {policy}"
        );
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff", "{path}");
        if answer.status() == StatusCode::NOT_FOUND {
            assert!(answer.text().await.unwrap().contains("Nothing here"), "{path}");
        }
    }
    let [nothing, app] = [console.get("/nothing", &admin).await, console.get("/apps/none", &admin).await];
    assert_eq!((nothing.status(), app.status()), (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND));
}

/// Opens a connection and sends the head of a form without its body.
async fn half_a_form(console: &TestConsole) -> TcpStream {
    let address = console.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /sign-in HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: same-origin\r\ncontent-length: 100\r\n\r\nemail=";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_does_not_arrive_is_refused_in_time() {
    let console = TestConsole::start(|_| {}).await;
    let mut stream = half_a_form(&console).await;
    let mut answer = vec![0; 64];
    let length = timeout(Duration::from_secs(60), stream.read(&mut answer)).await.unwrap().unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_peer_cannot_use_up_the_connections() {
    let console = TestConsole::start(|_| {}).await;
    let mut slow = Vec::new();
    for _ in 0..300 {
        slow.push(half_a_form(&console).await);
    }
    // Half of the connections are left for others, who come from another address.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let address = console.base.strip_prefix("http://").unwrap().parse().unwrap();
    let mut other = socket.connect(address).await.unwrap();
    other.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(Duration::from_secs(60), other.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut refused = 0;
    for stream in &mut slow {
        let mut byte = [0];
        let read = timeout(Duration::from_secs(60), stream.read(&mut byte)).await.unwrap();
        refused += usize::from(!matches!(read, Ok(1)));
    }
    assert!(refused >= 44, "{refused} of 300 connections were refused");
}
