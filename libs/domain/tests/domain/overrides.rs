//! Tests of how `override` is read and validated.

use domain::Channel;
use domain::request::{
    MAX_COPIES, MAX_EMAIL_PART, MAX_HEADER_VALUE, MAX_HEADERS, MAX_PROVIDER_OVERRIDES, SendRules,
};
use serde_json::{Map, Value, json};

use crate::request::{body, parsed, problems, rules};

fn with(overrides: Value) -> Value {
    let mut with = body(json!({}));
    with["override"] = overrides;
    with
}

#[test]
fn the_overrides_of_a_send_are_read() {
    let send = parsed(with(json!({
        "channels": ["email", "sms"],
        "channel": {
            "email": {
                "from": "shop@example.com", "fromName": "Der Laden", "replyTo": "hilfe@bücher.example", "cc": "cyd@example.com",
                "bcc": ["archive@example.com"], "subject": "Unterwegs", "html": "<p>ä</p>", "headers": {"X-Order": "7", "x-None": null},
            },
            "sms": {"text": "Unterwegs", "from": "Laden"},
            "mobilePush": {"title": "t", "body": "b", "icon": "i", "url": "u", "data": {"x": 1}, "ttl": 60, "android": {"priority": "high"}, "sound": null},
            "webPush": {"urgency": "high"},
        },
        "main": {"_config": {"from": "a@example.com", "fromName": "A", "replyTo": "b@example.com"}, "tag": "orders"},
    })))
    .send;
    assert_eq!(send.channels, Some(vec![Channel::Email, Channel::Sms]));
    let overrides = &send.overrides;
    let email = overrides.email().unwrap();
    assert_eq!((email.subject.as_deref(), email.text.as_deref()), (Some("Unterwegs"), None));
    let options = &email.options;
    assert_eq!(options.reply_to.as_deref(), Some("hilfe@bücher.example"));
    assert_eq!(
        (&options.cc[..], &options.bcc[..]),
        (&["cyd@example.com".into()][..], &["archive@example.com".into()][..])
    );
    assert_eq!(json!(options.headers), json!({"X-Order": "7"}));
    assert_eq!(overrides.sms.as_ref().unwrap().from.as_deref(), Some("Laden"));
    let push = overrides.push(Channel::MobilePush).unwrap();
    assert_eq!((push.title.as_deref(), push.url.as_deref()), (Some("t"), Some("u")));
    assert_eq!(json!(push.data), json!({"x": 1}));
    assert_eq!(json!(push.options), json!({"ttl": 60, "android": {"priority": "high"}}));
    assert_eq!(json!(overrides.push(Channel::WebPush).unwrap().options), json!({"urgency": "high"}));
    assert_eq!(json!(overrides.providers["main"]["tag"]), json!("orders"));

    let text = serde_json::to_string(&send).unwrap();
    assert_eq!(serde_json::from_str::<domain::SendRequest>(&text).unwrap(), send);
    assert!(!serde_json::to_string(&parsed(body(json!({}))).send).unwrap().contains("overrides"));
}

