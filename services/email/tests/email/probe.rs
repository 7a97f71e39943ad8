use domain::Outcome;
use serde_json::json;
use stand_ins::http::{Reaction, Rule as HttpRule};
use stand_ins::outbox::Outbox;
use stand_ins::postmark::{PostmarkSettings, PostmarkStandIn};
use stand_ins::smtp::{Rule, SmtpSettings, Stage};
use worker::Outbound;

use crate::fixture::{Mailer, limits, probe, provider};

#[tokio::test]
async fn a_login_is_verified_without_an_email() {
    let login = Some(("user".to_owned(), "secret".to_owned()));
    let mut mailer = Mailer::with(SmtpSettings { login, ..SmtpSettings::default() }, limits()).await;
    mailer.provider.settings["username"] = json!("user");
    mailer.provider.settings["password"] = json!("secret");
    let proved = probe(Outbound::new(true), &mailer.provider).await.unwrap();
    assert!(proved.contains("accepted the password of user"), "{proved}");
    assert!(mailer.captures().is_empty());

    mailer.provider.settings["password"] = json!("guess");
    let refused = probe(Outbound::new(true), &mailer.provider).await.unwrap_err();
    assert_eq!((refused.outcome, refused.code.as_str()), (Outcome::PauseProvider, "535 5.7.8"));
    for (security, code) in [("none", "insecure_login"), ("tls", "not_public")] {
        let mut provider = mailer.provider.clone();
        provider.settings["security"] = json!(security);
        let guarded = probe(Outbound::new(false), &provider).await.unwrap_err();
        assert_eq!((guarded.outcome, guarded.code.as_str()), (Outcome::PauseProvider, code));
    }
    mailer.server.script(Rule::cut(Stage::Hello));
    assert_eq!(probe(Outbound::new(true), &mailer.provider).await.unwrap_err().code, "connect");
}

#[tokio::test]
async fn a_token_is_verified_without_an_email() {
    let settings = PostmarkSettings { server_token: "t0ken".to_owned(), ..PostmarkSettings::default() };
    let server = PostmarkStandIn::start(settings, Outbox::in_memory()).await.unwrap();
    let settings = |token: &str| json!({"serverToken": token, "from": "news@example.com", "baseUrl": server.http().url()});
    let right = provider("postmark", settings("t0ken"));
    let proved = probe(Outbound::new(true), &right).await.unwrap();
    assert!(proved.contains("stand-in"), "{proved}");
    assert!(server.outbox().captures().is_empty());

    let refused = probe(Outbound::new(true), &provider("postmark", settings("guess"))).await.unwrap_err();
    assert_eq!((refused.outcome, refused.code.as_str()), (Outcome::PauseProvider, "401 10"));
    assert!(probe(Outbound::new(false), &right).await.is_err());
    server.script(HttpRule::new(Reaction::CutBefore).to("/server"));
    assert!(probe(Outbound::new(true), &right).await.is_err());
    assert!(probe(Outbound::new(true), &provider("pigeon", json!({}))).await.is_err());
}
