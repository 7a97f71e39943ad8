use std::time::Duration;

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
        ..Attachment::default()
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

/// A part: its type, and the parts in it.
fn leaf(kind: &str) -> Value {
    json!([kind, []])
}

fn file(number: u32, name: &str, content_type: &str, content_id: Option<&str>) -> Attachment {
    Attachment {
        number,
        name: name.to_owned(),
        content_type: content_type.to_owned(),
        size: FILE.len() as u64,
        content_id: content_id.map(str::to_owned),
        inline: content_id.is_some(),
    }
}

#[tokio::test]
async fn files_that_the_html_shows_and_invitations_are_where_mail_programs_look_for_them() {
    let logo = file(0, "logo.png", "image/png", Some("logo@example.com"));
    let invitation = file(1, "invite.ics", "text/calendar; method=request", None);
    let pdf = file(2, "a.pdf", "application/pdf", None);
    let html = Some("<img src=\"cid:logo@example.com\">");
    let related = json!(["multipart/related", [leaf("text/html"), leaf("image/png")]]);
    let shown = json!(["multipart/alternative", [leaf("text/plain"), related]]);
    let (plain, ics) = (leaf("text/plain"), leaf("application/ics"));
    let cases = [
        (html, vec![logo.clone()], shown.clone()),
        (html, vec![logo.clone(), pdf.clone()], json!(["multipart/mixed", [shown, leaf("application/pdf")]])),
        (
            html,
            vec![logo.clone(), invitation.clone(), pdf],
            json!([
                "multipart/mixed",
                [
                    ["multipart/alternative", [plain, related, leaf("text/calendar")]],
                    ics,
                    leaf("application/pdf"),
                ]
            ]),
        ),
        (
            None,
            vec![invitation],
            json!(["multipart/mixed", [["multipart/alternative", [plain, leaf("text/calendar")]], ics]]),
        ),
        (None, vec![logo], json!(["multipart/mixed", [plain, leaf("image/png")]])),
    ];
    for (html, attachments, tree) in cases {
        let options = EmailOptions { attachments: attachments.clone(), ..EmailOptions::default() };
        let content = EmailContent { options, ..content(Some("Grüße"), html) };
        let seen = seen(sent(TO, content, Value::Null).await).await;
        assert_eq!(seen["defects"], json!([]), "{seen}");
        assert_eq!(seen["tree"], tree);
        for part in seen["parts"].as_array().unwrap() {
            let kind = part["type"].as_str().unwrap();
            if kind == "image/png" {
                assert_eq!(
                    (&part["id"], &part["disposition"]),
                    (&json!("<logo@example.com>"), &json!("inline"))
                );
            }
            assert_eq!(part["method"], if kind == "text/calendar" { json!("REQUEST") } else { Value::Null });
            if !matches!(kind, "text/plain" | "text/html") {
                assert!(part["content"] == json!(STANDARD.encode(FILE)) || kind == "text/calendar", "{part}");
            }
        }
        for attachment in attachments {
            let part = seen["parts"]
                .as_array()
                .unwrap()
                .iter()
                .find(|part| part["name"] == attachment.name.as_str());
            assert_eq!(part.unwrap()["disposition"] == "inline", attachment.inline);
        }
    }
}

#[tokio::test]
async fn text_that_looks_like_an_encoded_word_is_shown_as_sent() {
    for text in [
        "Raw header: =?utf-8?q?literal?= end",
        "=?utf-8?b?YWJj?=",
        "=?iso-8859-1?Q?a=20b?= =?iso-8859-1?Q?c?=",
        "a =? b ?= c",
        "Grüße =?utf-8?q?x?=",
        "x=?utf-8?q?no_space_around?=x",
        "=?utf-8?q?long?= ".repeat(10).trim(),
    ] {
        let attachments =
            vec![file(0, text, "application/pdf", None), file(1, text, "image/png", Some("logo"))];
        let options = EmailOptions {
            from_name: Some(text.to_owned()),
            headers: BTreeMap::from([("X-Campaign".to_owned(), text.to_owned())]),
            attachments,
            ..EmailOptions::default()
        };
        let content = EmailContent { subject: text.to_owned(), options, ..content(Some("a"), Some("<p>a")) };
        let raw = sent(TO, content, Value::Null).await;
        let head = String::from_utf8_lossy(&raw).into_owned();
        assert!(head.lines().all(|line| line.len() <= 78 || line.starts_with("List-")), "{head}");
        let seen = seen(raw).await;
        assert_eq!(seen["defects"], json!([]), "{seen}");
        assert_eq!((header(&seen, "Subject"), header(&seen, "X-Campaign")), (vec![text], vec![text]));
        let [from] = header(&seen, "From")[..] else { panic!("{seen}") };
        let name = from.strip_suffix(" <news@example.com>").unwrap().trim_matches('"');
        // Python's parser keeps the white space between the encoded words of a name, contrary to RFC 2047, section 6.2.
        assert_eq!(name.replace(' ', ""), text.replace(' ', ""));
        let names: Vec<_> =
            seen["parts"].as_array().unwrap().iter().filter_map(|part| part["name"].as_str()).collect();
        assert_eq!(names, [text, text]);
    }
}

#[tokio::test]
async fn every_email_says_that_it_is_automatic_unless_the_send_says_otherwise() {
    let automatic = seen(sent(TO, content(Some("a"), None), Value::Null).await).await;
    assert_eq!(header(&automatic, "Auto-Submitted"), ["auto-generated"]);
    assert_eq!(header(&automatic, "X-Auto-Response-Suppress"), ["OOF, AutoReply"]);
    let headers = BTreeMap::from([("auto-submitted".to_owned(), "no".to_owned())]);
    let options = EmailOptions { headers, ..EmailOptions::default() };
    let own = EmailContent { options, ..content(Some("a"), None) };
    assert_eq!(header(&seen(sent(TO, own, Value::Null).await).await, "Auto-Submitted"), ["no"]);
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