#[test]
fn each_problem_of_an_email_override_names_its_field() {
    let email = |members: Value| json!({"channel": {"email": members}});
    let header = |name: &str, value: &str| email(json!({"headers": {name: value}}));
    let addresses = |count: usize| json!((0..count).map(|n| format!("u{n}@example.com")).collect::<Vec<_>>());
    let headers: Map<_, _> = (0..=MAX_HEADERS).map(|n| (format!("X-{n}"), json!("x"))).collect();
    let e = "override.channel.email";
    let cases = [
        (json!({"channel": {"email": 1}}), e.to_owned(), "invalid_type"),
        (email(json!({"from": "Shop <a@b.c>"})), format!("{e}.from"), "invalid_address"),
        (email(json!({"from": 1})), format!("{e}.from"), "invalid_type"),
        (email(json!({"replyTo": "a@b.c\r\nBcc: x@y.z"})), format!("{e}.replyTo"), "invalid_address"),
        (email(json!({"fromName": "A\nB"})), format!("{e}.fromName"), "invalid_character"),
        (email(json!({"fromName": ""})), format!("{e}.fromName"), "empty"),
        (email(json!({"subject": "A\r\nBcc: x@y.z"})), format!("{e}.subject"), "invalid_character"),
        (email(json!({"html": "x".repeat(MAX_EMAIL_PART + 1)})), format!("{e}.html"), "too_long"),
        (email(json!({"cc": ["a@b.c", "a"]})), format!("{e}.cc[1]"), "invalid_address"),
        (email(json!({"cc": addresses(MAX_COPIES + 1)})), format!("{e}.cc"), "too_many"),
        (email(json!({"cc": addresses(30), "bcc": addresses(21)})), format!("{e}.cc"), "too_many"),
        (email(json!({"headers": headers})), format!("{e}.headers"), "too_many"),
        (email(json!({"headers": {"X-A": 1}})), format!("{e}.headers.X-A"), "invalid_type"),
        (email(json!({"headers": {"X-A": "1", "x-a": "2"}})), format!("{e}.headers.x-a"), "repeated"),
        (header("X-A", "b\r\nBcc: x@y.z"), format!("{e}.headers.X-A"), "invalid_character"),
        (header("X-A", &"x".repeat(MAX_HEADER_VALUE + 1)), format!("{e}.headers.X-A"), "too_long"),
        (header("X A", "b"), format!("{e}.headers.X A"), "invalid_character"),
        (header("X-A:", "b"), format!("{e}.headers.X-A:"), "invalid_character"),
        (header("X-Ä", "b"), format!("{e}.headers.X-Ä"), "invalid_character"),
        (header("", "b"), format!("{e}.headers."), "invalid_character"),
        (header("Message-ID", "<a@b>"), format!("{e}.headers.Message-ID"), "not_allowed"),
        (header("BCC", "a@b.c"), format!("{e}.headers.BCC"), "not_allowed"),
        (header("Content-Type", "text/html"), format!("{e}.headers.Content-Type"), "not_allowed"),
        (header("List-Unsubscribe", "<https://x>"), format!("{e}.headers.List-Unsubscribe"), "not_allowed"),
    ];
    for (overrides, field, code) in cases {
        assert_eq!(problems(with(overrides.clone()), rules()), [(field, code)], "{overrides}");
    }
}

#[test]
fn each_problem_of_overrides_for_other_channels_and_providers_names_its_field() {
    let cases = [
        (
            json!({"channel": {"sms": {"from": "a\tb"}}}),
            "override.channel.sms.from".into(),
            "invalid_character",
        ),
        (
            json!({"channel": {"webPush": {"ttl": "soon"}}}),
            "override.channel.webPush.ttl".into(),
            "invalid_type",
        ),
        (
            json!({"channel": {"webPush": {"urgency": "urgent"}}}),
            "override.channel.webPush.urgency".into(),
            "unknown_value",
        ),
        (
            json!({"channel": {"webPush": {"title": 1}}}),
            "override.channel.webPush.title".into(),
            "invalid_type",
        ),
        (json!({"main": "x"}), "override.main".into(), "invalid_type"),
        (json!({"main": {"_config": 1}}), "override.main._config".into(), "invalid_type"),
        (
            json!({"main": {"_config": {"host": "evil.example"}}}),
            "override.main._config.host".into(),
            "not_allowed",
        ),
        (
            json!({"main": {"_config": {"password": null}}}),
            "override.main._config.password".into(),
            "not_allowed",
        ),
        (
            json!({"main": {"_config": {"from": "a\nb"}}}),
            "override.main._config.from".into(),
            "invalid_character",
        ),
        (
            json!({"main": {"_config": {"replyTo": "a"}}}),
            "override.main._config.replyTo".into(),
            "invalid_address",
        ),
        (json!({"main": {"x": "x".repeat(MAX_PROVIDER_OVERRIDES)}}), "override".into(), "too_long"),
        (json!({"a\nb": {}}), "override.a\nb".into(), "invalid_character"),
    ];
    for (overrides, field, code) in cases {
        assert_eq!(problems(with(overrides.clone()), rules()), [(field, code)], "{overrides}");
    }
}

#[test]
fn several_problems_are_reported_together_and_never_quote_the_request() {
    let overrides = json!({
        "channel": {"email": {"from": "secret-address", "cc": ["secret-copy"], "headers": {"X-A": "secret\nvalue"}}},
        "main": {"_config": {"apiKey": "secret-key"}},
    });
    let unsound = domain::request::parse_send(with(overrides), rules()).unwrap_err();
    assert_eq!(unsound.problems.len(), 4);
    assert!(unsound.problems.iter().all(|problem| !problem.message.contains("secret")), "{unsound:?}");
}

