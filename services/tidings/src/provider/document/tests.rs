#![allow(clippy::unwrap_used)]
use std::pin::Pin;
use std::time::Duration;

use domain::Answer;
use serde_json::json;
use worker::Probe;

use super::*;

fn document(settings: &Value) -> Value {
    json!({"identifier": "main", "channel": "email", "kind": "smtp", "settings": settings})
}

fn settings() -> Value {
    json!({"host": "mail.example.com", "port": 587, "security": "starttls", "from": "shop@example.com"})
}

fn with(mut settings: Value, members: &Value) -> Value {
    settings.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    settings
}

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn complete(document: Value, kept: Value) -> Result<ProviderDocument, Vec<Problem>> {
    Draft::read(document).and_then(|draft| draft.complete(&object(kept)))
}

fn fields(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.field.as_str()).collect()
}

/// A kind with secrets on two levels of its settings. The secret `token` is required.
struct Nested;

impl Kind for Nested {
    fn name(&self) -> &'static str {
        "nested"
    }

    fn secrets(&self) -> &'static [&'static str] {
        &["token", "dkim.privateKey"]
    }

    fn example(&self) -> &'static str {
        "{}"
    }

    fn check(&self, settings: &Value) -> Result<(), Vec<Problem>> {
        let missing = |field: &str| Problem::new(field, "required", format!("{field} is required"));
        let mut problems = Vec::new();
        if settings["token"].is_null() {
            problems.push(missing("settings.token"));
        }
        if settings.get("dkim").is_some() && settings["dkim"]["privateKey"].is_null() {
            problems.push(missing("settings.dkim.privateKey"));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn longest_call(&self) -> Option<Duration> {
        None
    }

    fn probe<'a>(
        &'a self,
        _: &'a Probe<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<String, Answer>> + Send + 'a>> {
        Box::pin(async { Ok(String::new()) })
    }
}

fn nested(settings: Value, kept: Value) -> Result<ProviderDocument, Vec<Problem>> {
    let draft = Draft {
        channel: Channel::Email,
        kind: &Nested,
        identifier: Some("main".to_owned()),
        max_per_second: None,
        priority: 1,
        enabled: true,
        settings: object(settings),
        problems: Vec::new(),
    };
    draft.complete(&object(kept))
}

#[test]
fn secrets_are_taken_out_of_the_settings() {
    let given = with(settings(), &json!({"username": "shop", "password": "hunter2"}));
    let read = complete(document(&given), json!({"password": "old"})).unwrap();
    assert_eq!(read.settings, with(settings(), &json!({"username": "shop"})));
    assert_eq!(Value::Object(read.secrets), json!({"password": "hunter2"}));
    assert_eq!((read.given, read.kept), (vec!["password"], vec![]));
    assert_eq!((read.priority, read.enabled), (10, true));
}

#[test]
fn an_absent_secret_keeps_the_old_one_and_null_removes_it() {
    let absent = with(settings(), &json!({"username": "shop"}));
    let read = complete(document(&absent), json!({"password": "old"})).unwrap();
    assert_eq!((Value::Object(read.secrets), read.kept), (json!({"password": "old"}), vec!["password"]));
    assert_eq!(fields(&complete(document(&absent), json!({})).err().unwrap()), ["settings.password"]);

    let removed = with(settings(), &json!({"password": null}));
    let read = complete(document(&removed), json!({"password": "old"})).unwrap();
    assert!(read.secrets.is_empty() && read.kept.is_empty());
    assert_eq!(read.settings, settings());
}

#[test]
fn secrets_in_objects_are_kept_separately_and_removed_with_their_object() {
    let kept = json!({"token": "t", "dkim": {"privateKey": "k"}});
    let read = nested(json!({"dkim": {"selector": "s"}}), kept.clone()).unwrap();
    assert_eq!(
        (Value::Object(read.secrets), read.settings),
        (kept.clone(), json!({"dkim": {"selector": "s"}}))
    );

    let read = nested(json!({"token": "new", "dkim": {"selector": "s"}}), kept.clone()).unwrap();
    assert_eq!(Value::Object(read.secrets), json!({"token": "new", "dkim": {"privateKey": "k"}}));
    assert_eq!((read.given, read.kept), (vec!["token"], vec!["dkim.privateKey"]));

    let read = nested(json!({"host": "h"}), kept.clone()).unwrap();
    assert_eq!(Value::Object(read.secrets), json!({"token": "t"}));

    let problems = nested(json!({"token": null, "dkim": {"privateKey": null}}), kept).err().unwrap();
    assert_eq!(fields(&problems), ["settings.token", "settings.dkim.privateKey"]);
}

#[test]
fn all_problems_are_reported_at_once() {
    let wrong = json!({
        "identifier": "", "channel": "email", "kind": "smtp", "priority": 1.5, "enabled": "yes", "prio": 1,
        "settings": {"host": "mail.example.com", "port": 0, "security": "ssl", "from": "nobody", "username": "u"},
    });
    let problems = complete(wrong, json!({})).err().unwrap();
    let fields = fields(&problems);
    let expected =
        ["identifier", "priority", "enabled", "prio", "settings.port", "settings.security", "settings.from"];
    for field in expected {
        assert!(fields.contains(&field), "{field} is missing in {fields:?}");
    }
    assert!(
        !fields.contains(&"settings.password"),
        "the kept secrets are not read if the document has other problems"
    );
    assert!(Draft::read(json!([1])).is_err());
}

#[test]
fn an_unknown_kind_is_refused_with_a_list_of_the_known_ones() {
    let unknown = json!({"identifier": "main", "channel": "sms", "kind": "pigeon", "settings": {}});
    let problems = Draft::read(unknown).err().unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].message.contains("the known ones are: email/smtp"), "{}", problems[0].message);
}

#[test]
fn a_shown_provider_can_be_set_again() {
    let mut shown = document(&settings());
    shown["hasSecret"] = json!(false);
    shown["version"] = json!(3);
    shown["updatedAt"] = json!("2027-01-31T09:00:00Z");
    assert!(complete(shown, json!({})).is_ok());
}
