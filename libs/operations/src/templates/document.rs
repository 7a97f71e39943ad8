//! The JSON document of a template.

use domain::fields::{Fields, check_plain_json};
use domain::{Channel, Problem, TemplateProfile};
use serde_json::{Map, Value};
use store::control::template::NewTemplate;
use tokio::task::spawn_blocking;

use super::{Sample, mjml};

/// Maximum length of a name, in bytes.
const LONGEST_NAME: usize = 1024;
/// Maximum length of a text, in bytes.
const LONGEST_TEXT: usize = 512 * 1024;

/// A valid template.
#[derive(Debug)]
pub struct TemplateDocument {
    pub(super) identifier: String,
    pub(super) name: String,
    pub(super) category: Option<String>,
    /// Content by channel, without members that are null.
    pub(super) channels: Value,
    pub(super) mjml: Option<String>,
    pub(super) sample: Option<Sample>,
}

impl TemplateDocument {
    /// Identifier of the template, unique in its app.
    #[must_use]
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Content by channel. An email in MJML has the HTML that was compiled from it.
    #[must_use]
    pub fn channels(&self) -> &Value {
        &self.channels
    }

    /// Values with which the document was checked. They are not stored.
    #[must_use]
    pub fn sample(&self) -> Option<&Sample> {
        self.sample.as_ref()
    }

    pub(super) fn new_template(&self) -> NewTemplate<'_> {
        NewTemplate {
            identifier: &self.identifier,
            name: &self.name,
            category: self.category.as_deref(),
            channels: &self.channels,
            mjml: self.mjml.as_deref(),
        }
    }

    /// Like [`read`](Self::read), on a thread that may be busy for a while: compiling a long text can take seconds.
    ///
    /// # Errors
    /// Returns all problems of the document.
    pub async fn read_apart(value: Value, profile: TemplateProfile) -> Result<Self, Vec<Problem>> {
        let reading = spawn_blocking(move || TemplateDocument::read(value, profile)).await;
        reading.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot check a template");
            Err(vec![Problem::new("", "not_checked", "the template could not be checked; try again")])
        })
    }

    /// Reads a document, also one that was shown. Renders the sample with the part of the recipient that templates of the app see.
    ///
    /// # Errors
    /// Returns all problems of the document.
    pub fn read(value: Value, profile: TemplateProfile) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        check_plain_json("", &value, &mut problems);
        let Some(mut fields) = Fields::open("", value, &mut problems) else {
            return Err(problems);
        };
        let identifier = fields.required_identifier("identifier", &mut problems);
        let name = fields.string("name", LONGEST_NAME, &mut problems);
        let category = fields.identifier("category", &mut problems);
        let channels = fields.free_object("channels", &mut problems).unwrap_or_default();
        let sample = fields.free_object("sample", &mut problems).map(Sample::new);
        let seen = sample.clone().map(|sample| sample.seen(profile));
        for shown in ["id", "version"] {
            fields.take(shown);
        }
        fields.finish(true, &mut problems);
        let mut channels = valid_channels(channels, &mut problems);
        let mjml = mjml::compile(&mut channels, &mut problems);
        let channels = Value::Object(channels);
        if problems.iter().all(|problem| problem.code != "invalid_mjml")
            && channels != Value::Object(Map::new())
            && let Err(found) =
                planning::check(&channels).and_then(|()| planning::check_sample(&channels, seen.as_ref()))
        {
            let own = |problem| if mjml.is_some() { mjml::of_compiled(problem) } else { problem };
            problems.extend(found.into_iter().map(own));
        }
        match identifier {
            Some(identifier) if problems.is_empty() => {
                let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| identifier.clone());
                Ok(TemplateDocument { identifier, name, category, channels, mjml, sample })
            }
            _ => Err(problems),
        }
    }
}

/// Returns the channels whose content is valid, without null members. Reports the problems of the other channels.
fn valid_channels(mut channels: Map<String, Value>, problems: &mut Vec<Problem>) -> Map<String, Value> {
    channels.retain(|_, content| !content.is_null());
    if channels.is_empty() {
        let message =
            format!("channels must have content for at least one of {}", Channel::delivered_names());
        problems.push(Problem::new("channels", "required", message));
    }
    channels.retain(|name, content| {
        let before = problems.len();
        let path = format!("channels.{name}");
        match name.parse::<Channel>().ok().filter(|channel| channel.is_delivered()) {
            Some(channel) => check_content(channel, &path, content.clone(), problems),
            None => {
                let message = format!(
                    "{path} is not a channel of templates; expected one of {}",
                    Channel::delivered_names()
                );
                problems.push(Problem::new(path, "unknown_member", message));
            }
        }
        if let Value::Object(members) = content {
            members.retain(|_, member| !member.is_null());
        }
        problems.len() == before
    });
    channels
}

