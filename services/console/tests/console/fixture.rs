use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;
use std::time::Duration;

use credentials::secrets::sha256;
use domain::{Actor, AppId, Channel, Problem, Role};
use operations::providers::KnownKind;
use reqwest::header::{COOKIE, HOST};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use service_kit::Config;
use store::control::operator::session::NewSession;
use testkit::Installation;

const DAY: Duration = Duration::from_secs(86_400);

/// Kinds of providers that need a host.
static KINDS: LazyLock<[KnownKind; 2]> = LazyLock::new(|| {
    let example = r#"{
      "host": "mail.example.com",
      "security": "tls",     none or tls
      "password": "...",     stored encrypted
      "headers": {"accept": "text/plain"},   optional
      "receipts": true
    }"#;
    let check = |settings: &serde_json::Value| {
        let problem = |code, says: &str| Problem::new("settings.host", code, format!("settings.host {says}"));
        match settings["host"].as_str() {
            None => Err(vec![problem("required", "is required")]),
            Some(host) if host.contains(' ') => Err(vec![problem("invalid", "must be a DNS name")]),
            Some(_) => Ok(()),
        }
    };
    let (channel, secrets) = (Channel::Email, &["password"][..]);
    ["pigeon", "smtp"].map(|name| KnownKind { channel, name, example, secrets, check: Box::new(check) })
});

/// A console in the process of the test, and a client that follows no redirect.
pub(crate) struct TestConsole {
    pub(crate) installation: Installation,
    pub(crate) base: String,
    client: Client,
}

impl TestConsole {
    pub(crate) async fn start(configure: impl FnOnce(&mut Config)) -> TestConsole {
        let port = local_servers::port::free().unwrap();
        let installation = Installation::start(|config| {
            config.console.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            configure(config);
        })
        .await;
        installation.context.serve("console", |context| console::run(context, &*KINDS));
        TestConsole::at(port, installation)
    }

    /// A console that listens on a port and uses the servers of the installation.
    pub(crate) fn at(port: u16, installation: Installation) -> TestConsole {
        let client = Client::builder().redirect(Policy::none()).build().unwrap();
        let base = format!("http://127.0.0.1:{port}{}", installation.context.config.console.base_path);
        TestConsole { installation, base, client }
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let is_read = method == Method::GET;
        let call = self.client.request(method, format!("{}{path}", self.base));
        if is_read { call } else { call.header("sec-fetch-site", "same-origin") }
    }

    pub(crate) async fn get(&self, path: &str, session: &str) -> Response {
        self.call(Method::GET, path)
            .header(COOKIE, format!("tidings-console={session}"))
            .send()
            .await
            .unwrap()
    }

    /// Returns the text of a page, which must be answered with 200.
    pub(crate) async fn page(&self, path: &str, session: &str) -> String {
        let answer = self.get(path, session).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        answer.text().await.unwrap()
    }

    /// Creates an operator with a role. Returns the token of a session.
    pub(crate) async fn operator(&self, role: Role, app: Option<AppId>) -> String {
        let control = self.installation.context.store.control();
        let scope = app.map_or("all".to_owned(), |app| app.to_string());
        let token = format!("{role}-{scope}");
        let email = format!("{token}@example.com");
        let operator = control.create_operator(&email, (app, role), &Actor::System).await.unwrap().unwrap();
        self.session(operator, &token).await;
        token
    }

    /// Opens a session with a token for an operator.
    pub(crate) async fn session(&self, operator: i64, token: &str) {
        let digest = sha256(token.as_bytes());
        let (method, network, browser) = ("password", "192.0.2.x", "Firefox on Linux");
        let authenticated_at = None;
        let session =
            NewSession { digest: &digest, lifetime: DAY, method, authenticated_at, network, browser };
        let control = self.installation.context.store.control();
        control.open_operator_session(operator, &session).await.unwrap();
    }

    pub(crate) async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        let body = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
        let call = self.call(Method::POST, path).header("content-type", "application/x-www-form-urlencoded");
        call.header(HOST, "localhost").body(body.collect::<Vec<_>>().join("&")).send().await.unwrap()
    }
}

/// Encodes each byte of a text for a path or a form.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Returns the token in `Set-Cookie`.
pub(crate) fn token_of(answer: &Response) -> String {
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    cookie.split_once('=').unwrap().1.split(';').next().unwrap().to_owned()
}
