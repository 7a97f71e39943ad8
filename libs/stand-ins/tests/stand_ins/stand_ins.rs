use std::time::Duration;

use serde_json::Value;
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{Rule, SmtpSettings, SmtpStandIn, Stage};
use stand_ins::{StandInSettings, StandIns};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const MAIL: &str = "MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.com>\r\n";
const MESSAGE: &str =
    "Message-ID: <1@example.com>\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\nX-Long: one\r\n two\r\n\r\n..dot\r\n";

/// Sends `say` at once, and returns everything that the server sends until it closes the connection.
pub(crate) async fn talk(server: std::net::SocketAddr, say: &str) -> String {
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(say.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    // If the server closes the connection with unread input, TCP resets the connection. The bytes received before the
    // reset are valid.
    drop(timeout(LIMIT, stream.read_to_end(&mut heard)).await.expect("the server closes the connection"));
    String::from_utf8(heard).unwrap()
}

async fn smtp() -> SmtpStandIn {
    SmtpStandIn::start(SmtpSettings::default(), Outbox::in_memory()).await.unwrap()
}

pub(crate) fn codes(heard: &str) -> Vec<&str> {
    heard.lines().filter(|line| line.as_bytes().get(3) == Some(&b' ')).map(|line| &line[..3]).collect()
}

#[tokio::test]
async fn a_pipelined_message_is_captured_without_dot_stuffing() {
    let server = smtp().await;
    let heard = talk(server.address(), &format!("EHLO c\r\n{MAIL}DATA\r\n{MESSAGE}.\r\nQUIT\r\n")).await;
    assert_eq!(codes(&heard), ["220", "250", "250", "250", "354", "250", "221"], "{heard}");
    let captures = server.outbox().captures();
    let [only] = &captures[..] else { panic!("one capture expected: {captures:?}") };
    assert_eq!(
        (only.from.as_str(), only.to.as_slice()),
        ("a@example.com", &["b@example.com".to_owned()][..])
    );
    assert_eq!(only.raw, MESSAGE.replace("..dot", ".dot").as_bytes());
}

#[tokio::test]
async fn commands_out_of_order_and_malformed_content_are_refused() {
    let cases = [
        ("no greeting", format!("{MAIL}QUIT\r\n"), "503"),
        ("RCPT first", "EHLO c\r\nRCPT TO:<b@example.com>\r\nQUIT\r\n".to_owned(), "503"),
        ("DATA first", "EHLO c\r\nDATA\r\nQUIT\r\n".to_owned(), "503"),
        ("bare LF in a command", "EHLO c\nQUIT\r\n".to_owned(), "500"),
        ("no path", "EHLO c\r\nMAIL FROM: a@example.com\r\nQUIT\r\n".to_owned(), "501"),
        ("bare LF in content", format!("EHLO c\r\n{MAIL}DATA\r\n{MESSAGE}a\nb\r\n.\r\nQUIT\r\n"), "554"),
        ("bare CR in content", format!("EHLO c\r\n{MAIL}DATA\r\n{MESSAGE}a\rb\r\n.\r\nQUIT\r\n"), "554"),
        (
            "dot after a bare LF",
            format!("EHLO c\r\n{MAIL}DATA\r\n{MESSAGE}\n.\r\nNOOP\r\n.\r\nQUIT\r\n"),
            "554",
        ),
        (
            "no Message-ID",
            format!("EHLO c\r\n{MAIL}DATA\r\nSubject: x\r\n\r\nMessage-ID: 1\r\n.\r\nQUIT\r\n"),
            "554",
        ),
        (
            "line too long",
            format!("EHLO c\r\n{MAIL}DATA\r\n{MESSAGE}{}\r\n.\r\nQUIT\r\n", "x".repeat(999)),
            "554",
        ),
    ];
    for (name, say, refusal) in cases {
        let server = smtp().await;
        let heard = talk(server.address(), &say).await;
        assert!(codes(&heard).contains(&refusal), "{name}: {heard}");
        assert!(server.outbox().captures().is_empty(), "{name} must not be captured");
    }
}

#[tokio::test]
async fn login_is_required() {
    let login = Some(("user".to_owned(), "secret".to_owned()));
    let settings = SmtpSettings { login, ..SmtpSettings::default() };
    let server = SmtpStandIn::start(settings, Outbox::in_memory()).await.unwrap();
    for (say, last) in [
        ("EHLO c\r\nMAIL FROM:<a@example.com>\r\nQUIT\r\n", "530"),
        ("EHLO c\r\nAUTH PLAIN AHVzZXIAd3Jvbmc=\r\nQUIT\r\n", "535"),
        ("EHLO c\r\nAUTH PLAIN AHVzZXIAc2VjcmV0\r\nQUIT\r\n", "235"),
        ("EHLO c\r\nAUTH LOGIN\r\ndXNlcg==\r\nc2VjcmV0\r\nQUIT\r\n", "235"),
    ] {
        let heard = talk(server.address(), say).await;
        assert_eq!(codes(&heard).iter().rev().nth(1), Some(&last), "{say}: {heard}");
    }
}

#[tokio::test]
async fn scripts_and_recipient_names_determine_the_reply() {
    let server = smtp().await;
    let whole = format!("EHLO c\r\n{MAIL}DATA\r\n{MESSAGE}.\r\nQUIT\r\n");
    server.script(Rule::answer(Stage::Rcpt, "450 4.2.0 later").to("*@example.com"));
    assert!(talk(server.address(), &whole).await.contains("450 4.2.0 later"));
    server.script(Rule::cut(Stage::Data));
    assert!(!talk(server.address(), &whole).await.contains("354"));
    server.script(Rule::cut(Stage::Content));
    talk(server.address(), &whole).await;
    server.script(Rule::answer(Stage::Dot, "452 4.3.1 full").to("b@example.com"));
    assert!(talk(server.address(), &whole).await.contains("452 4.3.1 full"));
    assert!(server.outbox().captures().is_empty());
    server.script(Rule::cut(Stage::Dot));
    let heard = talk(server.address(), &whole).await;
    assert!(!heard.contains("250 2.0.0"), "{heard}");
    assert_eq!(server.outbox().captures().len(), 1, "captured before the connection is cut");
    let named = "EHLO c\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<5.1.1@example.com>\r\nQUIT\r\n";
    assert!(talk(server.address(), named).await.contains("550 5.1.1 "));
    assert_eq!(server.connections(), 6);
}

/// Makes one request on a new connection, and returns the status and the JSON body.
async fn http(url: &str, method: &str, path: &str) -> (u16, Value) {
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    let heard =
        talk(address, &format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
            .await;
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn the_outbox_shows_captures_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let settings = StandInSettings::in_directory(directory.path());
    let stand_ins = StandIns::start(&settings).await.unwrap();
    let say = format!("EHLO c\r\n{MAIL}DATA\r\n{MESSAGE}.\r\nQUIT\r\n");
    talk(stand_ins.smtp_address(), &say).await;
    talk(stand_ins.smtp_address(), &say.replace("b@example.com", "c+1@example.com")).await;
    assert_eq!(Outbox::read_directory(directory.path()).unwrap().len(), 2);
    let (status, first) = http(&stand_ins.outbox_url(), "GET", "/messages").await;
    assert_eq!(status, 200);
    assert_eq!(first["data"][0]["to"][0], "c+1@example.com", "newest first: {first}");
    stand_ins.stop().await;

    // Append an incomplete line, like the one left by a process that is killed while it writes.
    let file = directory.path().join("outbox.jsonl");
    let mut contents = std::fs::read(&file).unwrap();
    contents.extend_from_slice(b"{\"id\":3,\"chan");
    std::fs::write(&file, contents).unwrap();
    let stand_ins = StandIns::start(&settings).await.unwrap();
    let url = stand_ins.outbox_url();
    assert_eq!(http(&url, "GET", "/messages").await.1, first);
    talk(stand_ins.smtp_address(), &say).await;
    let found = http(&url, "GET", "/messages?channel=email&to=c%2B1%40example.com").await.1;
    assert_eq!(found["data"].as_array().unwrap().len(), 1);
    let shown = &found["data"][0];
    assert_eq!(shown["subject"], "café");
    assert_eq!(shown["text"], ".dot\r\n");
    assert_eq!(shown["html"], Value::Null);
    assert_eq!(shown["headers"]["message-id"][0], "<1@example.com>");
    assert_eq!(shown["headers"]["x-long"][0], "one two");
    assert_eq!(http(&url, "GET", "/messages?channel=sms").await.1["data"], Value::Array(Vec::new()));
    assert_eq!(http(&url, "GET", "/nothing").await.0, 404);
    assert_eq!(http(&url, "PUT", "/messages").await.0, 405);
    assert_eq!(http(&url, "DELETE", "/messages").await.0, 204);
    assert_eq!(http(&url, "GET", "/messages").await.1["data"], Value::Array(Vec::new()));
    stand_ins.stop().await;
    assert!(Outbox::read_directory(directory.path()).unwrap().is_empty());
}

#[test]
fn the_outbox_keeps_the_newest_captures_in_memory_and_in_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let outbox = Outbox::in_directory(directory.path(), 3).unwrap();
    for number in 1..=20 {
        outbox.capture("email", "a@example.com", &[], vec![number]).unwrap();
    }
    let kept = outbox.captures().iter().map(|capture| capture.id).collect::<Vec<_>>();
    assert_eq!(kept, [20, 19, 18]);
    let written = Outbox::read_directory(directory.path()).unwrap();
    assert!(written.len() <= 6, "{} lines", written.len());
    drop(outbox);
    let again = Outbox::in_directory(directory.path(), 3).unwrap();
    assert_eq!(again.captures().iter().map(|capture| capture.id).collect::<Vec<_>>(), kept);
}
