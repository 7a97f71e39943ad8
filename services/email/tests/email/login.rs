use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::Outcome;
use hyper::Request;
use hyper::body::Bytes;
use serde_json::{Value, json};
use stand_ins::http::{self, Handler, HttpServer, HttpSettings, Reply};
use stand_ins::smtp::{Rule, SmtpSettings, Stage};
use tokio::task::JoinSet;
use worker::Outbound;

use crate::fixture::{Mailer, TO, assert_sent, attempt, limits, sender_within, text};

async fn with_password(mechanisms: &'static [&'static str], auth: &str) -> Mailer {
    let login = Some(("user".to_owned(), "secret".to_owned()));
    let settings = SmtpSettings { login, mechanisms, ..SmtpSettings::default() };
    let mut mailer = Mailer::with(settings, limits()).await;
    merge(&mut mailer, &json!({"username": "user", "password": "secret", "auth": auth}));
    mailer
}

fn merge(mailer: &mut Mailer, members: &Value) {
    for (name, value) in members.as_object().unwrap() {
        mailer.provider.settings[name] = value.clone();
    }
}

#[tokio::test]
async fn the_login_mechanism_follows_the_settings_or_the_servers_offer() {
    for (offered, auth, sends) in [
        (&["PLAIN", "LOGIN"][..], "auto", true),
        (&["PLAIN"], "auto", true),
        (&["LOGIN"], "auto", true),
        (&["PLAIN", "LOGIN"], "plain", true),
        (&["PLAIN", "LOGIN"], "login", true),
        (&["LOGIN"], "plain", false),
        (&["PLAIN"], "login", false),
    ] {
        let mailer = with_password(offered, auth).await;
        let answer = mailer.send(TO).await;
        if sends {
            assert_sent(&answer);
        } else {
            let expected = (&Outcome::PauseProvider, "auth");
            assert_eq!((&answer.outcome, answer.code.as_str()), expected, "{offered:?} {auth}");
        }
    }
}

#[tokio::test]
async fn a_wrong_password_pauses_the_provider_by_every_mechanism() {
    for auth in ["plain", "login"] {
        let mut mailer = with_password(&["PLAIN", "LOGIN"], auth).await;
        mailer.provider.settings["password"] = json!("guess");
        let answer = mailer.send(TO).await;
        assert_eq!((&answer.outcome, answer.code.as_str()), (&Outcome::PauseProvider, "535 5.7.8"));
        assert!(!answer.message.contains("guess"));
    }
}

#[tokio::test]
async fn a_login_without_tls_is_allowed_only_to_private_addresses() {
    let mut mailer = with_password(&["PLAIN"], "plain").await;
    mailer.provider.settings["host"] = json!("mail.example.com");
    let sender = sender_within(limits(), Outbound::new(false));
    let answer = attempt(&sender, &mailer.provider, TO, text("hello")).await;
    let expected = (&Outcome::PauseProvider, "insecure_login");
    assert_eq!((&answer.outcome, answer.code.as_str()), expected, "{answer:?}");
    assert!(!answer.message.contains("secret"));
}

async fn with_token(token: &str) -> Mailer {
    let token = Some(("user@example.com".to_owned(), token.to_owned()));
    let mut mailer = Mailer::with(SmtpSettings { token, ..SmtpSettings::default() }, limits()).await;
    merge(&mut mailer, &json!({"username": "user@example.com", "accessToken": "first"}));
    mailer
}

#[tokio::test]
async fn a_given_token_logs_in() {
    let mailer = with_token("first").await;
    assert_sent(&mailer.send(TO).await);
    let refusing = with_token("another").await;
    let answer = refusing.send(TO).await;
    assert_eq!((&answer.outcome, answer.code.as_str()), (&Outcome::PauseProvider, "535 5.7.8"), "{answer:?}");
    let cut = with_token("first").await;
    cut.server.script(Rule::cut(Stage::Auth));
    assert_eq!(cut.send(TO).await.code, "connect");
}

