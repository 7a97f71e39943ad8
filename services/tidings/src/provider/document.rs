//! A provider as an operator writes it.

use domain::fields::{Fields, check_plain_json};
use domain::{Channel, Problem};
use email::settings::{KIND, SECRETS, SmtpSettings};
use serde_json::{Map, Value};

/// Every kind of provider that can be set, by channel.
const KNOWN: &str = "email/smtp";
const DEFAULT_PRIORITY: i32 = 10;

/// A valid provider, its secrets apart from its settings.
#[derive(Debug)]
pub(super) struct ProviderDocument {
    pub(super) identifier: String,
    pub(super) channel: Channel,
    pub(super) kind: &'static str,
    pub(super) priority: i32,
    pub(super) enabled: bool,
    pub(super) settings: Value,
    pub(super) secret: Secret,
}

/// What a document says about the provider's secrets.
#[derive(PartialEq, Eq)]
pub(super) enum Secret {
    /// A JSON object of the members of `settings` that are secrets.
    Given(String),
    /// The settings need a secret and name none: the old one stays.
    Kept,
    /// The settings need none.
    Absent,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

impl ProviderDocument {
    /// Reads a document, or tells everything that is wrong with it.
    pub(super) fn read(value: Value) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        check_plain_json("", &value, &mut problems);
        let Some(mut fields) = Fields::open("", value, &mut problems) else {
            return Err(problems);
        };
        let identifier = fields.required_identifier("identifier", &mut problems);
        let known = channel_and_kind(&mut fields, &mut problems);
        let priority = priority(&mut fields, &mut problems);
        let enabled = enabled(&mut fields, &mut problems);
        let settings = fields.free_object("settings", &mut problems).unwrap_or_default();
        fields.finish(true, &mut problems);
        // What settings there are, nobody knows for an unknown kind.
        let Some((channel, kind)) = known else { return Err(problems) };
        let (settings, secret) = smtp(settings, &mut problems);
        match identifier {
            Some(identifier) if problems.is_empty() => {
                Ok(ProviderDocument { identifier, channel, kind, priority, enabled, settings, secret })
            }
            _ => Err(problems),
        }
    }

    /// The problem of a document that keeps a secret where there is none.
    pub(super) fn secret_missing(&self) -> Problem {
        let message = format!(
            "settings.{} is required: no secret is kept for provider {} yet",
            SECRETS.join(", settings."),
            self.identifier
        );
        Problem::new("settings", "required", message)
    }
}

fn channel_and_kind(fields: &mut Fields, problems: &mut Vec<Problem>) -> Option<(Channel, &'static str)> {
    let channel = fields.required_identifier("channel", problems);
    let kind = fields.required_identifier("kind", problems);
    let (channel, kind) = (channel?, kind?);
    if (channel.as_str(), kind.as_str()) == (Channel::Email.as_str(), KIND) {
        return Some((Channel::Email, KIND));
    }
    let message =
        format!("there is no provider of channel {channel:?} and kind {kind:?}; there are: {KNOWN}");
    problems.push(Problem::new("kind", "unknown", message));
    None
}

fn priority(fields: &mut Fields, problems: &mut Vec<Problem>) -> i32 {
    let Some(value) = fields.take("priority") else {
        return DEFAULT_PRIORITY;
    };
    value.as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or_else(|| {
        let message = format!("priority must be a whole number from {} to {}", i32::MIN, i32::MAX);
        problems.push(Problem::new("priority", "invalid_type", message));
        DEFAULT_PRIORITY
    })
}

fn enabled(fields: &mut Fields, problems: &mut Vec<Problem>) -> bool {
    let Some(value) = fields.take("enabled") else {
        return true;
    };
    value.as_bool().unwrap_or_else(|| {
        problems.push(Problem::new("enabled", "invalid_type", "enabled must be true or false"));
        true
    })
}

/// Checks the settings of an SMTP server, and takes the secrets out of them.
fn smtp(mut settings: Map<String, Value>, problems: &mut Vec<Problem>) -> (Value, Secret) {
    let is_given = |name: &&str| {
        settings.get(*name).is_some_and(|value| !matches!(value.as_str(), Some("")) && !value.is_null())
    };
    let given: Vec<&str> = SECRETS.iter().copied().filter(|name| is_given(name)).collect();
    let keeps = given.is_empty() && is_given(&"username");
    let mut complete = settings.clone();
    if keeps {
        // Stands for the secret that is kept, which is none of our business.
        complete.extend(SECRETS.iter().map(|name| ((*name).to_owned(), Value::from("kept"))));
    }
    if let Err(found) = SmtpSettings::parse(&Value::Object(complete)) {
        problems.extend(found);
    }
    let secrets: Map<String, Value> = given.iter().filter_map(|name| settings.remove_entry(*name)).collect();
    for name in SECRETS {
        settings.remove(*name);
    }
    let secret = match (secrets.is_empty(), keeps) {
        (false, _) => Secret::Given(Value::Object(secrets).to_string()),
        (true, true) => Secret::Kept,
        (true, false) => Secret::Absent,
    };
    (Value::Object(settings), secret)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
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

    #[test]
    fn secrets_are_taken_out_of_the_settings() {
        let given = with(settings(), &json!({"username": "shop", "password": "hunter2"}));
        let read = ProviderDocument::read(document(&given)).unwrap();
        assert_eq!(read.settings, with(settings(), &json!({"username": "shop"})));
        assert_eq!(read.secret, Secret::Given(r#"{"password":"hunter2"}"#.to_owned()));
        assert!(!format!("{read:?}").contains("hunter2"));
    }

    #[test]
    fn a_user_name_alone_keeps_the_secret_and_none_removes_it() {
        let kept = with(settings(), &json!({"username": "shop", "password": null}));
        assert_eq!(ProviderDocument::read(document(&kept)).unwrap().secret, Secret::Kept);
        let read = ProviderDocument::read(document(&settings())).unwrap();
        assert_eq!((read.secret, read.priority, read.enabled), (Secret::Absent, 10, true));
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let wrong = json!({
            "identifier": "", "channel": "email", "kind": "smtp", "priority": 1.5, "enabled": "yes", "prio": 1,
            "settings": {"host": "mail.example.com", "port": 0, "security": "ssl", "from": "nobody"},
        });
        let problems = ProviderDocument::read(wrong).unwrap_err();
        let fields: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
        let expected = [
            "identifier",
            "priority",
            "enabled",
            "prio",
            "settings.port",
            "settings.security",
            "settings.from",
        ];
        for field in expected {
            assert!(fields.contains(&field), "{field} is missing in {fields:?}");
        }
        assert!(ProviderDocument::read(json!([1])).is_err());
    }

    #[test]
    fn an_unknown_kind_is_answered_with_those_there_are() {
        let unknown = json!({"identifier": "main", "channel": "sms", "kind": "smtp", "settings": {}});
        let problems = ProviderDocument::read(unknown).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].message.ends_with("there are: email/smtp"), "{}", problems[0].message);
    }
}
