use domain::Outcome;
use serde_json::{Value, json};
use sms::KINDS;

use crate::fixture::{Line, TO, assert_answer};

fn problems(kind: &str, settings: &Value) -> Vec<(String, &'static str)> {
    let kind = KINDS.iter().find(|known| known.name() == kind).unwrap();
    let problems = kind.check(settings).err().unwrap_or_default();
    problems.into_iter().map(|problem| (problem.field, problem.code)).collect()
}

#[track_caller]
fn assert_problems(kind: &str, settings: &Value, expected: &[(&str, &str)]) {
    let found = problems(kind, settings);
    let found: Vec<_> = found.iter().map(|(field, code)| (field.as_str(), *code)).collect();
    assert_eq!(found, expected, "{settings}");
}

#[test]
fn every_problem_of_a_twilio_account_is_reported_at_once() {
    assert_problems(
        "twilio",
        &json!({}),
        &[
            ("settings.accountSid", "required"),
            ("settings.authToken", "required"),
            ("settings.from", "required"),
        ],
    );
    assert_problems(
        "twilio",
        &json!({"accountSid": "AC1", "apiKey": "SK0123456789abcdef0123456789abcdef", "from": "much too long a name",
                "baseUrl": "ftp://example.com", "token": 1}),
        &[
            ("settings.accountSid", "invalid"),
            ("settings.apiSecret", "required"),
            ("settings.from", "invalid"),
            ("settings.baseUrl", "invalid"),
            ("settings.token", "unknown_member"),
        ],
    );
    assert_problems("twilio", &json!("x"), &[("settings", "invalid_type")]);
}

#[test]
fn every_problem_of_an_http_provider_is_reported_at_once() {
    assert_problems(
        "http",
        &json!({"url": "https://{to}.example.com/", "method": "DELETE", "headers": {"host": "x", "a": 1},
                "contentType": "text/plain", "from": "\u{1}", "successStatuses": [500], "idPointer": "id",
                "codes": {"x": "maybe", "y": "retry"}, "idempotent": "yes", "probeUrl": "https://u:p@example.com"}),
        &[
            ("settings.url", "invalid"),
            ("settings.method", "invalid"),
            ("settings.headers.a", "invalid_type"),
            ("settings.headers.host", "invalid"),
            ("settings.contentType", "invalid"),
            ("settings.body", "required"),
            ("settings.from", "invalid"),
            ("settings.successStatuses", "invalid"),
            ("settings.idPointer", "invalid"),
            ("settings.codes.x", "invalid"),
            ("settings.codePointer", "required"),
            ("settings.idempotent", "invalid_type"),
            ("settings.probeUrl", "invalid"),
        ],
    );
}

#[test]
fn a_body_template_must_be_valid_and_contain_recipient_and_text() {
    let with =
        |body: &str, media: &str| json!({"url": "https://example.com/", "body": body, "contentType": media});
    let json_media = "application/json";
    let form = "application/x-www-form-urlencoded";
    assert_problems("http", &with(r#"{"to":"{to}","text":"{text}"}"#, json_media), &[]);
    assert_problems("http", &with("to={to}&text={text}", form), &[]);
    for broken in [r#"{"to":{to},"text":"{text}"}"#, r#"{"to":"{to}","text":"{text}""#, "to={to}&text={text}"]
    {
        assert_problems("http", &with(broken, json_media), &[("settings.body", "invalid")]);
    }
    assert_problems("http", &with(r#"{"to":"{to}"}"#, json_media), &[("settings.body", "invalid")]);
    assert_problems("http", &with("text={text}", form), &[("settings.body", "invalid")]);
    let in_host = json!({"url": "https://example.com{to}/?t={text}", "method": "GET"});
    assert_problems("http", &in_host, &[("settings.url", "invalid")]);
}

#[test]
fn a_plaintext_secret_in_the_url_and_an_unknown_placeholder_are_refused() {
    let with = |url: &str, secrets: Value| {
        let body = r#"{"to":"{to}","text":"{text}","auth":"{secret:auth}"}"#;
        json!({"url": url, "body": body, "secrets": secrets})
    };
    let both = json!({"auth": "a", "key": "k"});
    assert_problems("http", &with("https://sms.example.com/?apikey={secret:key}", both.clone()), &[]);
    let shown = with("https://sms.example.com/?apikey=abc", both.clone());
    assert_problems("http", &shown, &[("settings.url", "secret_in_the_clear")]);
    let unknown = with("https://sms.example.com/?apikey={secret:kez}", both);
    assert_problems("http", &unknown, &[("settings.url", "unknown_secret")]);
    let odd = with("https://sms.example.com/", json!({"auth": "a\nb"}));
    assert_problems("http", &odd, &[("settings.secrets", "invalid")]);
}

#[test]
fn every_problem_of_a_message_centre_is_reported_at_once() {
    assert_problems(
        "smpp",
        &json!({"host": "smpp.example.com:2775", "port": 0, "security": "starttls", "caCertificate": "x",
                "systemId": "longer than fifteen", "password": "longer than eight", "window": 0,
                "enquireLinkSeconds": "30", "alphabet": "ascii", "concatenation": "sar", "receipts": 1}),
        &[
            ("settings.host", "invalid"),
            ("settings.port", "invalid"),
            ("settings.security", "invalid"),
            ("settings.caCertificate", "invalid"),
            ("settings.systemId", "too_long"),
            ("settings.password", "too_long"),
            ("settings.from", "required"),
            ("settings.window", "invalid"),
            ("settings.enquireLinkSeconds", "invalid_type"),
            ("settings.alphabet", "invalid"),
            ("settings.concatenation", "invalid"),
            ("settings.receipts", "invalid_type"),
        ],
    );
}

#[test]
fn no_problem_repeats_a_secret() {
    let canary = "canary\u{7}";
    for kind in KINDS {
        let settings: Value = kind.secrets().iter().map(|name| ((*name).to_owned(), json!(canary))).collect();
        let nested: Value =
            kind.secrets().iter().map(|name| ((*name).to_owned(), json!({"x": canary}))).collect();
        for settings in [settings, nested] {
            for problem in kind.check(&settings).unwrap_err() {
                assert!(!problem.message.contains("canary"), "{}", problem.message);
            }
        }
    }
}

#[tokio::test]
async fn unusable_settings_pause_the_provider() {
    for kind in ["twilio", "http", "smpp"] {
        assert_answer(
            &Line::new(kind, json!({})).send(TO, "Hello").await,
            &Outcome::PauseProvider,
            "settings",
        );
    }
    assert_answer(&Line::new("fax", json!({})).send(TO, "Hello").await, &Outcome::PauseProvider, "settings");
}
