//! The gateway and the workers judge the options of a send by the same rules.

use domain::Reason;
use domain::content::EmailContent;
use domain::request::{SendRules, parse_send};
use serde_json::{Value, json};

use crate::fixture::{Mailer, NOW, TO, text};

/// The content that the gateway would accept; None if it refuses the send.
fn accepted(option: &str, value: &Value) -> Option<EmailContent> {
    let send = json!({
        "notification": {"title": "Hi"}, "sendTo": {"recipients": ["ada"]},
        "override": {"channel": {"email": {option: value}}},
    });
    let parsed = parse_send(send, SendRules { now: NOW, strict: false }).ok()?;
    let own = *parsed.send.overrides.email.unwrap_or_default();
    let usual = text("hello");
    Some(EmailContent {
        subject: own.subject.unwrap_or(usual.subject),
        text: own.text.or(usual.text),
        html: own.html,
        options: own.options,
    })
}

/// Every option of the channel, with good and bad values.
#[allow(clippy::too_many_lines)]
fn values() -> Vec<(&'static str, Vec<Value>, Vec<Value>)> {
    let good = [
        "ada@example.org",
        " ada@example.org ",
        "संपर्क@example.org",
        "jose\u{301}@example.org",
        "😀@example.org",
        "\"a b\"@example.org",
        "ada@bücher.example",
        "o'brien+x@example.org",
        "ada@intranet",
    ];
    let bad = [
        "te..st@example.org",
        "ada@-bad.example",
        "Ada <ada@example.org>",
        "ada",
        "",
        "a@b, c@d",
        "a@[127.0.0.1]",
        "a@127.0.0.1",
        "a@b\r\nBcc: c@d",
        "a b@example.org",
        ".a@example.org",
        "ada@ex_ample.org",
    ];
    let (goods, bads) = (good.map(|text| json!(text)), bad.map(|text| json!(text)));
    let lists = |values: &[Value]| values.iter().map(|value| json!([value])).collect::<Vec<_>>();
    let headers = |names: &[(&str, String)]| {
        names.iter().map(|(name, value)| json!({*name: value})).collect::<Vec<_>>()
    };
    let word = |count| "x".repeat(count);
    vec![
        ("cc", [lists(&goods), goods.to_vec()].concat(), [lists(&bads), vec![json!([1])]].concat()),
        ("bcc", lists(&goods), lists(&bads)),
        ("replyTo", goods.to_vec(), bads.to_vec()),
        ("from", vec![json!("other@EXAMPLE.com"), json!("दुकान@example.com")], bads.to_vec()),
        (
            "fromName",
            vec![json!("Die Läden \"& Co\""), json!(word(255))],
            vec![json!("a\r\nb"), json!(word(256)), json!("")],
        ),
        (
            "subject",
            vec![json!("Grüße"), json!(word(1_024))],
            vec![json!("a\nb"), json!(word(1_025)), json!(1)],
        ),
        ("text", vec![json!("x"), json!(""), json!(".\r\n.")], vec![json!(1)]),
        ("html", vec![json!("<p>x</p>"), json!("")], vec![json!(1)]),
        (
            "headers",
            headers(&[
                ("X-Order", word(900)),
                ("X-A", word(993)),
                ("X-App-Order", "é".repeat(200)),
                ("Precedence", "bulk".to_owned()),
                ("List-Id", "<a.b>".to_owned()),
                ("In-Reply-To", "<a@b>".to_owned()),
            ]),
            headers(&[
                ("X-A", word(994)),
                ("X-A", "a\r\nBcc: b@c.d".to_owned()),
                ("X-A", "a\u{85}b".to_owned()),
                ("X-APIHEADER", "x".to_owned()),
                ("X-Postal-Tag", "x".to_owned()),
                ("X-MailerSend-Tags", "x".to_owned()),
                ("X-Smtp2go-Bcc", "x".to_owned()),
                ("Bcc", "a@b.c".to_owned()),
                ("X A", "x".to_owned()),
            ]),
        ),
    ]
}

#[tokio::test]
async fn no_option_that_the_gateway_accepts_is_refused_without_asking_the_mail_server() {
    let mailer = Mailer::start().await;
    for (option, good, bad) in values() {
        for value in &bad {
            assert!(accepted(option, value).is_none(), "{option}: {value}");
        }
        for value in &good {
            let content = accepted(option, value).unwrap_or_else(|| panic!("{option}: {value}"));
            let answer = mailer.send_content(TO, content).await;
            assert_eq!(answer.refusal, None, "{option}: {value}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn every_local_part_of_the_standard_is_sent_to() {
    let mailer = Mailer::start().await;
    for to in [
        "संपर्क@example.org",
        "தமிழ்@example.org",
        "ගිණුම්@example.org",
        "jose\u{301}@example.org",
        "😀@example.org",
        "\"a b\"@example.org",
    ] {
        let answer = mailer.send(to).await;
        assert_eq!(answer.refusal, None, "{to}: {answer:?}");
        if let Some(capture) = mailer.captures().first() {
            assert_eq!(capture.to, [to], "{answer:?}");
        }
    }
}

#[tokio::test]
async fn what_tidings_refuses_itself_is_not_said_to_be_the_provider() {
    let mailer = Mailer::start().await;
    for (to, reason) in [("ada", Reason::InvalidAddress), ("a@[127.0.0.1]", Reason::InvalidAddress)] {
        assert_eq!(mailer.send(to).await.refusal, Some(reason), "{to}");
    }
    let mut content = text("hello");
    content.options.from = Some("shop@other.example".to_owned());
    assert_eq!(mailer.send_content(TO, content).await.refusal, Some(Reason::SenderNotAllowed));
    assert_eq!(mailer.server.connections(), 0);
}
