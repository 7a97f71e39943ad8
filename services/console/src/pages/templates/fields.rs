//! The texts of a template, as fields of a form.

use domain::{Channel, Problem};
use serde_json::{Map, Value};

use crate::query::Pairs;
use crate::text;

/// Name, label and height of a field.
type Member = (&'static str, &'static str, u8);

const FIELDS: [(Channel, &[Member]); 5] = [
    (
        Channel::InApp,
        &[
            ("title", "Title", 1),
            ("message", "Message", 2),
            ("url", "Link", 1),
            ("icon", "Icon", 1),
            ("data", "Data, as a JSON object", 1),
            ("blocks", "Blocks, as a JSON list", 1),
        ],
    ),
    (Channel::Email, &[("subject", "Subject", 1), ("text", "Text part", 8), ("html", "HTML part", 16)]),
    (Channel::WebPush, PUSH),
    (Channel::MobilePush, PUSH),
    (Channel::Sms, &[("text", "Text", 2)]),
];
const PUSH: &[Member] =
    &[("title", "Title", 1), ("body", "Text", 2), ("url", "Link", 1), ("icon", "Icon", 1)];
/// Fields whose value is JSON.
const JSON: [&str; 2] = ["data", "blocks"];

const HTML: &str = "html";
const MJML: &str = "mjml";
/// Field with the language of the HTML part.
const MARKUP: &str = "email.markup";

/// A problem of a text, or a warning.
pub(crate) struct Remark {
    pub(crate) message: String,
    /// Field with the text, and the line in it.
    pub(crate) place: Option<(String, usize)>,
}

impl From<Problem> for Remark {
    fn from(problem: Problem) -> Remark {
        let mut names = problem.field.strip_prefix("channels.").unwrap_or_default().split('.');
        let (channel, member) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
        let member = if member == MJML { HTML } else { member };
        let is_field = FIELDS.iter().any(|(known, members)| {
            known.as_str() == channel && members.iter().any(|(known, ..)| *known == member)
        });
        let place = line_in(&problem.message).filter(|_| is_field);
        let place = place.map(|line| (format!("{channel}.{member}"), line));
        Remark { message: problem.message, place }
    }
}

impl From<String> for Remark {
    fn from(message: String) -> Remark {
        Remark { message, place: None }
    }
}

/// Returns the number of the line that a message names first.
fn line_in(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once(" line ")?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// A text of a channel.
#[derive(Clone, Debug)]
pub(crate) struct TextField {
    member: &'static str,
    /// Name in the form, such as `email.subject`.
    pub(crate) name: String,
    pub(crate) label: &'static str,
    /// Height in lines.
    pub(crate) rows: u8,
    pub(crate) value: String,
}

/// The texts of a channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelFields {
    channel: Channel,
    /// True if the HTML part of the email is written as MJML.
    pub(crate) is_mjml: bool,
    pub(crate) fields: Vec<TextField>,
}

impl ChannelFields {
    pub(crate) fn name(&self) -> &'static str {
        text::channel(self.channel)
    }

    /// Name of the channel in the API.
    pub(crate) fn identifier(&self) -> &'static str {
        self.channel.as_str()
    }

    pub(crate) fn is_used(&self) -> bool {
        self.fields.iter().any(|field| !field.value.is_empty())
    }

    /// Returns the channel without its empty fields; None if all are empty.
    pub(crate) fn filled(mut self) -> Option<ChannelFields> {
        self.fields.retain(|field| !field.value.is_empty());
        self.is_used().then_some(self)
    }

    /// Returns true if the channel can have a part in HTML or MJML.
    pub(crate) fn has_markup(&self) -> bool {
        self.channel == Channel::Email
    }

    /// Returns true if the channel has a part that is HTML.
    pub(crate) fn has_html(&self) -> bool {
        self.fields.iter().any(|field| field.member == HTML && !field.value.is_empty())
    }
}

