use std::collections::BTreeMap;

use domain::content::{Content, EmailContent, EmailOptions};
use domain::email_layout::{Brand, EmailLayout};
use domain::event::DeliveryJob;
use domain::request::MAX_SENDER;
use domain::{CategoryId, Outcome};
use email::{EmailSender, Sources};
use futures_util::FutureExt;
use mail_parser::MessageParser;
use serde_json::{Value, json};
use worker::Outbound;

use crate::fixture::{Mailer, TO, assert_sent, attempt_job, job, limits, text};

fn headers_of(mailer: &Mailer) -> String {
    let raw = String::from_utf8(mailer.captures()[0].raw.clone()).unwrap();
    raw.split_once("\r\n\r\n").unwrap().0.to_owned()
}

fn overriding(options: EmailOptions, provider: &str, members: &Value) -> DeliveryJob {
    let mut job = job(TO, EmailContent { options, ..text("hello") });
    job.overrides = BTreeMap::from([(provider.to_owned(), members.as_object().unwrap().clone())]);
    job
}

#[tokio::test]
async fn a_send_can_override_the_sender_for_all_providers_or_for_one() {
    let options = EmailOptions {
        from: Some("billing@example.com".to_owned()),
        from_name: Some("Billing, Ü".to_owned()),
        reply_to: Some("answers@example.com".to_owned()),
        ..EmailOptions::default()
    };
    let config = json!({"_config": {"from": "other@example.net", "replyTo": null}});
    let mut mailer = Mailer::start().await;
    mailer.provider.settings["allowedFrom"] = json!(["@Example.NET", "@example.com"]);
    let ours = overriding(options.clone(), "main", &config);
    assert_sent(&attempt_job(&mailer.sender, &mailer.provider, &ours).await);
    assert_eq!(mailer.captures()[0].from, "other@example.net");
    let headers = headers_of(&mailer);
    assert!(headers.contains("<other@example.net>\r\n") && headers.contains("From: =?utf-8?"), "{headers}");
    assert!(headers.contains("Reply-To: answers@example.com\r\n"), "{headers}");
    assert!(headers.contains("@example.net>\r\n"), "the Message-ID has the domain of From: {headers}");

    let others = overriding(options, "another", &config);
    assert_sent(&attempt_job(&mailer.sender, &mailer.provider, &others).await);
    assert_eq!(mailer.captures()[0].from, "billing@example.com");
}

#[tokio::test]
async fn a_send_can_use_only_senders_that_the_provider_allows() {
    for (allowed, from, is_allowed) in [
        (json!(null), "billing@example.com", true),
        (json!(null), "billing@EXAMPLE.com", true),
        (json!(null), "ceo@bank.example", false),
        (json!(null), "ceo@sub.example.com", false),
        (json!(null), "ceo@example.com.evil.example", false),
        (json!([]), "billing@example.com", false),
        (json!([]), "news@example.com", true),
        (json!(["@bank.example"]), "ceo@bank.example", true),
        (json!(["@bank.example"]), "billing@example.com", false),
        (json!(["ceo@bank.example"]), "ceo@bank.example", true),
        (json!(["ceo@bank.example"]), "cfo@bank.example", false),
        (json!(["@münchen.example"]), "a@xn--mnchen-3ya.example", true),
        (json!(["*"]), "ceo@bank.example", true),
    ] {
        let mut mailer = Mailer::start().await;
        mailer.provider.settings["allowedFrom"] = allowed.clone();
        let by_channel = EmailOptions { from: Some(from.to_owned()), ..EmailOptions::default() };
        let by_provider = json!({"_config": {"from": from}});
        for job in [
            overriding(by_channel, "another", &json!({})),
            overriding(EmailOptions::default(), "main", &by_provider),
        ] {
            let answer = attempt_job(&mailer.sender, &mailer.provider, &job).await;
            if is_allowed {
                assert_sent(&answer);
            } else {
                assert_eq!((&answer.outcome, answer.code.as_str()), (&Outcome::Failed, "sender_not_allowed"));
                assert!(answer.message.contains("allowedFrom"), "{answer:?}");
                assert!(mailer.captures().is_empty(), "{allowed} {from}");
            }
        }
    }
}

#[tokio::test]
async fn a_name_or_address_that_could_inject_a_header_is_refused() {
    for config in [
        json!({"from": "a@example.com\r\nBcc: b@example.com"}),
        json!({"from": "nobody"}),
        json!({"from": 7}),
        json!({"fromName": "a\r\nBcc: b@example.com"}),
        // A long name without spaces cannot be folded, so its line would be too long (RFC 5322 section 2.1.1).
        json!({"fromName": "x".repeat(MAX_SENDER + 1)}),
        json!({"replyTo": "a b"}),
    ] {
        let mailer = Mailer::start().await;
        let job = overriding(EmailOptions::default(), "main", &json!({"_config": config}));
        let answer = attempt_job(&mailer.sender, &mailer.provider, &job).await;
        assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Failed, "content"), "{config}");
        assert_eq!(mailer.server.connections(), 0);
    }
    let mailer = Mailer::start().await;
    let longest = json!({"_config": {"fromName": "\"".repeat(MAX_SENDER)}});
    let job = overriding(EmailOptions::default(), "main", &longest);
    assert_sent(&attempt_job(&mailer.sender, &mailer.provider, &job).await);
}

