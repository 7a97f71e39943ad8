//! The email worker with the mail servers that most relays run: OpenSMTPD, Postfix, Exim and Dovecot's submission service.

mod configuration;
mod program;

use std::time::Duration;

use domain::content::{Content, EmailContent};
use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, DeliveryId, Lane, Outcome, SendId, Timestamp, UserNumber};
use email::{EmailSender, PoolLimits, Sources};
use futures_util::FutureExt;
use serde_json::{Value, json};
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use stand_ins::tls::Authority;
use uuid::Uuid;
use worker::{Call, Lease, Outbound, Probe, Provider};

use configuration::{Configuration, DOVECOT, EXIM, OPENSMTPD, POSTFIX};
use program::Program;

const TO: &str = "ada@example.org";
/// A recipient whom every server here refuses.
const UNKNOWN: &str = "5.1.1@example.org";
const LIMIT: Duration = Duration::from_secs(30);

struct Client {
    sender: EmailSender,
    provider: Provider,
}

impl Client {
    fn new(settings: Value) -> Client {
        let nothing = Sources::new(
            Box::new(|_, _, _| async { Ok(None) }.boxed()),
            Box::new(|_, _, _| async { Ok(None) }.boxed()),
        );
        let sender = EmailSender::new(PoolLimits::default(), Outbound::new(true), nothing).unwrap();
        let (identifier, kind) = ("main".to_owned(), "smtp".to_owned());
        Client { sender, provider: Provider { app: AppId(1), identifier, kind, settings, version: 1 } }
    }

    async fn send(&self, to: &str) -> Answer {
        let content = EmailContent {
            subject: "Grüße".to_owned(),
            text: Some(".\r\n..\r\nhello".repeat(100)),
            ..EmailContent::default()
        };
        let id = DeliveryId(Uuid::from_u128(7));
        let job =
            DeliveryJob::first(id, Channel::Email, UserNumber(1), to.to_owned(), Content::Email(content));
        let (lane, now, send_id) = (
            Lane::Transactional,
            Timestamp::from_millis(1_767_323_045_000),
            Some(SendId(Uuid::from_u128(9))),
        );
        let lease = &Lease::lasting(LIMIT * 3);
        let call = Call { app: AppId(1), send_id, lane, provider: &self.provider, job: &job, now, lease };
        self.sender.attempt(&call).await
    }

    async fn probe(&self) -> Result<String, Answer> {
        let now = Timestamp::from_millis(1_767_323_045_000);
        let probe =
            Probe { provider: &self.provider, outbound: Outbound::new(true), now, installation: None };
        worker::probe(email::KINDS, &probe).await
    }
}

/// Sends emails through a server: without TLS and with STARTTLS, if the server offers it; with a right and a wrong password, if the
/// server offers a login.
async fn check(configuration: &Configuration, pipelining: bool) {
    let authority = Authority::rsa().unwrap();
    let behind = SmtpStandIn::start(SmtpSettings::default(), Outbox::in_memory()).await.unwrap();
    let server = Program::start(configuration, &authority, behind.address().port(), pipelining).await;
    let mut accepted = 0;
    for &security in configuration.securities {
        let settings = |password: Option<&str>| {
            let mut settings = json!({
                "host": "localhost", "port": server.port, "security": security, "from": "news@example.com",
                "caCertificate": authority.pem(), "ehloName": "shop.example.com",
            });
            if let Some(password) = password {
                settings["username"] = json!("shop");
                settings["password"] = json!(password);
            }
            settings
        };
        let offers_login = configuration.login.is_some_and(|only| only == "any" || only == security);
        let password = offers_login.then_some("secret");
        let client = Client::new(settings(password));
        for round in 0..2 {
            let sent = client.send(TO).await;
            let is_sent = matches!(sent.outcome, Outcome::Sent { .. });
            assert!(is_sent, "{security}, email {round}: {sent:?}\n{}", server.output());
            accepted += 1;
            // The server refuses one recipient in the middle of a connection.
            let refused = client.send(UNKNOWN).await;
            assert_eq!(
                refused.outcome,
                configuration.unknown,
                "{security}: {refused:?}\n{}",
                server.output()
            );
        }
        let proved = client.probe().await;
        assert!(proved.is_ok(), "{security}: {proved:?}");
        if offers_login {
            for auth in ["plain", "login"] {
                let mut wrong = settings(Some("guess"));
                wrong["auth"] = json!(auth);
                let answer = Client::new(wrong).send(TO).await;
                assert_eq!(answer.outcome, Outcome::PauseProvider, "{security}, {auth}: {answer:?}");
            }
        }
    }
    if configuration.relays {
        assert_eq!(behind.outbox().captures().len(), accepted);
    }
}

#[tokio::test]
async fn opensmtpd_gets_one_copy_and_refuses_by_code() {
    check(&OPENSMTPD, false).await;
}

#[tokio::test]
async fn postfix_gets_one_copy_and_refuses_by_code() {
    for pipelining in [true, false] {
        check(&POSTFIX, pipelining).await;
    }
}

#[tokio::test]
async fn exim_gets_one_copy_and_refuses_by_code() {
    for pipelining in [true, false] {
        check(&EXIM, pipelining).await;
    }
}

#[tokio::test]
async fn dovecot_gets_one_copy_and_refuses_by_code() {
    check(&DOVECOT, true).await;
}
