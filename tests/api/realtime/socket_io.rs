//! Live updates over Socket.IO, with the library python-socketio and with frames that this test writes.

use domain::Actor;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::service::{App, SOON, Service};
use crate::signer::{Signer, claims, seconds, with};

/// A Python process with a client.
pub(super) struct Client {
    _process: Child,
    commands: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Client {
    fn start() -> Client {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("api/realtime/socket_io.py");
        let mut process = Command::new(interpreter())
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (commands, lines) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Client { _process: process, commands, lines: BufReader::new(lines).lines() }
    }

    /// Connects by the library as a user with this query.
    async fn connect(service: &Service, query: &Value, auth: &Value) -> Client {
        let mut client = Client::start();
        let url = format!("http://{}", service.address);
        client.tell(&json!({"connect": {"url": url, "query": query, "auth": auth}})).await;
        client
    }

    async fn open(service: &Service, app: &App, user: &str) -> Client {
        Client::open_at(service.address, app, user).await
    }

    /// Opens a WebSocket of a user, and reads the handshake.
    pub(super) async fn open_at(gateway: SocketAddr, app: &App, user: &str) -> Client {
        let mut client = Client::start();
        let url = format!(
            "ws://{gateway}/socket.io/?EIO=4&transport=websocket&apiKey={}&userId={user}&userSignature=undefined",
            app.key
        );
        client.tell(&json!({"open": url})).await;
        let handshake = client.frame().await.unwrap();
        let handshake: Value = serde_json::from_str(handshake.strip_prefix('0').unwrap()).unwrap();
        assert_eq!((&handshake["pingInterval"], &handshake["pingTimeout"]), (&json!(25_000), &json!(20_000)));
        assert_eq!((&handshake["maxPayload"], &handshake["upgrades"]), (&json!(100_000), &json!([])));
        client
    }

    async fn tell(&mut self, command: &Value) {
        self.commands.write_all(format!("{command}\n").as_bytes()).await.unwrap();
    }

    pub(super) async fn send(&mut self, frame: &str) {
        self.send_all(&[frame]).await;
    }

    /// Sends frames in quick succession.
    async fn send_all(&mut self, frames: &[&str]) {
        let commands: Vec<_> = frames.iter().map(|frame| format!("{}\n", json!({"send": frame}))).collect();
        self.commands.write_all(commands.concat().as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> Value {
        let line = timeout(SOON, self.lines.next_line()).await.expect("the client writes nothing");
        serde_json::from_str(&line.unwrap().expect("the client has ended")).unwrap()
    }

    /// Waits for an event with this name, and returns its arguments.
    async fn event(&mut self, name: &str) -> Vec<Value> {
        let line = self.line().await;
        assert_eq!(line["event"], name, "{line}");
        line["data"].as_array().unwrap().clone()
    }

    /// Waits for the next frame; None if the connection is closed.
    pub(super) async fn frame(&mut self) -> Option<String> {
        self.line().await["frame"].as_str().map(str::to_owned)
    }

    /// Reads the answer to CONNECT, and returns the id of the connection.
    async fn connected(&mut self, namespace: &str) -> String {
        let frame = self.frame().await.unwrap();
        let answer = frame.strip_prefix(&format!("40{namespace}")).unwrap_or_else(|| panic!("{frame}"));
        let answer: Value = serde_json::from_str(answer).unwrap();
        assert!(answer["sid"].is_string());
        // The first event has the number of unseen notifications, and a position.
        let first = self.frame().await.unwrap();
        assert!(first.contains(r#"["NOTIFICATION_SEEN",{"unreadNotificationCount":"#), "{first}");
        answer["pid"].as_str().unwrap().to_owned()
    }
}

/// Path of the Python interpreter with the packages of `tests/wire/requirements.txt`.
fn interpreter() -> PathBuf {
    let named = std::env::var_os("TIDINGS_TEST_PYTHON").filter(|named| !named.is_empty());
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../wire/bin/python");
    let python = named.map_or(python, PathBuf::from);
    assert!(python.exists(), "Python packages are missing: run `cargo xtask test --test api` once");
    python
}

fn query(app: &App, user: &str) -> Value {
    json!({"apiKey": app.key, "userId": user, "userSignature": "undefined"})
}

#[tokio::test]
async fn a_published_library_gets_every_event() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let mut client = Client::connect(&service, &query(&shop, "ada"), &Value::Null).await;
    client.event("connect").await;
    assert_eq!(client.event("NOTIFICATION_SEEN").await[0], json!({"unreadNotificationCount": 1}));
    client.tell(&json!({"emit": "hello"})).await;
    client.event("ack").await;

    service.deliver(&shop, "ada", 1).await;
    let created = client.event("NEW_NOTIFICATION").await;
    let notification = &created[0]["notification"];
    assert_eq!(notification["title"], "1");
    assert!(created[1].as_str().unwrap().contains('-'), "the position is the last argument");
    let id = notification["id"].clone();
    let of_item = |call: &str| call.replace("ID", &format!("/v3/notifications/{id}"));
    let call = async |call: &str| service.change(service.of(&shop, "ada", &of_item(call))).await;
    call("PUT ID/views").await;
    assert_eq!(client.event("NOTIFICATION_SEEN").await[0], json!({"unreadNotificationCount": 1}));
    call("POST ID/click").await;
    assert_eq!(client.event("NOTIFICATION_READ").await[0], json!({"id": id}));
    let state = service.of(&shop, "ada", &of_item("PUT ID/state")).json(&json!({"state": "kept"}));
    service.change(state).await;
    let interacted = client.event("NOTIFICATION_INTERACTED").await;
    assert_eq!((&interacted[0]["id"], &interacted[0]["state"]), (&id, &json!("kept")));
    call("POST /v3/notifications/markAllNotificationsAsRead").await;
    assert_eq!(client.event("ALL_NOTIFICATION_READ").await[0], json!({}));
    call("DELETE ID").await;
    assert_eq!(client.event("NOTIFICATION_DELETED").await[0], json!({"id": id}));
    call("POST /v3/notifications/markAllNotificationsAsDeleted").await;
    assert_eq!(client.event("ALL_NOTIFICATION_DELETED").await[0], json!({}));
    client.tell(&json!({"end": true})).await;
    client.event("disconnect").await;
}

#[tokio::test]
async fn credentials_are_checked_as_for_calls_over_http() {
    use domain::app_setting::AppSetting;
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let refused = async |query: Value, auth: Value, code: &str| {
        let mut client = Client::connect(&service, &query, &auth).await;
        let error = client.event("connect_error").await;
        assert_eq!(error[0]["data"]["code"], code, "{error:?}");
    };
    refused(json!({"userId": "ada"}), Value::Null, "no_credentials").await;
    refused(json!({"apiKey": "bank", "userId": "ada"}), Value::Null, "invalid_credentials").await;
    refused(json!({"apiKey": "shop"}), Value::Null, "user_required").await;
    let control = service.context.store.control();
    assert!(control.set_settings(shop.id, &[AppSetting::SecureMode(true)], &Actor::System).await.unwrap());
    let secure = service.another_gateway().await;
    let signer = Signer::create(&service, &shop, domain::SigningAlgorithm::Es256).await;
    let token = |user: &str, exp| signer.token(&with(claims(&shop, user), "exp", json!(seconds(exp))));
    let mut service = service;
    service.address = secure.0;
    let refused = async |auth: Value, code: &str| {
        let mut client = Client::connect(&service, &query(&shop, "ada"), &auth).await;
        assert_eq!(client.event("connect_error").await[0]["data"]["code"], code);
    };
    refused(json!({}), "token_required").await;
    refused(json!({"token": "undefined"}), "token_required").await;
    refused(json!({"token": "x.y.z"}), "malformed_token").await;
    refused(json!({"token": token("bob", 60)}), "conflicting_credentials").await;
    refused(json!({"token": token("ada", -120)}), "token_expired").await;
    let auth = json!({"token": token("ada", 60)});
    let mut client = Client::connect(&service, &query(&shop, "ada"), &auth).await;
    client.event("connect").await;
    client.event("NOTIFICATION_SEEN").await;
    service.by(&shop, "DELETE /v3/users/ada").send().await.is(202);
    client.event("disconnect").await;
}

#[tokio::test]
async fn a_client_resumes_by_its_pid_and_the_last_argument() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let mut keeps = Client::open(&service, &shop, "ada").await;
    keeps.send("40").await;
    keeps.connected("").await;
    let mut client = Client::open(&service, &shop, "ada").await;
    client.send("40/,{}").await;
    let pid = client.connected("").await;
    service.deliver(&shop, "ada", 1).await;
    let frame = client.frame().await.unwrap();
    let event: Value = serde_json::from_str(frame.strip_prefix("42").unwrap()).unwrap();
    let offset = event[2].as_str().unwrap().to_owned();
    client.send("1").await;
    assert_eq!(client.frame().await, None);

    service.deliver(&shop, "ada", 2).await;
    let resumed = |pid: &str| format!("40{}", json!({"pid": pid, "offset": offset}));
    let mut client = Client::open(&service, &shop, "ada").await;
    client.send(&resumed(&pid)).await;
    assert_eq!(client.connected("").await, pid);
    for title in ["1", "2"] {
        let frame = client.frame().await.unwrap();
        assert!(frame.starts_with(r#"42["NEW_NOTIFICATION","#), "{frame}");
        assert!(frame.contains(&format!(r#""title":"{title}""#)), "{frame}");
    }
    // Without a position, the client cannot receive what it has missed.
    let mut client = Client::open(&service, &shop, "ada").await;
    client.send(&format!("40{}", json!({"pid": pid}))).await;
    assert_ne!(client.connected("").await, pid);
    // Another user cannot use the position.
    service.deliver(&shop, "bob", 1).await;
    let mut other = Client::open(&service, &shop, "bob").await;
    other.send(&resumed(&pid)).await;
    assert_ne!(other.connected("").await, pid);
    let reset = other.frame().await.unwrap();
    assert!(reset.contains("NOTIFICATION_SEEN"), "{reset}");
    service.deliver(&shop, "bob", 1).await;
    let first = other.frame().await.unwrap();
    assert!(first.contains(r#""title":"1""#) && first.starts_with(r#"42["NEW_NOTIFICATION","#), "{first}");
}

#[tokio::test]
async fn malformed_packets_close_the_connection_and_unknown_events_are_ignored() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    for first in ["", "x", "2", "3", "42[\"a\"]", "40{", "40[]", "41", "45", "51-[]"] {
        let mut client = Client::open(&service, &shop, "ada").await;
        client.send(first).await;
        assert_eq!(client.frame().await, None, "{first:?}");
    }
    let mut client = Client::open(&service, &shop, "ada").await;
    client.send("40/other,{}").await;
    assert_eq!(client.frame().await.unwrap(), r#"44/other,{"message":"Invalid namespace"}"#);
    assert_eq!(client.frame().await, None);

    let large = "4".repeat(100_001);
    // Even if a new second begins in between, one of the two has more than 50 packets.
    let flood: Vec<&str> = std::iter::repeat_n("3", 101).collect();
    let after: [(&str, &[&str]); 6] = [
        ("a second CONNECT", &["40"]),
        ("a frame that is no packet", &["x"]),
        ("an attachment", &["451-[]"]),
        ("a frame that is too large", &[&large]),
        ("too many packets", &flood),
        ("leaving the namespace", &["41"]),
    ];
    for (what, frames) in after {
        let mut client = Client::open(&service, &shop, "ada").await;
        client.send("40").await;
        client.connected("").await;
        client.send(r#"42["unknown",{}]"#).await;
        client.send(r#"427["unknown",{}]"#).await;
        assert_eq!(client.frame().await.unwrap(), "437[]", "{what}");
        client.send_all(frames).await;
        assert_eq!(client.frame().await, None, "{what}");
    }
    let mut client = Client::open(&service, &shop, "ada").await;
    client.tell(&json!({"binary": true})).await;
    assert_eq!(client.frame().await, None);
}

#[tokio::test]
async fn the_path_of_the_public_url_is_a_namespace_and_other_transports_are_refused() {
    let service = Service::start_configured(|config| {
        config.gateway.public_url = "https://example.com/notify/".parse().ok();
    })
    .await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    for namespace in ["/notify/", "/notify"] {
        let mut client = Client::open(&service, &shop, "ada").await;
        client.send(&format!("40{namespace},")).await;
        client.connected(&format!("{namespace},")).await;
        service.deliver(&shop, "ada", 1).await;
        let frame = client.frame().await.unwrap();
        assert!(frame.starts_with(&format!(r#"42{namespace},["NEW_NOTIFICATION","#)), "{frame}");
    }
    let refusals = [
        ("EIO=4&transport=polling", json!({"code": 0, "message": "Transport unknown"})),
        ("EIO=4", json!({"code": 0, "message": "Transport unknown"})),
        ("EIO=3&transport=websocket", json!({"code": 5, "message": "Unsupported protocol version"})),
        ("EIO=4&transport=websocket", json!({"code": 3, "message": "Bad request"})),
    ];
    for (query, refusal) in refusals {
        for path in ["/socket.io/", "/socket.io"] {
            let answer = service.call(&format!("GET {path}?{query}")).send().await;
            assert_eq!(answer.is(400), refusal, "{query}");
        }
    }
}