#[tokio::test]
async fn headers_of_a_send_are_added_unless_the_email_has_them_already() {
    let with = |name: &str, value: &str| {
        let headers = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        EmailContent { options: EmailOptions { headers, ..EmailOptions::default() }, ..text("hello") }
    };
    let mailer = Mailer::start().await;
    assert_sent(&mailer.send_content(TO, with("X-Campaign", "Frühling 7")).await);
    let headers = headers_of(&mailer);
    assert!(headers.contains("\r\nX-Campaign: =?utf-8?b?RnLDvGhsaW5n?= 7\r\n"), "{headers}");
    for (name, value) in [
        ("From", "x@example.com"),
        ("message-id", "<1@example.com>"),
        ("DKIM-Signature", "v=1"),
        ("List-Unsubscribe", "<https://example.com>"),
        ("X-Campaign", "a\r\nBcc: b@example.com"),
        ("X-Campaign: a\r\nBcc", "b@example.com"),
        ("X Campaign", "a"),
        ("", "a"),
    ] {
        let answer = mailer.send_content(TO, with(name, value)).await;
        assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Failed, "content"), "{name}");
    }
    assert_eq!(mailer.captures().len(), 1);
}

/// Creates a sender whose unsubscribe link is always `link`.
fn linking(link: Result<Option<&'static str>, &'static str>) -> EmailSender {
    let sources = Sources::new(
        Box::new(|_, _, _| async { Ok(None) }.boxed()),
        Box::new(move |_, _, _| {
            async move { link.map(|link| link.map(str::to_owned)).map_err(str::to_owned) }.boxed()
        }),
    );
    EmailSender::new(limits(), Outbound::new(true), sources).unwrap()
}

#[tokio::test]
async fn an_email_of_a_category_has_unsubscribe_headers() {
    let mailer = Mailer::start().await;
    let mut of_category = job(TO, text("hello"));
    of_category.category = Some(CategoryId(3));
    let plain = job(TO, text("hello"));
    let one_click = "\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n";
    let https = linking(Ok(Some("https://notify.example.com/v3/unsubscribe/abc")));
    assert_sent(&attempt_job(&https, &mailer.provider, &of_category).await);
    let headers = headers_of(&mailer);
    assert!(headers.contains("\r\nList-Unsubscribe: <https://notify.example.com/v3/unsubscribe/abc>\r\n"));
    assert!(headers.contains(one_click), "{headers}");

    let http = linking(Ok(Some("http://localhost/v3/unsubscribe/abc")));
    assert_sent(&attempt_job(&http, &mailer.provider, &of_category).await);
    assert!(
        headers_of(&mailer).contains("List-Unsubscribe: <http://")
            && !headers_of(&mailer).contains(one_click)
    );

    let mut with_cc = of_category.clone();
    let mut with_bcc = of_category.clone();
    for (job, is_cc) in [(&mut with_cc, true), (&mut with_bcc, false)] {
        let Content::Email(content) = &mut job.content else { panic!("{job:?}") };
        let copies = if is_cc { &mut content.options.cc } else { &mut content.options.bcc };
        copies.push("other@example.org".to_owned());
    }
    let none = linking(Ok(None));
    for (sender, job) in [(&https, &plain), (&none, &of_category), (&https, &with_cc), (&https, &with_bcc)] {
        assert_sent(&attempt_job(sender, &mailer.provider, job).await);
        assert!(!headers_of(&mailer).contains("List-Unsubscribe"));
    }
    let answer = attempt_job(&linking(Err("the database is away")), &mailer.provider, &of_category).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::RETRY, "unsubscribe"));
    assert_eq!(mailer.captures().len(), 6);
}

#[tokio::test]
async fn an_email_in_the_layout_has_the_unsubscribe_link_in_both_parts_unless_it_has_copies() {
    let mailer = Mailer::start().await;
    let brand = Brand { name: "The Shop".to_owned(), ..Brand::default() };
    let layout = Some(Box::new(EmailLayout { title: Some("Title".to_owned()), url: None, brand }));
    let mut alone = job(TO, EmailContent { layout, ..text("Message") });
    alone.category = Some(CategoryId(3));
    let mut with_copy = alone.clone();
    let Content::Email(content) = &mut with_copy.content else { panic!("{with_copy:?}") };
    content.options.cc.push("other@example.org".to_owned());
    let sender = linking(Ok(Some("https://notify.example.com/v3/unsubscribe/abc")));
    for (job, is_linked) in [(&alone, true), (&with_copy, false)] {
        assert_sent(&attempt_job(&sender, &mailer.provider, job).await);
        let raw = mailer.captures().remove(0).raw;
        let message = MessageParser::default().parse(&raw).unwrap();
        for part in [message.body_text(0).unwrap(), message.body_html(0).unwrap()] {
            assert!(
                part.contains("Title") && part.contains("Message") && part.contains("The Shop"),
                "{part}"
            );
            assert_eq!(part.contains("https://notify.example.com/v3/unsubscribe/abc"), is_linked, "{part}");
        }
    }
}