fn fields(is_mjml: bool, value: impl Fn(Channel, &'static str) -> String) -> Vec<ChannelFields> {
    let of_channel = |(channel, members): &(Channel, &'static [Member])| {
        let is_mjml = is_mjml && *channel == Channel::Email;
        let field = |&(member, label, rows): &Member| TextField {
            member,
            name: format!("{channel}.{member}"),
            label: if is_mjml && member == HTML { "HTML part, as MJML" } else { label },
            rows,
            value: value(*channel, member),
        };
        ChannelFields { channel: *channel, is_mjml, fields: members.iter().map(field).collect() }
    };
    FIELDS.iter().map(of_channel).collect()
}

/// Returns the fields for the content of a version, as it was written.
pub(crate) fn of_version(channels: &Value) -> Vec<ChannelFields> {
    let is_mjml = channels["email"][MJML].is_string();
    let written = |member: &'static str| if is_mjml && member == HTML { MJML } else { member };
    fields(is_mjml, |channel, member| match &channels[channel.as_str()][written(member)] {
        Value::String(text) => text.clone(),
        Value::Object(object) if object.is_empty() => String::new(),
        Value::Array(items) if items.is_empty() => String::new(),
        Value::Null => String::new(),
        value => format!("{value:#}"),
    })
}

/// Returns the fields of a form.
pub(crate) fn of_form(form: &Pairs) -> Vec<ChannelFields> {
    let is_mjml = form.text(MARKUP) == Some(MJML);
    fields(is_mjml, |channel, member| text_of(form, &format!("{channel}.{member}")))
}

/// Returns a text of a form. Browsers send each line break as CR LF.
pub(crate) fn text_of(form: &Pairs, name: &str) -> String {
    form.raw(name).unwrap_or_default().replace("\r\n", "\n")
}

/// Returns the content by channel.
///
/// # Errors
/// Returns a problem for each value that is not JSON although it has to be.
pub(crate) fn channels(fields: &[ChannelFields]) -> Result<Value, Vec<Problem>> {
    let (mut channels, mut problems) = (Map::new(), Vec::new());
    for group in fields.iter().filter(|group| group.is_used()) {
        let mut content = Map::new();
        for field in group.fields.iter().filter(|field| !field.value.is_empty()) {
            let value = if JSON.contains(&field.member) {
                serde_json::from_str(&field.value).unwrap_or_else(|error| {
                    let path = format!("channels.{}", field.name);
                    let message = format!("{path} is not valid JSON: {error}");
                    problems.push(Problem::new(path, "invalid_json", message));
                    Value::Null
                })
            } else {
                Value::String(field.value.clone())
            };
            let member = if group.is_mjml && field.member == HTML { MJML } else { field.member };
            content.insert(member.to_owned(), value);
        }
        channels.insert(group.channel.as_str().to_owned(), Value::Object(content));
    }
    if problems.is_empty() { Ok(Value::Object(channels)) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn remarks_lead_to_their_lines() {
        for (field, message, place) in [
            (
                "channels.email.mjml",
                "channels.email.mjml has an error in line 12: x",
                Some(("email.html", 12)),
            ),
            ("channels.email.html", "channels.email.html line 3: the link", Some(("email.html", 3))),
            (
                "channels.inApp.data.a",
                "channels.inApp.data.a has an error in line 2",
                Some(("inApp.data", 2)),
            ),
            ("channels.sms", "channels.sms.text is required", None),
            ("identifier", "identifier has an error in line 2", None),
        ] {
            let remark = Remark::from(Problem::new(field, "x", message));
            assert_eq!(
                remark.place.as_ref().map(|(field, line)| (field.as_str(), *line)),
                place,
                "{message}"
            );
        }
    }

    #[test]
    fn mjml_has_the_field_of_the_html_part() {
        let content = json!({"email": {"subject": "Hi", "mjml": "<mjml></mjml>"}});
        assert_eq!(channels(&of_version(&content)).unwrap(), content);
        let form = "email.subject=Hi&email.html=%3Cp%3E&email.markup=";
        for (markup, member) in [("html", "html"), ("mjml", "mjml")] {
            let read = channels(&of_form(&Pairs::parse(&format!("{form}{markup}")))).unwrap();
            assert_eq!(read, json!({"email": {"subject": "Hi", member: "<p>"}}));
        }
    }

    #[test]
    fn a_form_returns_the_content_of_a_version() {
        let content = json!({
            "inApp": {"title": "Hi", "data": {"a": [1]}, "blocks": [{"b": null}]},
            "email": {"subject": "Hi", "text": "\none\r\ntwo"},
            "sms": {"text": "<b>"},
        });
        assert_eq!(channels(&of_version(&content)).unwrap(), content);
        let form = Pairs::parse(
            "email.subject=Hi&email.text=%0Done%0D%0Atwo&sms.text=+&inApp.data=%7B&inApp.title=",
        );
        let problems = channels(&of_form(&form)).unwrap_err();
        assert_eq!((problems.len(), problems[0].field.as_str()), (1, "channels.inApp.data"));
        let form = Pairs::parse("email.subject=Hi&email.text=one%0D%0Atwo");
        assert_eq!(
            channels(&of_form(&form)).unwrap(),
            json!({"email": {"subject": "Hi", "text": "one\ntwo"}})
        );
    }
}
