use std::collections::BTreeMap;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::content::{Attachment, Content, EmailContent, EmailOptions};
use domain::event::DeliveryJob;
use domain::{AppId, CategoryId, Channel, DeliveryId, Lane, Outcome, SendId, Timestamp, UserNumber};
use email::{EmailSender, PoolLimits, Sources};
use futures_util::FutureExt;
use serde_json::{Value, json};
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use uuid::Uuid;
use worker::{Call, Lease, Outbound, Provider};

use crate::python::ask;

const TO: &str = "ada@example.org";
const LINK: &str = "https://notify.example.com/v3/unsubscribe/eyJhbGciOiJIUzI1NiJ9.abc";
/// Content of every attachment.
const FILE: [u8; 300] = [0xC3; 300];

/// Sends an email to a stand-in, and returns the message as the stand-in received it.
async fn sent(to: &str, content: EmailContent, dkim: Value) -> Vec<u8> {
    let server = SmtpStandIn::start(SmtpSettings::default(), Outbox::in_memory()).await.unwrap();
    let settings = json!({
        "host": "127.0.0.1", "port": server.address().port(), "security": "none",
        "from": "news@example.com", "fromName": "Tidings", "dkim": dkim,
    });
    let (identifier, kind) = ("main".to_owned(), "smtp".to_owned());
    let provider = Provider { app: AppId(1), identifier, kind, settings, version: 1 };
    let id = DeliveryId(Uuid::from_u128(7));
    let mut job =
        DeliveryJob::first(id, Channel::Email, UserNumber(1), to.to_owned(), Content::Email(content));
    job.category = Some(CategoryId(3));
    let (lane, now, send_id) =
        (Lane::Transactional, Timestamp::from_millis(1_767_323_045_000), Some(SendId(Uuid::from_u128(9))));
    let lease = &Lease::lasting(Duration::from_secs(90));
    let call = Call { app: AppId(1), send_id, lane, provider: &provider, job: &job, now, lease };
    let sources = Sources::new(
        Box::new(|_, _, _| async { Ok(Some(FILE.to_vec())) }.boxed()),
        Box::new(|_, _, _| async { Ok(Some(LINK.to_owned())) }.boxed()),
    );
    let limits = PoolLimits::default();
    let answer = EmailSender::new(limits, Outbound::new(true), sources).unwrap().attempt(&call).await;
    assert!(matches!(answer.outcome, Outcome::Sent { .. }), "{answer:?}");
    server.outbox().captures()[0].raw.clone()
}

/// Runs the Python script on each message with these DNS records of signing keys, and returns its findings.
async fn all_seen(raws: &[Vec<u8>], keys: &Value) -> Vec<Value> {
    let raws: Vec<_> = raws.iter().map(|raw| STANDARD.encode(raw)).collect();
    serde_json::from_value(ask("mail.py", &json!({"raws": raws, "keys": keys})).await).unwrap()
}

async fn seen(raw: Vec<u8>) -> Value {
    all_seen(&[raw], &json!({})).await.remove(0)
}

fn content(text: Option<&str>, html: Option<&str>) -> EmailContent {
    let (text, html) = (text.map(str::to_owned), html.map(str::to_owned));
    EmailContent { subject: "Grüße aus 東京".to_owned(), text, html, ..EmailContent::default() }
}

fn with_files(names: &[&str]) -> EmailContent {
    let one = |(number, name): (usize, &&str)| Attachment {
        number: u32::try_from(number).unwrap(),
        name: (*name).to_owned(),
        content_type: "application/pdf".to_owned(),
        size: FILE.len() as u64,
    };
    let options = EmailOptions {
        headers: BTreeMap::from([
            ("X-Campaign".to_owned(), "Frühling ".repeat(40).trim().to_owned()),
            ("X-Long".to_owned(), "x".repeat(990)),
        ]),
        attachments: names.iter().enumerate().map(one).collect(),
        ..EmailOptions::default()
    };
    EmailContent { options, ..content(Some("Grüße\n"), Some("<p>Grüße</p>\n")) }
}

fn header<'a>(seen: &'a Value, name: &str) -> Vec<&'a str> {
    let headers = seen["headers"].as_array().unwrap();
    let named = headers.iter().filter(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case(name));
    named.map(|pair| pair[1].as_str().unwrap()).collect()
}

