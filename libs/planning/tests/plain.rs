//! Content of sends without a template.
#![allow(clippy::unwrap_used, clippy::panic)]

use domain::content::{Content, EmailContent, Object, UNSUBSCRIBE_SLOT};
use domain::email_layout::Brand;
use domain::request::{SendRules, parse_send};
use domain::{Channel, Timestamp};
use planning::{ContentRenderer, EmailLook, Template};
use serde_json::{Value, json};

fn shown(channel: Channel, send: &Value, layout: Option<&Template>) -> Content {
    let rules = SendRules { now: Timestamp::from_millis(0), strict: true };
    let mut body = json!({"sendTo": {"recipients": ["ada"]}});
    body.as_object_mut().unwrap().extend(send.as_object().unwrap().clone());
    let send = parse_send(body, rules).unwrap_or_else(|problems| panic!("{problems:?}")).send;
    let brand = Brand { name: "The Shop".to_owned(), ..Brand::default() };
    let look = EmailLook { brand: &brand, layout, unsubscribe: true };
    let renderer = ContentRenderer::new(&send, None, "shop", look, None);
    renderer.shown(channel, &send.recipients[0], &Object::new()).unwrap()
}

fn sms(message: &str, url: &str) -> String {
    let send = json!({"notification": {"title": "Title", "message": message, "url": url}});
    match shown(Channel::Sms, &send, None) {
        Content::Sms(sms) => sms.text,
        other => panic!("{other:?}"),
    }
}

fn email(send: &Value, layout: Option<&Template>) -> EmailContent {
    match shown(Channel::Email, send, layout) {
        Content::Email(email) => email,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_sms_ends_with_the_link_of_its_send() {
    assert_eq!(sms("On its way. ", "https://a.example/7"), "On its way.\nhttps://a.example/7");
    assert_eq!(sms("See https://a.example/7", "https://a.example/7"), "See https://a.example/7");
    for other in ["shop://orders/7", "/orders/7", "mailto:a@example.com"] {
        assert_eq!(sms("On its way", other), "On its way", "phones cannot open {other}");
    }
    // A character beyond GSM 7 bit would halve the length of a segment.
    assert_eq!(sms("Grüße", "https://a.example/ü`"), "Grüße\nhttps://a.example/%C3%BC%60");
}

#[test]
fn a_link_that_would_make_an_sms_too_long_is_left_out() {
    let url = format!("https://a.example/{}", "x".repeat(133));
    // Ten segments of 153 septets.
    let fits = "a".repeat(1_530 - url.len() - 1);
    assert_eq!(sms(&fits, &url), format!("{fits}\n{url}"));
    let exceeds = format!("{fits}a");
    assert_eq!(sms(&exceeds, &url), exceeds);
}

#[test]
fn an_override_replaces_the_layout_and_a_subject_does_not() {
    let send = |email: Value| json!({"notification": {"title": "Title", "message": "Message"}, "override": {"channel": {"email": email}}});
    let own = email(&send(json!({"html": "<p>own</p>"})), None);
    assert_eq!((own.text, own.html.as_deref()), (None, Some("<p>own</p>")));
    let subject = email(&send(json!({"subject": "Own"})), None);
    assert_eq!(subject.subject, "Own");
    let html = subject.html.unwrap();
    assert!(html.contains("<h1") && html.contains(">Title</h1>") && html.contains(">Message</p>"), "{html}");
}

#[test]
fn emails_with_copies_have_no_unsubscribe_link() {
    let html = "<a href='{{ unsubscribe }}'>{{ url }}";
    let texts = json!({"subject": "{{ title }}", "text": "{{ unsubscribe }}", "html": html});
    let layout = Template::compile(&json!({"email": texts})).unwrap();
    let send = |options: Value| json!({"notification": {"title": "Title", "message": "Message"}, "override": {"channel": {"email": options}}});
    let alone = send(json!({"replyTo": "help@example.com"}));
    let laid_out = email(&alone, Some(&layout));
    assert_eq!(laid_out.text.as_deref(), Some(UNSUBSCRIBE_SLOT));
    assert_eq!(laid_out.html, Some(format!("<a href='{UNSUBSCRIBE_SLOT}'>")));
    assert!(email(&alone, None).html.unwrap().contains(UNSUBSCRIBE_SLOT));
    for copies in [json!({"cc": ["bob@example.com"]}), json!({"bcc": ["bob@example.com"]})] {
        assert_eq!(email(&send(copies.clone()), Some(&layout)).text.as_deref(), Some(""));
        assert!(!email(&send(copies), None).html.unwrap().contains(UNSUBSCRIBE_SLOT));
    }
}
