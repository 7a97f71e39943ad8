//! Warnings about a template that can be stored, but hardly does what its author wants.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Problem, TemplateProfile};
use serde_json::Value;

use super::preview::missing_in;
use super::{Sample, TemplateDocument, mjml};

/// Size from which mail programs cut an email, in bytes. Gmail cuts at 102 KB.
const LARGEST_HTML: usize = 102 * 1024;
/// Maximum number of warnings with the same code about a template.
const MOST_OF_A_KIND: usize = 50;
/// Attributes of HTML that load or open their value.
const LINKING: [&str; 4] = ["href", "src", "action", "background"];
/// Beginnings of images in HTML and MJML.
const IMAGES: [&str; 2] = ["<img", "<mj-image"];

/// Returns the warnings about the texts of a template: variables that the app hides, that only one part of the email uses, or that the sample
/// lacks; links without `https`; images without `alt`; and HTML that mail programs would cut. Returns at most 50 of each kind.
#[must_use]
pub fn warnings(
    document: &TemplateDocument,
    profile: TemplateProfile,
    sample: Option<&Sample>,
) -> Vec<Problem> {
    of_texts(&document.channels, document.mjml.as_deref(), profile, sample)
}

fn of_texts(
    channels: &Value,
    mjml: Option<&str>,
    profile: TemplateProfile,
    sample: Option<&Sample>,
) -> Vec<Problem> {
    let texts = Texts { all: mjml::written_texts(channels, mjml), channels, mjml };
    let mut warnings = texts.hidden_variables(profile);
    warnings.extend(texts.different_parts());
    if let Some(sample) = sample {
        warnings.extend(texts.missing_variables(profile, sample));
    }
    for (name, text) in &texts.all {
        warnings.extend(of_text(name, text));
    }
    let html = channels["email"]["html"].as_str().map_or(0, str::len);
    if html > LARGEST_HTML {
        let field = format!("channels.{}", mjml::written_name("email.html", mjml));
        let message =
            format!("{field} line 1: the HTML has {} KB; Gmail cuts emails after 102 KB", html / 1024);
        warnings.push(Problem::new(field, "large_html", message));
    }
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    warnings.retain(|warning| {
        let number = kinds.entry(warning.code).or_default();
        *number += 1;
        *number <= MOST_OF_A_KIND
    });
    warnings
}

fn of_text(name: &str, text: &str) -> Vec<Problem> {
    let is_html = ["email.html", "email.mjml"].contains(&name);
    let warning = |code: &'static str, line: usize, about: &str| {
        Problem::new(format!("channels.{name}"), code, format!("channels.{name} line {line}: {about}"))
    };
    let mut warnings = Vec::new();
    for line in lines_of(text, &insecure_links(text, is_html)) {
        let about = "the link is not https, so it can be read and changed on its way";
        warnings.push(warning("insecure_link", line, about));
    }
    if is_html {
        for line in lines_of(text, &images_without_alt(text)) {
            let about = "the image has no alt text, so some readers learn nothing about it";
            warnings.push(warning("image_without_alt", line, about));
        }
    }
    warnings
}

/// Texts of a template as their author wrote them, and what they are compiled to.
struct Texts<'a> {
    all: Vec<(String, String)>,
    channels: &'a Value,
    mjml: Option<&'a str>,
}

impl Texts<'_> {
    /// Returns the path of a text, and the line in which it names a variable.
    fn place(&self, name: &str, variable: &str) -> Option<(String, usize)> {
        let name = mjml::written_name(name, self.mjml);
        let (_, text) = self.all.iter().find(|(known, _)| known == name)?;
        Some((format!("channels.{name}"), line_of_variable(text, variable)))
    }

    fn missing_variables(&self, profile: TemplateProfile, sample: &Sample) -> Vec<Problem> {
        let warning = |(variable, name): (String, String)| {
            if variable.strip_prefix("recipient.").is_some_and(|key| !profile.shows(key)) {
                return None;
            }
            let (path, line) = self.place(&name, &variable)?;
            let message = format!("{path} line {line}: the sample has no {variable}, so it is empty");
            Some(Problem::new(path, "missing_in_sample", message))
        };
        let missing = missing_in(sample.clone(), self.channels, profile).into_iter();
        missing.filter_map(warning).take(MOST_OF_A_KIND).collect()
    }

    fn hidden_variables(&self, profile: TemplateProfile) -> Vec<Problem> {
        let mut warnings = Vec::new();
        for (name, variables) in &planning::variables(self.channels) {
            let of_profile = variables.iter().filter_map(|variable| variable.strip_prefix("recipient."));
            for key in of_profile.filter(|key| !profile.shows(key) && *key != "identifier") {
                if warnings.len() == MOST_OF_A_KIND {
                    return warnings;
                }
                let Some((path, line)) = self.place(name, &format!("recipient.{key}")) else { continue };
                let message = format!(
                    "{path} line {line}: recipient.{key} is empty, because templates of this app see only recipient.app, which its \
                     backend writes. Use recipient.app.{key}, or set template-profile=all"
                );
                warnings.push(Problem::new(path, "hidden_variable", message));
            }
        }
        warnings
    }

    fn different_parts(&self) -> Vec<Problem> {
        let texts = planning::variables(self.channels);
        let mut warnings = Vec::new();
        if let (Some(text), Some(html)) = (texts.get("email.text"), texts.get("email.html")) {
            for (has, lacks, name) in [(html, text, "email.text"), (text, html, "email.html")] {
                let missing: BTreeSet<_> = has.difference(lacks).map(String::as_str).collect();
                if !missing.is_empty() {
                    let missing = missing.into_iter().collect::<Vec<_>>().join(", ");
                    let path = format!("channels.{}", mjml::written_name(name, self.mjml));
                    let message = format!("{path} lacks {missing}, which the other part of the email has");
                    warnings.push(Problem::new(path, "parts_differ", message));
                }
            }
        }
        warnings
    }
}