#[test]
fn strict_handling_finds_unknown_members_of_channels() {
    let strict = SendRules { strict: true, ..rules() };
    let overrides = json!({"channel": {"email": {"form": "a@b.c"}, "sms": {"txt": "x"}, "inApp": {}, "webPush": {"anything": 1}}});
    parsed(with(overrides.clone()));
    let unknown = |field: &str| (format!("override.channel.{field}"), "unknown_member");
    assert_eq!(
        problems(with(overrides), strict),
        [unknown("email.form"), unknown("sms.txt"), unknown("inApp")]
    );
}

#[test]
fn a_channel_has_content_if_the_override_suffices() {
    let offers = |channel: Value, title: Option<&str>| -> Vec<Channel> {
        let overrides = parsed(with(json!({"channel": channel}))).send.overrides;
        Channel::EXTERNAL.into_iter().filter(|channel| overrides.offers(*channel, title)).collect()
    };
    assert_eq!(offers(json!({"email": {"subject": "s"}}), Some("t")), []);
    assert_eq!(offers(json!({"email": {"text": "x"}}), None), []);
    assert_eq!(offers(json!({"email": {"text": "x"}}), Some("t")), [Channel::Email]);
    assert_eq!(offers(json!({"email": {"subject": "s", "html": "x"}}), None), [Channel::Email]);
    assert_eq!(offers(json!({"sms": {"from": "x"}, "webPush": {"ttl": 1}}), Some("t")), []);
    let all = json!({"sms": {"text": "x"}, "webPush": {"title": "x"}, "mobilePush": {"body": "x"}});
    assert_eq!(offers(all, None), [Channel::WebPush, Channel::MobilePush, Channel::Sms]);
}

#[test]
fn headers_that_control_a_relay_are_refused() {
    for name in [
        "X-SMTPAPI",
        "x-smtpapi",
        "X-MC-BccAddress",
        "X-SES-CONFIGURATION-SET",
        "X-Mailgun-Deliver-By",
        "X-PM-Message-Stream",
        "X-MSYS-API",
        "X-Mailjet-TrackOpen",
        "X-MJ-CustomID",
        "X-MS-Exchange-Organization-SCL",
    ] {
        let send = with(json!({"channel": {"email": {"headers": {name: "a"}}}}));
        let field = format!("override.channel.email.headers.{name}");
        assert_eq!(problems(send, rules()), [(field, "not_allowed")]);
    }
    for name in ["X-Order", "X-Mailer", "X-Campaign", "X-SMTP"] {
        parsed(with(json!({"channel": {"email": {"headers": {name: "a"}}}})));
    }
}

#[test]
fn a_header_name_that_a_server_unstuffs_into_another_is_refused() {
    for name in
        [".X-SMTPAPI", ".From", ".Bcc", ".Sender", ".Subject", ".List-Unsubscribe", ".", "..To", "X_A", "-A"]
    {
        let send = with(json!({"channel": {"email": {"headers": {name: "a"}}}}));
        let field = format!("override.channel.email.headers.{name}");
        assert_eq!(problems(send, rules()), [(field, "invalid_character")]);
    }
}

#[test]
fn a_link_that_clients_must_not_open_is_named_by_its_field() {
    let send = |icon: &str, url: &str| {
        let push = json!({"icon": icon, "url": url});
        let mut send = with(json!({"channel": {"mobilePush": push, "webPush": push}}));
        send["notification"] = json!({"title": "Hi", "icon": icon, "url": url});
        send
    };
    for (icon, url) in
        [("bell", "orders/7"), ("data:image/png;base64,AA", "shop-app://7"), ("/i.png", "mailto:a@b.c")]
    {
        let sound = parsed(send(icon, url)).send;
        assert_eq!((sound.content.icon.as_deref(), sound.content.url.as_deref()), (Some(icon), Some(url)));
    }
    let fields = ["notification", "override.channel.mobilePush", "override.channel.webPush"];
    for (icon, url) in [
        ("javascript:alert(1)", " JavaScript:alert(1)"),
        ("data:text/html,x", "data:image/png;base64,AA"),
        ("file:///etc/passwd", "java\tscript:alert(1)"),
    ] {
        let mut found = problems(send(icon, url), rules());
        found.sort();
        let mut expected: Vec<_> = fields
            .iter()
            .flat_map(|field| ["icon", "url"].map(|member| (format!("{field}.{member}"), "invalid_link")))
            .collect();
        expected.sort();
        assert_eq!(found, expected);
    }
}
