//! Forms for the documents of providers. A form is made from the example of the kind, and its content is checked like a document.

use std::collections::{BTreeMap, BTreeSet};

use domain::Problem;
use serde_json::{Deserializer, Map, Value, json};

use super::{KnownKind, secret_members};

/// Name of the field for settings that the example does not show.
pub const FURTHER: &str = "further";

/// Start of the comment of a setting that few providers need.
const OPTIONAL: &str = "optional";

/// A field of a form: one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormField {
    /// Path in the settings, such as `dkim.selector`.
    pub name: String,
    pub input: Input,
    /// Value in the example.
    pub sample: String,
    /// Comment in the example.
    pub note: String,
    pub is_secret: bool,
    /// True if settings without the member are not valid.
    pub is_required: bool,
    /// True if the example marks it as optional, or the object that contains it.
    pub is_optional: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Line,
    /// A text with line breaks, such as a key.
    Lines,
    Number,
    /// One of these words.
    Choice(Vec<String>),
    Switch,
    /// A text or number on each line.
    List,
    /// An object as JSON.
    Json,
}

impl KnownKind {
    /// Returns the fields of a form for the settings, in the order of the example.
    #[must_use]
    pub fn fields(&self) -> Vec<FormField> {
        let required = self.required();
        let (mut fields, mut inside): (_, Vec<(&str, bool)>) = (Vec::new(), Vec::new());
        for line in self.example.lines().map(str::trim) {
            if line.starts_with('}') {
                inside.pop();
                continue;
            }
            let Some((name, rest)) = line.strip_prefix('"').and_then(|line| line.split_once("\":")) else {
                continue;
            };
            let rest = rest.trim_start();
            if let Some(note) = rest.strip_prefix('{').filter(|members| !members.starts_with(['"', '}'])) {
                inside.push((name, note.trim().starts_with(OPTIONAL)));
                continue;
            }
            let mut values = Deserializer::from_str(rest).into_iter::<Value>();
            let Some(Ok(value)) = values.next() else { continue };
            let note = rest.get(values.byte_offset()..).unwrap_or_default();
            let note = note.trim_start_matches(',').trim();
            let outer = inside.iter().map(|(outer, _)| *outer);
            let path = outer.chain([name]).collect::<Vec<_>>().join(".");
            fields.push(FormField {
                input: input(&value, note),
                sample: written(&value),
                note: note.to_owned(),
                is_secret: self.secrets.contains(&path.as_str()),
                is_required: required.contains(&path),
                is_optional: note.starts_with(OPTIONAL) || inside.iter().any(|(_, is_optional)| *is_optional),
                name: path,
            });
        }
        fields
    }

    /// Returns the members that empty settings lack.
    fn required(&self) -> BTreeSet<String> {
        let problems = (self.check)(&json!({})).err().unwrap_or_default();
        let required = problems.iter().filter(|problem| problem.code == "required");
        required.filter_map(|problem| Some(problem.field.strip_prefix("settings.")?.to_owned())).collect()
    }

    /// Returns what the fields show for stored settings, without secrets. Settings without a field are in [`FURTHER`].
    #[must_use]
    pub fn shown(&self, settings: &Value) -> BTreeMap<String, String> {
        let mut rest = settings.as_object().cloned().unwrap_or_default();
        let mut shown = BTreeMap::new();
        for field in self.fields() {
            if let Some(value) = secret_members::take(&mut rest, &field.name) {
                shown.insert(field.name, written(&value));
            }
        }
        rest.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
        if !rest.is_empty() {
            shown.insert(FURTHER.to_owned(), format!("{:#}", Value::Object(rest)));
        }
        shown
    }

    /// Builds settings from a form. `typed` returns what a field contains, and `removed` names secrets that are removed. An empty secret
    /// stays as it is stored.
    ///
    /// # Errors
    /// Returns a problem for each field that is no JSON. All other rules are those of documents.
    pub fn settings(
        &self,
        typed: impl Fn(&str) -> Option<String>,
        removed: &[&str],
    ) -> Result<Map<String, Value>, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut settings = match typed(FURTHER).filter(|text| !text.trim().is_empty()) {
            None => Map::new(),
            Some(text) => match serde_json::from_str(&text) {
                Ok(Value::Object(further)) => further,
                _ => {
                    problems.push(not_json(FURTHER, "further settings"));
                    Map::new()
                }
            },
        };
        for field in self.fields() {
            let text = typed(&field.name).map(|text| text.replace("\r\n", "\n")).unwrap_or_default();
            if field.is_secret && removed.contains(&field.name.as_str()) {
                // Without its object, the secret is removed anyway.
                secret_members::put(&mut settings, &field.name, Value::Null);
            } else if field.input == Input::Switch {
                secret_members::put_deep(&mut settings, &field.name, json!(!text.is_empty()));
            } else if !text.trim().is_empty() {
                match value(&field, text.trim()) {
                    Some(value) => secret_members::put_deep(&mut settings, &field.name, value),
                    None => problems.push(not_json(&field.name, &field.name)),
                }
            }
        }
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    }
}

fn not_json(field: &str, what: &str) -> Problem {
    Problem::new(format!("settings.{field}"), "invalid", format!("{what} must be an object as JSON"))
}