#[tokio::test]
async fn pythons_parser_finds_every_part_and_no_defect() {
    let cases: &[(EmailContent, Value)] = &[
        (content(Some("Grüße\n"), None), json!(["text/plain"])),
        (content(None, Some("<p>Grüße</p>")), json!(["multipart/alternative", "text/plain", "text/html"])),
        (
            with_files(&["Prüfung.pdf", "a \"quoted\" name; with = signs.pdf", "long ".repeat(40).trim()]),
            json!([
                "multipart/mixed",
                "multipart/alternative",
                "text/plain",
                "text/html",
                "application/pdf",
                "application/pdf",
                "application/pdf",
            ]),
        ),
    ];
    for (content, structure) in cases {
        let seen = seen(sent(TO, content.clone(), Value::Null).await).await;
        assert_eq!(seen["defects"], json!([]), "{seen}");
        assert_eq!(&seen["structure"], structure);
        assert_eq!(header(&seen, "Subject"), ["Grüße aus 東京"]);
        assert_eq!(header(&seen, "From"), ["Tidings <news@example.com>"]);
        assert_eq!(header(&seen, "Message-ID"), ["<00000000-0000-0000-0000-000000000007@example.com>"]);
        assert_eq!(header(&seen, "Date"), ["Fri, 02 Jan 2026 03:04:05 +0000"]);
        assert_eq!(header(&seen, "List-Unsubscribe"), [format!("<{LINK}>")]);
        assert_eq!(header(&seen, "List-Unsubscribe-Post"), ["List-Unsubscribe=One-Click"]);
        for (name, value) in &content.options.headers {
            assert_eq!(header(&seen, name), [value]);
        }
        let files: Vec<_> = seen["parts"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|part| part["disposition"] == "attachment")
            .collect();
        assert_eq!(files.len(), content.options.attachments.len());
        for (file, sent) in files.iter().zip(&content.options.attachments) {
            assert_eq!((&file["name"], &file["content"]), (&json!(sent.name), &json!(STANDARD.encode(FILE))));
        }
    }
}

#[tokio::test]
async fn pythons_parser_reads_internationalised_addresses() {
    for (to, read) in [
        ("jürgen@müller.example", "jürgen@xn--mller-kva.example"),
        ("a@bücher.example", "a@xn--bcher-kva.example"),
    ] {
        let raw = sent(to, content(Some("hello"), None), Value::Null).await;
        assert_eq!(raw.is_ascii(), read.is_ascii());
        assert_eq!(header(&seen(raw).await, "To"), [read]);
    }
}

/// Creates a signing key: DNS name, private key in PEM, and the DNS record with the public key.
fn keys() -> [(&'static str, String, String); 2] {
    let rsa = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
    let rsa_private: Pkcs8V1Der<'_> = rsa.as_der().unwrap();
    let rsa_public: PublicKeyX509Der<'_> = rsa.public_key().as_der().unwrap();
    let ed25519 = Ed25519KeyPair::generate().unwrap();
    let ed25519_private: Pkcs8V1Der<'_> = ed25519.as_der().unwrap();
    let pem = |der: &[u8]| {
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der))
    };
    let record = |kind: &str, public: &[u8]| format!("v=DKIM1; k={kind}; p={}", STANDARD.encode(public));
    [
        ("rsa-sha256", pem(rsa_private.as_ref()), record("rsa", rsa_public.as_ref())),
        ("ed25519-sha256", pem(ed25519_private.as_ref()), record("ed25519", ed25519.public_key().as_ref())),
    ]
}

#[tokio::test]
async fn dkimpy_verifies_every_signature_and_notices_every_change() {
    for (algorithm, pem, record) in keys() {
        let dkim = json!({"domain": "example.com", "selector": "tidings", "privateKey": pem});
        let dns = json!({"tidings._domainkey.example.com": record});
        for content in [
            content(Some("a  b \t c \n\n.\n..\n \n\n\n"), None),
            content(Some(""), None),
            content(None, Some("<p>Grüße</p>")),
            with_files(&["Prüfung.pdf", "b.pdf"]),
        ] {
            let raw = sent(TO, content, dkim.clone()).await;
            let messages = [vec![raw.clone()], forgeries(raw)].concat();
            let mut found = all_seen(&messages, &dns).await.into_iter();
            let signed = found.next().unwrap();
            assert_eq!(signed["defects"], json!([]), "{signed}");
            let [signature] = &signed["signatures"].as_array().unwrap()[..] else { panic!("{signed}") };
            let tags = &signature["tags"];
            assert_eq!((&tags["a"], &tags["c"]), (&json!(algorithm), &json!("relaxed/relaxed")));
            assert_eq!((&tags["d"], &tags["s"]), (&json!("example.com"), &json!("tidings")));
            assert_eq!(signature["valid"], json!(true), "{algorithm}: {signed}");
            for (found, forged) in found.zip(&messages[1..]) {
                let forged = String::from_utf8_lossy(forged);
                assert_eq!(found["signatures"][0]["valid"], json!(false), "{forged}");
            }
        }
    }
}

/// Returns copies of a signed message, each with one change that must invalidate the signature.
fn forgeries(raw: Vec<u8>) -> Vec<Vec<u8>> {
    let text = String::from_utf8(raw).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let forgeries = [
        format!("{head}\r\n\r\n{body}x\r\n"),
        format!("{head}\r\nFrom: Eve <eve@example.com>\r\n\r\n{body}"),
        format!("{head}\r\nReply-To: eve@example.com\r\n\r\n{body}"),
        format!("{}\r\n\r\n{body}", head.replace("unsubscribe/", "unsubscribed/")),
        format!("{}\r\n\r\n{body}", head.replace("One-Click", "Two-Clicks")),
    ];
    assert!(forgeries.iter().all(|forged| *forged != text));
    forgeries.map(String::into_bytes).to_vec()
}