/// Checks the content of one channel. Rejects unknown members. Requires at least one member of each group of
/// alternatives, such as `text` or `html`.
fn check_content(channel: Channel, path: &str, content: Value, problems: &mut Vec<Problem>) {
    let Some(mut fields) = Fields::open(path, content, problems) else {
        return;
    };
    let (texts, needed): (&[&str], &[&[&str]]) = match channel {
        Channel::InApp => (&["title", "message", "icon", "url"], &[&["title", "message"]]),
        Channel::Email => (&["subject", "text", "html", "mjml"], &[&["subject"], &["text", "html", "mjml"]]),
        Channel::Sms => (&["text"], &[&["text"]]),
        _ => (&["title", "body", "icon", "url"], &[&["title", "body"]]),
    };
    let before = problems.len();
    let given: Vec<&str> = texts
        .iter()
        .copied()
        .filter(|name| fields.string(name, LONGEST_TEXT, problems).is_some_and(|text| !text.is_empty()))
        .collect();
    if channel == Channel::InApp {
        fields.free_object("data", problems);
        fields.array("blocks", problems);
    }
    fields.finish(true, problems);
    // Do not also report a member of the wrong type as missing.
    if problems.len() > before {
        return;
    }
    if given.contains(&"html") && given.contains(&"mjml") {
        let message = format!("{path}.html is compiled from {path}.mjml, so only one of them may be given");
        problems.push(Problem::new(format!("{path}.mjml"), "conflicting_members", message));
    }
    for group in needed.iter().filter(|group| !group.iter().any(|name| given.contains(name))) {
        let message = format!("{path}.{} is required", group.join(&format!(" or {path}.")));
        problems.push(Problem::new(path, "required", message));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn fields_of(problems: &[Problem]) -> Vec<&str> {
        problems.iter().map(|problem| problem.field.as_str()).collect()
    }

    #[test]
    fn a_document_is_read_without_its_nulls() {
        let given = json!({
            "identifier": "welcome",
            "category": null,
            "channels": {
                "inApp": {"title": "Hi {{ name }}", "icon": null, "data": {"a": 1}, "blocks": []},
                "email": {"subject": "Hi", "html": "<p>Hi</p>"},
                "sms": null,
            },
        });
        let read = TemplateDocument::read(given, TemplateProfile::All).unwrap();
        assert_eq!(
            (read.identifier.as_str(), read.name.as_str(), read.category),
            ("welcome", "welcome", None)
        );
        let kept = json!({
            "inApp": {"title": "Hi {{ name }}", "data": {"a": 1}, "blocks": []},
            "email": {"subject": "Hi", "html": "<p>Hi</p>"},
        });
        assert_eq!(read.channels, kept);
    }

    #[test]
    fn all_problems_of_the_shape_are_reported_at_once() {
        let wrong = json!({
            "name": 1,
            "kategory": "x",
            "channels": {
                "fax": {"text": "Hi"},
                "whatsapp": {"text": "Hi"},
                "inApp": {"title": ["Hi"], "blocks": {"a": 1}},
                "email": {"html": "<p>Hi</p>"},
                "sms": {"text": ""},
                "webPush": "Hi",
                "mobilePush": {"title": "Hi", "message": "no member here"},
            },
        });
        let problems = TemplateDocument::read(wrong, TemplateProfile::All).unwrap_err();
        let found = fields_of(&problems);
        for field in [
            "identifier",
            "name",
            "kategory",
            "channels.fax",
            "channels.whatsapp",
            "channels.inApp.title",
            "channels.inApp.blocks",
            "channels.email",
            "channels.sms",
            "channels.webPush",
            "channels.mobilePush.message",
        ] {
            assert!(found.contains(&field), "{field} is missing in {found:?}");
        }
    }

    #[test]
    fn mjml_is_compiled_and_kept() {
        let mjml = "<mjml>\n<mj-body><mj-raw>{{ a }}</mj-raw></mj-body></mjml>";
        let read = |email: Value| {
            let document = json!({"identifier": "x", "channels": {"email": email}});
            TemplateDocument::read(document, TemplateProfile::All)
        };
        let document = read(json!({"subject": "Hi", "mjml": mjml, "html": ""})).unwrap();
        let html = document.channels["email"]["html"].as_str().unwrap();
        assert!(
            html.contains("{{ a }}")
                && html.contains("</html>")
                && document.channels["email"]["mjml"].is_null()
        );
        assert_eq!(document.mjml.as_deref(), Some(mjml));
        let written = mjml::written(&document.channels, document.mjml.as_deref());
        assert_eq!(*written, json!({"email": {"subject": "Hi", "mjml": mjml}}));

        let both = read(json!({"subject": "Hi", "mjml": mjml, "html": "<p>"})).unwrap_err();
        assert_eq!(
            (both.len(), both[0].field.as_str(), both[0].code),
            (1, "channels.email.mjml", "conflicting_members")
        );
        let wrong = read(json!({"subject": "Hi", "mjml": "<mjml>\n<p></mjml>"})).unwrap_err();
        assert_eq!(fields_of(&wrong), ["channels.email.mjml"]);
        assert!(
            wrong[0].message.starts_with("channels.email.mjml has an error in line 2: "),
            "{}",
            wrong[0].message
        );
        let across = mjml
            .replace("{{ a }}", "{% if a %}<p>{% endif %}</p>")
            .replace("<mj-raw>", "<mj-raw><!-- {% raw %} -->");
        let across = read(json!({"subject": "Hi", "mjml": across})).unwrap_err();
        assert_eq!(fields_of(&across), ["channels.email.mjml"]);
    }

    #[test]
    fn a_template_without_content_or_with_wrong_syntax_is_refused() {
        let empty = TemplateDocument::read(
            json!({"identifier": "x", "channels": {"sms": null}}),
            TemplateProfile::All,
        )
        .unwrap_err();
        assert_eq!(fields_of(&empty), ["channels"]);
        let broken = json!({"identifier": "x", "channels": {"sms": {"text": "one\ntwo {{ name"}}});
        let problems = TemplateDocument::read(broken, TemplateProfile::All).unwrap_err();
        assert!(problems.iter().any(|problem| problem.message.contains("line 2")), "{problems:?}");
    }
}
