use std::sync::Arc;

use domain::Outcome;
use rustls::ServerConfig;
use serde_json::json;
use stand_ins::smtp::{Rule, SmtpSettings, SmtpTls, Stage};
use stand_ins::tls::Authority;

use crate::fixture::{Mailer, TO, assert_sent, limits};

type ProtectServer = fn(Arc<ServerConfig>) -> SmtpTls;
const WAYS: [(&str, ProtectServer); 2] = [("tls", SmtpTls::Implicit), ("starttls", SmtpTls::StartTls)];

/// Starts a server with a certificate of `authority`, and a provider that trusts `pem`.
async fn mailer(authority: &Authority, (security, protect): (&str, ProtectServer), pem: &str) -> Mailer {
    let login = Some(("user".to_owned(), "secret".to_owned()));
    let tls = Some(protect(authority.server(&[])));
    let mut mailer = Mailer::with(SmtpSettings { login, tls, ..SmtpSettings::default() }, limits()).await;
    mailer.provider.settings["host"] = json!("localhost");
    mailer.provider.settings["security"] = json!(security);
    mailer.provider.settings["caCertificate"] = json!(pem);
    mailer.provider.settings["username"] = json!("user");
    mailer.provider.settings["password"] = json!("secret");
    mailer
}

#[tokio::test]
async fn a_private_authority_is_trusted_if_the_settings_name_it() {
    let authority = Authority::new().unwrap();
    for way in WAYS {
        let mailer = mailer(&authority, way, authority.pem()).await;
        for _ in 0..3 {
            assert_sent(&mailer.send(TO).await);
        }
        assert_eq!((mailer.server.connections(), mailer.captures().len()), (1, 3), "{}", way.0);
    }
}

#[tokio::test]
async fn no_password_is_sent_to_a_server_with_a_certificate_of_another_authority() {
    let (authority, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    for way in WAYS {
        let mut mailer = mailer(&authority, way, other.pem()).await;
        mailer.server.script(Rule::cut(Stage::Auth));
        let answer = mailer.send(TO).await;
        assert_eq!((&answer.outcome, answer.code.as_str()), (&Outcome::RETRY, "connect"), "{answer:?}");
        // The provider trusts the right authority, but the certificate is for another name.
        mailer.provider.settings["caCertificate"] = json!(authority.pem());
        mailer.provider.settings["host"] = json!("127.0.0.2");
        mailer.provider.version += 1;
        assert_eq!(mailer.send(TO).await.code, "connect");
        assert_eq!(mailer.server.rules_left(), 1, "no AUTH is sent over {}", way.0);
        assert!(mailer.captures().is_empty());
    }
}

#[tokio::test]
async fn plaintext_injected_after_starttls_is_never_accepted() {
    let authority = Authority::new().unwrap();
    let mailer = mailer(&authority, WAYS[1], authority.pem()).await;
    mailer.server.script(Rule::answer(Stage::StartTls, "220 go on\r\n250-evil.invalid\r\n250 AUTH PLAIN"));
    let answer = mailer.send(TO).await;
    assert_eq!((&answer.outcome, answer.code.as_str()), (&Outcome::RETRY, "connect"), "{answer:?}");
    assert!(mailer.captures().is_empty());
    assert_sent(&mailer.send(TO).await);
}

#[tokio::test]
async fn nothing_is_sent_in_plaintext_if_starttls_fails() {
    let authority = Authority::new().unwrap();
    for rule in [
        Rule::answer(Stage::StartTls, "454 4.7.0 TLS not available"),
        Rule::answer(Stage::Hello, "502 5.5.1 not implemented"),
        Rule::answer(Stage::Connect, "554 5.7.1 not you"),
        Rule::cut(Stage::StartTls),
    ] {
        let mailer = mailer(&authority, WAYS[1], authority.pem()).await;
        mailer.server.script(rule.clone());
        let answer = mailer.send(TO).await;
        assert!(matches!(answer.outcome, Outcome::Retry { .. }), "{rule:?}: {answer:?}");
        assert!(mailer.captures().is_empty());
        assert_sent(&mailer.send(TO).await);
    }
}