fn value(field: &FormField, text: &str) -> Option<Value> {
    let number = |text: &str| text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number));
    Some(match &field.input {
        Input::Line | Input::Choice(_) | Input::Lines => json!(text),
        Input::Switch => json!(true),
        Input::Number => number(text),
        Input::List => {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let has_numbers = field.sample.lines().all(|line| line.parse::<i64>().is_ok());
            lines.map(|line| if has_numbers { number(line) } else { json!(line) }).collect()
        }
        Input::Json => {
            let object: Value = serde_json::from_str(text).ok()?;
            object.is_object().then_some(object)?
        }
    })
}

fn input(value: &Value, note: &str) -> Input {
    match value {
        Value::Bool(_) => Input::Switch,
        Value::Number(_) => Input::Number,
        Value::Array(_) => Input::List,
        Value::Object(_) => Input::Json,
        _ => {
            let text = value.as_str().unwrap_or_default();
            let is_long =
                text.starts_with("-----BEGIN") || note.contains("PEM of") || note.contains("file of");
            match choices(text, note) {
                Some(words) => Input::Choice(words),
                None if is_long => Input::Lines,
                None => Input::Line,
            }
        }
    }
}

/// Reads a comment such as `optional: auto, plain or login; …`. The value of the example must be one of its words.
fn choices(sample: &str, note: &str) -> Option<Vec<String>> {
    let listed = note.strip_prefix("optional: ").unwrap_or(note).split(';').next()?;
    let (first, last) = listed.rsplit_once(" or ")?;
    let words: Vec<String> = first.split(", ").chain([last]).map(|word| word.trim().to_owned()).collect();
    (words.iter().any(|word| word == sample)).then_some(words)
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(written).collect::<Vec<_>>().join("\n"),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use domain::Channel;

    use super::*;

    fn kind() -> KnownKind {
        KnownKind {
            channel: Channel::Email,
            name: "pigeon",
            example: r#"{
              "host": "mail.example.com",
              "port": 587,
              "security": "tls",     none, starttls or tls; none is refused
              "token": "...",        stored encrypted
              "key": "-----BEGIN KEY-----\n...",   optional
              "headers": {"accept": "text/plain"},  optional
              "statuses": [200, 202],
              "from": ["@example.com"],
              "receipts": true,
              "dkim": {              optional: signs
                "selector": "a",
                "privateKey": "..."  stored encrypted
              }
            }"#,
            secrets: &["token", "dkim.privateKey"],
            check: Box::new(|settings| {
                let problem = Problem::new("settings.host", "required", "settings.host is required");
                if settings["host"].is_string() { Ok(()) } else { Err(vec![problem]) }
            }),
        }
    }

    fn typed(fields: &[(&str, &str)], removed: &[&str]) -> Result<Value, Vec<Problem>> {
        let find =
            |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        kind().settings(find, removed).map(Value::Object)
    }

    #[test]
    fn the_fields_are_those_of_the_example() {
        let fields = kind().fields();
        let inputs: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.input.clone())).collect();
        let words = ["none", "starttls", "tls"].map(str::to_owned).into();
        let expected = [
            ("host", Input::Line),
            ("port", Input::Number),
            ("security", Input::Choice(words)),
            ("token", Input::Line),
            ("key", Input::Lines),
            ("headers", Input::Json),
            ("statuses", Input::List),
            ("from", Input::List),
            ("receipts", Input::Switch),
            ("dkim.selector", Input::Line),
            ("dkim.privateKey", Input::Line),
        ];
        assert_eq!(inputs, expected);
        let secrets: Vec<_> =
            fields.iter().filter(|field| field.is_secret).map(|field| &field.name).collect();
        assert_eq!(secrets, ["token", "dkim.privateKey"]);
        assert!(fields.iter().all(|field| field.is_required == (field.name == "host")));
        let optional: Vec<_> =
            fields.iter().filter(|field| field.is_optional).map(|field| &field.name).collect();
        assert_eq!(optional, ["key", "headers", "dkim.selector", "dkim.privateKey"]);
        assert_eq!(
            (fields[2].note.as_str(), fields[3].note.as_str()),
            ("none, starttls or tls; none is refused", "stored encrypted")
        );
    }

    #[test]
    fn what_is_shown_can_be_sent_again() {
        let settings = json!({
            "host": "a", "port": 1, "headers": {"x": "y"}, "statuses": [201], "from": ["a", "b"], "receipts": false,
            "dkim": {"selector": "s", "odd": 1}, "unlisted": [null],
        });
        let shown = kind().shown(&settings);
        assert_eq!((shown["from"].as_str(), shown["dkim.selector"].as_str()), ("a\nb", "s"));
        let fields: Vec<_> = shown.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let fields: Vec<_> = fields.into_iter().filter(|field| *field != ("receipts", "false")).collect();
        assert_eq!(typed(&fields, &[]).unwrap(), settings);
    }

    #[test]
    fn empty_fields_are_left_out_and_malformed_ones_are_named() {
        let expected = json!({"host": "h", "receipts": false, "port": "x"});
        assert_eq!(typed(&[("host", " h "), ("port", "x"), ("token", " ")], &[]).unwrap(), expected);
        let removed = typed(&[("dkim.selector", "s")], &["token", "dkim.privateKey"]).unwrap();
        let dkim = json!({"selector": "s", "privateKey": null});
        assert_eq!((&removed["token"], &removed["dkim"]), (&Value::Null, &dkim));
        let problems = typed(&[("headers", "{"), (FURTHER, "[]")], &[]).unwrap_err();
        let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, ["settings.further", "settings.headers"]);
    }
}