/// Returns the number of the line, from 1.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the number of the line of each place, from 1. The places ascend, so each byte is read once.
fn lines_of(text: &str, places: &[usize]) -> Vec<usize> {
    let (mut line, mut from) = (1, 0);
    let number = |&at: &usize| {
        let passed = text.get(from..at).unwrap_or_default();
        line += passed.bytes().filter(|byte| *byte == b'\n').count();
        from = at;
        line
    };
    places.iter().map(number).collect()
}

fn line_of_variable(text: &str, variable: &str) -> usize {
    let first = variable.split('.').next().unwrap_or(variable);
    let at = text.find(variable).or_else(|| text.find(first));
    line(text, at.unwrap_or(0))
}

/// Returns the first places of links that begin with `http:`. HTML names many addresses that are no links, such as those of
/// namespaces.
fn insecure_links(text: &str, is_html: bool) -> Vec<usize> {
    let places = text.match_indices("http://").map(|(at, _)| at);
    let is_link = |at: &usize| !is_html || is_linked(text.get(..*at).unwrap_or_default());
    places.filter(is_link).take(MOST_OF_A_KIND).collect()
}

/// Returns true if HTML links to the address that follows.
fn is_linked(before: &str) -> bool {
    let before = before.trim_end_matches(['"', '\'', ' ', '(']);
    if before.ends_with("url") {
        return true;
    }
    let name = before.strip_suffix('=').unwrap_or_default().trim_end().as_bytes();
    LINKING.iter().any(|attribute| {
        let from = name.len().checked_sub(attribute.len());
        let end = from.and_then(|from| name.get(from..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(attribute.as_bytes()))
    })
}

/// Returns the first places of images without the attribute `alt`.
fn images_without_alt(html: &str) -> Vec<usize> {
    let mut places: Vec<_> = IMAGES.iter().flat_map(|image| without_alt(html, image)).collect();
    places.sort_unstable();
    places.truncate(MOST_OF_A_KIND);
    places
}

/// Returns the first places of a tag without the attribute `alt`. A tag ends before the next one at the latest, so each byte is read once.
fn without_alt(html: &str, image: &str) -> Vec<usize> {
    let lower = html.to_ascii_lowercase();
    let has_alt = |tag: &str| {
        let after_space = tag.split(char::is_whitespace).skip(1);
        after_space.into_iter().any(|attribute| attribute == "alt" || attribute.starts_with("alt="))
    };
    let mut pieces = lower.split(image);
    let mut next = pieces.next().map_or(0, str::len);
    let images = pieces.map(|piece| {
        let at = next;
        next += image.len() + piece.len();
        (at, piece.split('>').next().unwrap_or_default())
    });
    let lacking = images.filter(|(_, tag)| !has_alt(tag.trim_end_matches('/')));
    lacking.map(|(at, _)| at).take(MOST_OF_A_KIND).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn codes(channels: &Value, profile: TemplateProfile) -> Vec<(String, &'static str)> {
        of_texts(channels, None, profile, None)
            .into_iter()
            .map(|warning| (warning.field, warning.code))
            .collect()
    }

    #[test]
    fn hidden_variables_are_reported_only_if_the_app_hides_them() {
        let channels = json!({
            "inApp": {"title": "Hi {{ recipient.name }}"},
            "sms": {"text": "{% for o in orders %}{{ recipient.app.name }}{{ recipient.identifier }}{{ o.name }}{% endfor %}"},
        });
        assert_eq!(codes(&channels, TemplateProfile::All), []);
        let hidden = ("channels.inApp.title".to_owned(), "hidden_variable");
        assert_eq!(codes(&channels, TemplateProfile::App), [hidden]);
    }

    #[test]
    fn parts_of_an_email_that_use_different_variables_are_reported() {
        let email =
            |text: &str, html: &str| json!({"email": {"subject": "{{ order }}", "text": text, "html": html}});
        assert_eq!(codes(&email("{{ total }}", "<p>{{ total }}</p>"), TemplateProfile::All), []);
        let differ = |name: &str| (format!("channels.email.{name}"), "parts_differ");
        let found = codes(&email("{{ total }}{{ a }}", "<p>{{ total }} {{ b }}</p>"), TemplateProfile::All);
        assert_eq!(found, [differ("text"), differ("html")]);
    }

    #[test]
    fn a_variable_that_the_sample_lacks_is_reported_with_its_line() {
        let channels = json!({"sms": {"text": "Hi {{ recipient.app.name }}\nOrder {{ order.number }}"}});
        let sample = |value: Value| Sample::new(value.as_object().unwrap().clone());
        let whole = sample(json!({"order": {"number": 7}, "recipient": {"app": {"name": "Ada"}}}));
        assert_eq!(of_texts(&channels, None, TemplateProfile::App, Some(&whole)), []);
        let found = of_texts(&channels, None, TemplateProfile::App, Some(&sample(json!({"order": {}}))));
        let messages: Vec<_> = found.iter().map(|warning| warning.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "channels.sms.text line 2: the sample has no order.number, so it is empty",
                "channels.sms.text line 1: the sample has no recipient.app.name, so it is empty",
            ]
        );
    }

    #[test]
    fn links_images_and_sizes_of_an_email_are_checked() {
        let html = "<html xmlns=\"http://www.w3.org/1999/xhtml\">\n<a href='http://shop.example'>x</a>\n<img src=\"https://shop.example/a.png\">\n\
            <IMG alt='' src=a><img\nalt src=b><a href=https://shop.example>y</a>";
        let channels = json!({
            "email": {"subject": "Hi", "html": html},
            "webPush": {"title": "Hi", "url": "http://shop.example"},
        });
        let found = of_texts(&channels, None, TemplateProfile::All, None);
        let found: Vec<_> =
            found.iter().map(|warning| (warning.code, warning.message.split(':').next().unwrap())).collect();
        assert_eq!(
            found,
            [
                ("insecure_link", "channels.email.html line 2"),
                ("image_without_alt", "channels.email.html line 3"),
                ("insecure_link", "channels.webPush.url line 1"),
            ]
        );
        let large = json!({"email": {"subject": "Hi", "html": "x".repeat(LARGEST_HTML + 1)}});
        assert_eq!(codes(&large, TemplateProfile::All), [("channels.email.html".to_owned(), "large_html")]);
    }

    #[test]
    fn warnings_about_mjml_name_its_lines() {
        let mjml = "<mjml><mj-body>\n<mj-section><mj-column><mj-image src=\"http://a.example/b.png\" />\n<mj-text>{{ recipient.name }} {{ order }}</mj-text>\n\
            </mj-column></mj-section></mj-body></mjml>";
        let document =
            json!({"identifier": "x", "channels": {"email": {"subject": "Hi", "text": "Hi", "mjml": mjml}}});
        let document = TemplateDocument::read(document, TemplateProfile::App).unwrap();
        let found = warnings(&document, TemplateProfile::App, Some(&Sample::default()));
        let found: Vec<_> =
            found.iter().map(|warning| (warning.code, warning.message.split(':').next().unwrap())).collect();
        assert_eq!(
            found,
            [
                ("hidden_variable", "channels.email.mjml line 3"),
                (
                    "parts_differ",
                    "channels.email.text lacks order, recipient.name, which the other part of the email has"
                ),
                ("missing_in_sample", "channels.email.mjml line 3"),
                ("insecure_link", "channels.email.mjml line 2"),
                ("image_without_alt", "channels.email.mjml line 2"),
            ]
        );
    }

    #[test]
    fn a_hostile_text_gets_a_limited_number_of_warnings() {
        let number = |text: &str, code: &str| {
            let channels = json!({"email": {"subject": "Hi", "html": text}, "sms": {"text": text}});
            let found = codes(&channels, TemplateProfile::All);
            found.iter().filter(|(_, found)| *found == code).count()
        };
        assert_eq!(number(&"<img".repeat(128 * 1024), "image_without_alt"), MOST_OF_A_KIND);
        assert_eq!(number(&"src=http://".repeat(48 * 1024), "insecure_link"), MOST_OF_A_KIND);
        assert_eq!(number(&"<img alt='' ".repeat(44 * 1024), "image_without_alt"), 0);
    }

    #[test]
    fn of_many_variables_the_first_fifty_are_reported() {
        let text: String = (0..60).map(|n| format!("{{{{ order.a{n} }}}}{{{{ recipient.b{n} }}}}")).collect();
        let channels = json!({"sms": {"text": text}});
        let found = of_texts(&channels, None, TemplateProfile::App, Some(&Sample::default()));
        for code in ["missing_in_sample", "hidden_variable"] {
            assert_eq!(found.iter().filter(|warning| warning.code == code).count(), MOST_OF_A_KIND, "{code}");
        }
    }

    #[test]
    fn images_and_links_are_reported_with_their_lines() {
        let html = "<img alt\nsrc=é>\n<img <IMG alt=''>\n\n<imgalt=x><p>\n<a HREF = \"http://a.example\">\n<IMG src=b/>";
        assert_eq!(lines_of(html, &images_without_alt(html)), [3, 5, 7]);
        assert_eq!(lines_of(html, &insecure_links(html, true)), [6]);
    }
}
