use domain::content::EmailContent;
use domain::{Answer, Outcome};
use mail_parser::{Message, MessageParser, PartType};
use stand_ins::outbox::Capture;

use crate::fixture::{Mailer, TO, assert_sent, text};

fn parsed(capture: &Capture) -> Message<'_> {
    MessageParser::default().parse(&capture.raw).unwrap()
}

fn text_of(message: &Message<'_>) -> Option<String> {
    message.text_bodies().find_map(|part| match &part.body {
        PartType::Text(text) => Some(text.to_string()),
        _ => None,
    })
}

fn html_of(message: &Message<'_>) -> Option<String> {
    message.html_bodies().find_map(|part| match &part.body {
        PartType::Html(html) => Some(html.to_string()),
        _ => None,
    })
}

#[tokio::test]
async fn headers_and_both_parts_arrive() {
    let mailer = Mailer::start().await;
    let content = EmailContent {
        subject: "Grüße aus 東京 — a subject long enough that it has to be folded onto a second line"
            .to_owned(),
        text: Some("Grüße\n".to_owned()),
        html: Some("<p>Grüße</p>\n".to_owned()),
        ..EmailContent::default()
    };
    assert_sent(&mailer.send_content(TO, content.clone()).await);
    let captures = mailer.captures();
    assert_eq!((captures[0].from.as_str(), &captures[0].to[..]), ("news@example.com", &[TO.to_owned()][..]));
    assert!(captures[0].raw.is_ascii());
    let message = parsed(&captures[0]);
    assert_eq!(message.subject(), Some(content.subject.as_str()));
    assert_eq!(text_of(&message).as_deref(), Some("Grüße\r\n"));
    assert_eq!(html_of(&message).as_deref(), Some("<p>Grüße</p>\r\n"));
    let header = |name: &str| message.header_raw(name).unwrap().trim().to_owned();
    assert_eq!(header("Message-ID"), "<00000000-0000-0000-0000-000000000007@example.com>");
    assert_eq!(header("From"), "Tidings <news@example.com>");
    assert_eq!(header("To"), TO);
    assert_eq!(header("Reply-To"), "help@example.com");
    assert_eq!(message.date().unwrap().to_rfc3339(), "2026-01-02T03:04:05Z");
    assert_eq!(header("MIME-Version"), "1.0");
    assert!(header("Content-Type").starts_with("multipart/alternative;"));
}

const SMUGGLED: &str =
    "a\n.\nMAIL FROM:<evil@example.com>\nRCPT TO:<b@example.com>\nDATA\nMessage-ID: <1>\n\nhi\n.\n";

#[tokio::test]
async fn any_content_arrives_complete_as_one_message() {
    let (long, crlf, cr) = ("x".repeat(3_000), SMUGGLED.replace('\n', "\r\n"), SMUGGLED.replace('\n', "\r"));
    #[rustfmt::skip]
    let contents = [
        "", ".", "..", ".\n.\n", "a\n.\nb", "a\r.\rb", "a\r\n.\r\nb", "a\n.\r\nb", "a\r.\nb", "\r\n.\r\n", "\n\r\n\r",
        "a\r\r\nb", "trailing space \nand tab\t\n=3D = =\n", "Привет\n.\nмир", "a\u{85}b\u{2028}c", "From me\n--\n",
        SMUGGLED, &crlf, &cr, &long,
    ];
    for content in contents {
        for (with_text, with_html) in [(true, false), (false, true), (true, true)] {
            let part = |wanted: bool| wanted.then(|| content.to_owned());
            let email = EmailContent { text: part(with_text), html: part(with_html), ..text("") };
            arrives_whole(email, content).await;
        }
    }
}

async fn arrives_whole(email: EmailContent, content: &str) {
    let expected = content.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n");
    let mailer = Mailer::start().await;
    assert_sent(&mailer.send_content(TO, email.clone()).await);
    let captures = mailer.captures();
    let [only] = &captures[..] else { panic!("{content:?} became {} messages", captures.len()) };
    assert_eq!(only.to, [TO]);
    let message = parsed(only);
    assert!(text_of(&message).is_some());
    for (sent, arrived) in [(email.text, text_of(&message)), (email.html, html_of(&message))] {
        // An HTML email without a text gets a generated text, which another test covers.
        if sent.is_none() && arrived.is_some() {
            continue;
        }
        assert_eq!(sent.is_some(), arrived.is_some(), "{content:?}");
        // If the content does not end with a line end, one is added to it.
        let same = |arrived: &str| arrived == expected || arrived.strip_suffix("\r\n") == Some(&expected);
        assert!(arrived.as_deref().is_none_or(same), "{content:?} arrived as {arrived:?}");
    }
}

#[track_caller]
fn assert_refused(mailer: &Mailer, answer: &Answer, code: &str) {
    assert_eq!((&answer.outcome, answer.code.as_str()), (&Outcome::Failed, code), "{answer:?}");
    assert_eq!(mailer.server.connections(), 0, "the email is refused before the server is called");
}

#[tokio::test]
async fn headers_and_commands_cannot_be_injected() {
    let mailer = Mailer::start().await;
    for subject in ["a\r\nBcc: b@example.com", "a\nBcc: b@example.com", "a\rBcc: b@example.com", "a\0b"] {
        let content = EmailContent { subject: subject.to_owned(), ..text("hello") };
        assert_refused(&mailer, &mailer.send_content(TO, content).await, "content");
    }
    for to in [
        "a@example.com\r\nRCPT TO:<b@example.com>",
        "a@example.com\nb",
        "a@example.com>",
        "a@example.com, b@example.com",
        "<a@example.com>",
        "Ada <a@example.com>",
        "a@",
        "@example.com",
        "a",
        "",
        "a b@example.com",
        "a@example.com\0",
        "a@exa\u{a}mple.com",
        "\"a\r\n\"@example.com",
    ] {
        assert_refused(&mailer, &mailer.send(to).await, "address");
    }
    let empty = EmailContent { text: None, ..text("") };
    assert_refused(&mailer, &mailer.send_content(TO, empty).await, "content");
}

#[tokio::test]
async fn emails_to_internationalised_addresses_are_sent() {
    let mailer = Mailer::start().await;
    for (to, envelope) in [
        ("ada@müller.example", "ada@xn--mller-kva.example"),
        ("jürgen@müller.example", "jürgen@xn--mller-kva.example"),
        ("o'hara+tag@example.org", "o'hara+tag@example.org"),
    ] {
        assert_sent(&mailer.send(to).await);
        assert_eq!(mailer.captures()[0].to, [envelope]);
    }
}
