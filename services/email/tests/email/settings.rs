use email::smtp::settings::{Security, SmtpSettings};
use serde_json::{Value, json};

fn problems(settings: &Value) -> Vec<(String, &'static str)> {
    let problems = SmtpSettings::parse(settings).expect_err("problems expected");
    problems.into_iter().map(|problem| (problem.field, problem.code)).collect()
}

#[test]
fn complete_settings_are_read() {
    let settings = SmtpSettings::parse(&json!({
        "host": "smtp.example.com", "port": 587, "security": "starttls", "username": "u", "password": "secret",
        "from": "news@example.com", "fromName": "Ada \"Countess\" Lovelace", "replyTo": null,
    }))
    .unwrap();
    assert_eq!((settings.host.as_str(), settings.port), ("smtp.example.com", 587));
    assert_eq!(settings.security, Security::StartTls);
    assert_eq!(settings.identity.from.email.to_string(), "news@example.com");
    assert!(settings.login.is_some() && settings.identity.reply_to.is_none());
    assert!(!format!("{settings:?}").contains("secret"));
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = problems(&json!({
        "host": "smtp.example.com:25", "port": 0, "security": "ssl", "password": "p", "from": "nobody",
        "fromName": "a\r\nBcc: b", "replyTo": 7, "user": "u", "ehloName": "a b",
    }));
    let expected = [
        ("settings.host", "invalid"),
        ("settings.port", "invalid"),
        ("settings.security", "invalid"),
        ("settings.ehloName", "invalid"),
        ("settings.username", "required"),
        ("settings.from", "invalid"),
        ("settings.fromName", "invalid"),
        ("settings.replyTo", "invalid_type"),
        ("settings.user", "unknown_member"),
    ];
    assert_eq!(found, expected.map(|(field, code)| (field.to_owned(), code)));
    let found = problems(&json!({
        "host": "h", "port": 25, "security": "none", "from": "a@example.com", "fromName": "x".repeat(256),
    }));
    assert_eq!(found, [("settings.fromName".to_owned(), "invalid")]);
    let found = problems(&json!({}));
    let expected =
        ["host", "port", "security", "from"].map(|member| (format!("settings.{member}"), "required"));
    assert_eq!(found, expected);
    assert_eq!(problems(&json!([])), [("settings".to_owned(), "invalid_type")]);
    let found = problems(&json!({
        "host": "h", "port": "25", "security": "none", "from": "a@example.com\r\nX: y", "username": "u\r\n", "password": "p\0",
    }));
    let expected = [
        ("settings.port", "invalid_type"),
        ("settings.username", "invalid"),
        ("settings.password", "invalid"),
        ("settings.from", "invalid"),
    ];
    assert_eq!(found, expected.map(|(field, code)| (field.to_owned(), code)));
}