/// Token endpoint that grants a new token for each call: `token 1`, `token 2`, …
#[derive(Default)]
struct TokenEndpoint {
    calls: AtomicUsize,
    /// Lifetime of the tokens, in seconds.
    lifetime: u64,
    refuses: Option<(u16, &'static str)>,
}

impl Handler for TokenEndpoint {
    fn handle(&self, request: &Request<Bytes>) -> Reply {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let form = String::from_utf8_lossy(request.body());
        for part in
            ["grant_type=refresh_token", "refresh_token=grant+1", "client_id=shop", "client_secret=hush"]
        {
            assert!(form.contains(part), "{part} is not in the request");
        }
        if let Some((status, error)) = self.refuses {
            return Reply::Answer(http::json(status, &json!({"error": error})));
        }
        let token = json!({"access_token": format!("token {number}"), "expires_in": self.lifetime, "token_type": "Bearer"});
        Reply::Answer(http::json(200, &token))
    }
}

async fn with_refreshed(endpoint: TokenEndpoint) -> (Mailer, HttpServer, Arc<TokenEndpoint>) {
    let endpoint = Arc::new(endpoint);
    let server = HttpServer::start(HttpSettings::default(), endpoint.clone()).await.unwrap();
    let mut mailer = with_token("token 1").await;
    merge(
        &mut mailer,
        &json!({
            "accessToken": null, "auth": "xoauth2", "tokenUrl": format!("{}/token", server.url()),
            "clientId": "shop", "clientSecret": "hush", "refreshToken": "grant 1",
        }),
    );
    (mailer, server, endpoint)
}

#[tokio::test]
async fn concurrent_logins_fetch_one_token() {
    let (mailer, _server, endpoint) =
        with_refreshed(TokenEndpoint { lifetime: 3_600, ..TokenEndpoint::default() }).await;
    let mut sends = JoinSet::new();
    for _ in 0..20 {
        let (sender, provider) = (mailer.sender.clone(), mailer.provider.clone());
        sends.spawn(async move { attempt(&sender, &provider, TO, text("hello")).await });
    }
    sends.join_all().await.iter().for_each(assert_sent);
    assert_eq!((endpoint.calls.load(Ordering::Relaxed), mailer.captures().len()), (1, 20));
}

#[tokio::test]
async fn a_token_is_renewed_when_the_server_rejects_it() {
    let (mailer, _server, endpoint) =
        with_refreshed(TokenEndpoint { lifetime: 3_600, ..TokenEndpoint::default() }).await;
    assert_sent(&mailer.send(TO).await);
    mailer.server.accept_token("user@example.com", "token 2");
    // The open connection is logged in already. The 421 closes it, and the next connection needs a new token.
    mailer.server.script(Rule::answer(Stage::Mail, "421 4.3.2 going down"));
    assert_sent(&mailer.send(TO).await);
    assert_eq!(endpoint.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_token_close_to_its_expiry_is_not_used_again() {
    let (mailer, _server, endpoint) =
        with_refreshed(TokenEndpoint { lifetime: 1, ..TokenEndpoint::default() }).await;
    assert_sent(&mailer.send(TO).await);
    mailer.server.accept_token("user@example.com", "token 2");
    mailer.server.script(Rule::answer(Stage::Mail, "421 4.3.2 going down"));
    assert_sent(&mailer.send(TO).await);
    assert_eq!(endpoint.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_token_with_an_unrepresentable_expiry_is_used() {
    let (mailer, _server, endpoint) =
        with_refreshed(TokenEndpoint { lifetime: u64::MAX, ..TokenEndpoint::default() }).await;
    assert_sent(&mailer.send(TO).await);
    mailer.server.script(Rule::answer(Stage::Mail, "421 4.3.2 going down"));
    assert_sent(&mailer.send(TO).await);
    assert_eq!(endpoint.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_refused_grant_pauses_the_provider_and_an_outage_does_not() {
    for (refuses, outcome) in [
        ((400, "invalid_grant"), Outcome::PauseProvider),
        ((401, "invalid_client"), Outcome::PauseProvider),
        ((503, "temporarily_unavailable"), Outcome::RETRY),
        ((429, "slow_down"), Outcome::RETRY),
    ] {
        let endpoint = TokenEndpoint { refuses: Some(refuses), ..TokenEndpoint::default() };
        let (mailer, _server, _endpoint) = with_refreshed(endpoint).await;
        let answer = mailer.send(TO).await;
        assert_eq!((&answer.outcome, answer.code.as_str()), (&outcome, "oauth"), "{answer:?}");
        assert_eq!(answer.message, refuses.1);
    }
}
