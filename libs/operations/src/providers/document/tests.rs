use std::sync::LazyLock;

use domain::settings::SettingsReader;
use serde_json::json;

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
    Draft::read(kinds(), document).and_then(|draft| draft.complete(&object(kept)))
}

fn fields(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.field.as_str()).collect()
}

/// Two kinds: one whose password is required with a user name, and one with secrets on two levels of its settings, of which
/// `token` is required.
fn kinds() -> &'static [KnownKind] {
    static KINDS: LazyLock<[KnownKind; 2]> = LazyLock::new(|| {
        let channel = Channel::Email;
        [
            KnownKind {
                channel,
                name: "smtp",
                example: "{}",
                secrets: &["password"],
                check: Box::new(check_smtp),
            },
            KnownKind {
                channel,
                name: "nested",
                example: "{}",
                secrets: &["token", "dkim.privateKey"],
                check: Box::new(check_nested),
            },
        ]
    });
    &*KINDS
}

fn check_smtp(settings: &Value) -> Result<(), Vec<Problem>> {
    let mut reader = SettingsReader::open(settings)?;
    let host = reader.host("host");
    reader.number("port", 1..=65_535);
    reader.choice("security", &[("none", ()), ("starttls", ())]);
    reader.text("from");
    if reader.text("username").is_some() {
        reader.required("password");
    } else {
        reader.text("password");
    }
    reader.finish(host).map(drop)
}

fn check_nested(settings: &Value) -> Result<(), Vec<Problem>> {
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

fn nested(settings: &Value, kept: Value) -> Result<ProviderDocument, Vec<Problem>> {
    complete(json!({"identifier": "main", "channel": "email", "kind": "nested", "settings": settings}), kept)
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
fn secrets_stay_with_the_server_for_which_they_were_given() {
    let stored = settings();
    let kept = json!({"password": "old", "dkim": {"privateKey": "k"}});
    let misdirected = |changed: &Value| {
        let draft = Draft::read(kinds(), document(&with(settings(), changed))).unwrap();
        let found = draft.misdirected(&stored, kept.as_object().unwrap());
        found.into_iter().map(|problem| (problem.field.clone(), problem.code)).collect::<Vec<_>>()
    };
    let again = [("settings.password".to_owned(), "required_again")];
    assert_eq!(misdirected(&json!({"host": "mail.attacker.example"})), again);
    assert_eq!(misdirected(&json!({"port": 2525})), again);
    assert_eq!(misdirected(&json!({"security": "none"})), again);
    assert_eq!(misdirected(&json!({"host": "mail.new.example", "password": "new"})), []);
    assert_eq!(misdirected(&json!({"from": "other@example.com"})), []);
}

#[test]
fn secrets_in_objects_are_kept_separately_and_removed_with_their_object() {
    let kept = json!({"token": "t", "dkim": {"privateKey": "k"}});
    let read = nested(&json!({"dkim": {"selector": "s"}}), kept.clone()).unwrap();
    assert_eq!(
        (Value::Object(read.secrets), read.settings),
        (kept.clone(), json!({"dkim": {"selector": "s"}}))
    );

    let read = nested(&json!({"token": "new", "dkim": {"selector": "s"}}), kept.clone()).unwrap();
    assert_eq!(Value::Object(read.secrets), json!({"token": "new", "dkim": {"privateKey": "k"}}));
    assert_eq!((read.given, read.kept), (vec!["token"], vec!["dkim.privateKey"]));

    let read = nested(&json!({"host": "h"}), kept.clone()).unwrap();
    assert_eq!(Value::Object(read.secrets), json!({"token": "t"}));

    let problems = nested(&json!({"token": null, "dkim": {"privateKey": null}}), kept).err().unwrap();
    assert_eq!(fields(&problems), ["settings.token", "settings.dkim.privateKey"]);
}

#[test]
fn all_problems_are_reported_at_once() {
    let wrong = json!({
        "identifier": "", "channel": "email", "kind": "smtp", "priority": 1.5, "enabled": "yes", "prio": 1,
        "settings": {"host": "mail.example.com", "port": 0, "security": "ssl", "username": "u"},
    });
    let problems = complete(wrong, json!({})).err().unwrap();
    let fields = fields(&problems);
    let expected = ["identifier", "priority", "enabled", "prio", "settings.port", "settings.security"];
    for field in expected {
        assert!(fields.contains(&field), "{field} is missing in {fields:?}");
    }
    assert!(
        !fields.contains(&"settings.password"),
        "the kept secrets are not read if the document has other problems"
    );
    assert!(Draft::read(kinds(), json!([1])).is_err());
}

#[test]
fn an_unknown_kind_is_refused_with_a_list_of_the_known_ones() {
    let unknown = json!({"identifier": "main", "channel": "sms", "kind": "pigeon", "settings": {}});
    let problems = Draft::read(kinds(), unknown).err().unwrap();
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
