//! All answers from an SMTP server.

use domain::content::{Content, EmailContent};
use domain::{Channel, UserNumber};
use serde_json::{Value, json};
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{Rule, SmtpSettings, SmtpStandIn, SmtpTls, Stage};
use stand_ins::tls::Authority;

use crate::state::check_row;
use crate::table::{Class, Note, Provider, Row, row_of};
use crate::world::World;

/// Name of the answer in the table; the stage at which the stand-in gives it, and its text; and the code that the ledger records.
/// If the text is empty, the stand-in closes the connection.
#[rustfmt::skip]
pub(crate) const CASES: &[(&str, Stage, &str, &str)] = &[
    ("connect", Stage::Connect, "", "connect"),
    ("TLS", Stage::StartTls, "", "connect"),
    ("TLS", Stage::StartTls, "454 no TLS now", "454"),
    ("EHLO", Stage::Hello, "", "connect"),
    ("EHLO", Stage::Hello, "550 5.7.1 not you", "550 5.7.1"),
    ("421", Stage::Rcpt, "421 going down", "421"),
    ("450", Stage::Rcpt, "450 later", "450"),
    ("451", Stage::Data, "451 local error", "451"),
    ("452", Stage::Mail, "452 no space", "452"),
    ("4.x.x", Stage::Rcpt, "450 4.2.1 busy", "450 4.2.1"),
    ("4.7.x", Stage::Rcpt, "450 4.7.1 greylisted", "450 4.7.1"),
    ("5.1.1", Stage::Rcpt, "550 5.1.1 no such user", "550 5.1.1"),
    ("5.1.2", Stage::Rcpt, "550 5.1.2 no such host", "550 5.1.2"),
    ("5.1.3", Stage::Rcpt, "501 5.1.3 bad syntax", "501 5.1.3"),
    ("5.1.6", Stage::Rcpt, "550 5.1.6 moved", "550 5.1.6"),
    ("5.2.1", Stage::Rcpt, "550 5.2.1 disabled", "550 5.2.1"),
    ("5.2.2", Stage::Rcpt, "552 5.2.2 mailbox full", "552 5.2.2"),
    ("552", Stage::Dot, "552 too much", "552"),
    ("5.3.4", Stage::Dot, "552 5.3.4 too big", "552 5.3.4"),
    ("5.5.x", Stage::Rcpt, "501 5.5.4 parameters", "501 5.5.4"),
    ("5.6.x", Stage::Dot, "554 5.6.1 media not supported", "554 5.6.1"),
    ("5.7.x", Stage::Dot, "550 5.7.26 unauthenticated", "550 5.7.26"),
    ("5.7.x", Stage::Rcpt, "554 5.7.1 on a block list", "554 5.7.1"),
    ("530", Stage::Mail, "530 5.7.0 log in first", "530 5.7.0"),
    ("534", Stage::Auth, "534 5.7.9 too weak", "534 5.7.9"),
    ("535", Stage::Auth, "535 5.7.8 wrong", "535 5.7.8"),
    ("lost after the final dot", Stage::Dot, "", "connection_lost"),
];

#[tokio::test]
async fn every_answer_of_smtp_has_the_effect_in_the_table() {
    let authority = Authority::new().unwrap();
    let [plain, encrypted, second] = [
        server(None).await,
        server(Some(SmtpTls::StartTls(authority.server(&[])))).await,
        server(None).await,
    ];
    let world = World::start(Channel::Email, |_| {}).await;
    world.context.serve("email", email::run);
    for (number, (answer, stage, says, code)) in CASES.iter().enumerate() {
        let row = row_of(Provider::Smtp, answer);
        let (first, security) =
            if *stage == Stage::StartTls { (&encrypted, "starttls") } else { (&plain, "none") };
        let to = format!("ada-{number}@example.org");
        let of_both = [settings(first, security, &authority), settings(&second, "none", &authority)];
        let app = world.app("smtp", &of_both).await;
        let rule = if says.is_empty() { Rule::cut(*stage) } else { Rule::answer(*stage, *says) };
        first.script(rule.times(row.times()));
        let subject = world.deliver(app, UserNumber(1), &to, email()).await;
        println!("{answer}: {says}");
        check_row(&world, &subject, row, code, "250 2.0.0").await;
        assert_eq!(first.rules_left(), 0);
        assert_eq!(taken(first, &to).len(), expected_at_first(row), "{answer}");
        assert_eq!(taken(&second, &to).len(), usize::from(row.class == Class::Pause), "{answer}");
        if row.class == Class::Unknown {
            let ids: Vec<String> = taken(first, &to).iter().map(|raw| message_id(raw)).collect();
            assert_eq!(ids[0], ids[1], "both attempts have the same Message-ID");
        }
    }
}

/// Number of messages that the first server accepts, if it gives the answer of the row first and accepts all later messages.
fn expected_at_first(row: &Row) -> usize {
    match (row.class, row.note) {
        (Class::Unknown, _) => 2,
        (Class::Sent, _) => 1,
        (Class::Retry, Note::Limit(_)) => 0,
        (Class::Retry, _) => 1,
        (Class::Failed | Class::Gone | Class::Pause, _) => 0,
    }
}

async fn server(tls: Option<SmtpTls>) -> SmtpStandIn {
    let login = Some(("user".to_owned(), "secret".to_owned()));
    SmtpStandIn::start(SmtpSettings { login, tls, ..SmtpSettings::default() }, Outbox::in_memory())
        .await
        .unwrap()
}

fn settings(server: &SmtpStandIn, security: &str, authority: &Authority) -> Value {
    json!({
        "host": "localhost", "port": server.address().port(), "from": "news@example.com",
        "security": security, "caCertificate": authority.pem(),
        "username": "user", "password": "secret",
    })
}

fn email() -> Content {
    let (subject, text) = ("Subject".to_owned(), Some("Hello".to_owned()));
    Content::Email(EmailContent { subject, text, ..EmailContent::default() })
}

fn taken(server: &SmtpStandIn, to: &str) -> Vec<Vec<u8>> {
    let captures = server.outbox().captures();
    captures.iter().filter(|capture| capture.to == [to]).map(|capture| capture.raw.clone()).collect()
}

fn message_id(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with("message-id:"));
    line.unwrap().to_owned()
}
