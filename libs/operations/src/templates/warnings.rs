//! Warnings about a template that can be stored, but hardly does what its author wants.

use std::collections::BTreeSet;

use domain::{Problem, TemplateProfile};
use serde_json::Value;

use super::Sample;
use super::preview::missing_in;

/// Size from which mail programs cut an email, in bytes. Gmail cuts at 102 KB.
const LARGEST_HTML: usize = 102 * 1024;
/// Attributes of HTML that load or open their value.
const LINKING: [&str; 4] = ["href", "src", "action", "background"];

/// Returns the warnings about the texts of a template: variables that the app hides, that only one part of the email uses, or that the sample
/// lacks; links without `https`; images without `alt`; and HTML that mail programs would cut.
#[must_use]
pub fn warnings(channels: &Value, profile: TemplateProfile, sample: Option<&Sample>) -> Vec<Problem> {
    let texts = planning::texts(channels);
    let mut warnings = hidden_variables(channels, profile);
    warnings.extend(different_parts(channels));
    for (variable, name) in
        sample.map(|sample| missing_in(sample.clone(), channels, profile)).unwrap_or_default()
    {
        let is_hidden = variable.strip_prefix("recipient.").is_some_and(|key| !profile.shows(key));
        if let Some((_, text)) = texts.iter().find(|(known, _)| *known == name).filter(|_| !is_hidden) {
            let line = line_of_variable(text, &variable);
            let message =
                format!("channels.{name} line {line}: the sample has no {variable}, so it is empty");
            warnings.push(Problem::new(format!("channels.{name}"), "missing_in_sample", message));
        }
    }
    for (name, text) in &texts {
        let is_html = name == "email.html";
        let mut warn = |code, at, about: &str| {
            let message = format!("channels.{name} line {}: {about}", line(text, at));
            warnings.push(Problem::new(format!("channels.{name}"), code, message));
        };
        for at in insecure_links(text, is_html) {
            warn("insecure_link", at, "the link is not https, so it can be read and changed on its way");
        }
        if is_html {
            for at in images_without_alt(text) {
                warn(
                    "image_without_alt",
                    at,
                    "the image has no alt text, so some readers learn nothing about it",
                );
            }
            if text.len() > LARGEST_HTML {
                let size = text.len() / 1024;
                warn("large_html", 0, &format!("the HTML has {size} KB; Gmail cuts emails after 102 KB"));
            }
        }
    }
    warnings
}

fn hidden_variables(channels: &Value, profile: TemplateProfile) -> Vec<Problem> {
    let mut warnings = Vec::new();
    for (name, variables) in &planning::variables(channels) {
        let of_profile = variables.iter().filter_map(|variable| variable.strip_prefix("recipient."));
        for key in of_profile.filter(|key| !profile.shows(key) && *key != "identifier") {
            let message = format!(
                "channels.{name}: recipient.{key} is empty, because templates of this app see only recipient.app, which its backend \
                 writes. Use recipient.app.{key}, or set template-profile=all"
            );
            warnings.push(Problem::new(format!("channels.{name}"), "hidden_variable", message));
        }
    }
    warnings
}

fn different_parts(channels: &Value) -> Vec<Problem> {
    let texts = planning::variables(channels);
    let mut warnings = Vec::new();
    if let (Some(text), Some(html)) = (texts.get("email.text"), texts.get("email.html")) {
        for (has, lacks, name) in [(html, text, "text"), (text, html, "html")] {
            let missing: BTreeSet<_> = has.difference(lacks).map(String::as_str).collect();
            if !missing.is_empty() {
                let missing = missing.into_iter().collect::<Vec<_>>().join(", ");
                let message =
                    format!("channels.email.{name} lacks {missing}, which the other part of the email has");
                warnings.push(Problem::new(format!("channels.email.{name}"), "parts_differ", message));
            }
        }
    }
    warnings
}

/// Returns the number of the line, from 1.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn line_of_variable(text: &str, variable: &str) -> usize {
    let first = variable.split('.').next().unwrap_or(variable);
    let at = text.find(variable).or_else(|| text.find(first));
    line(text, at.unwrap_or(0))
}

/// Returns the places of links that begin with `http:`. HTML names many addresses that are no links, such as those of namespaces.
fn insecure_links(text: &str, is_html: bool) -> Vec<usize> {
    let places = text.match_indices("http://").map(|(at, _)| at);
    let is_link = |at: &usize| {
        let before = text.get(..*at).unwrap_or_default();
        let before = before.trim_end_matches(['"', '\'', ' ', '(']);
        if before.ends_with("url") {
            return true;
        }
        let name = before.strip_suffix('=').unwrap_or_default().trim_end();
        LINKING.iter().any(|attribute| name.to_ascii_lowercase().ends_with(attribute))
    };
    places.filter(|at| !is_html || is_link(at)).collect()
}

/// Returns the places of `img` tags without the attribute `alt`.
fn images_without_alt(html: &str) -> Vec<usize> {
    let lower = html.to_ascii_lowercase();
    let has_alt = |tag: &str| {
        let after_space = tag.split(char::is_whitespace).skip(1);
        after_space.into_iter().any(|attribute| attribute == "alt" || attribute.starts_with("alt="))
    };
    let images = lower.match_indices("<img").map(|(at, _)| at);
    let tag = |at: usize| lower.get(at..).and_then(|rest| rest.split('>').next()).unwrap_or_default();
    images.filter(|at| !has_alt(tag(*at).trim_end_matches('/'))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn codes(channels: &Value, profile: TemplateProfile) -> Vec<(String, &'static str)> {
        warnings(channels, profile, None).into_iter().map(|warning| (warning.field, warning.code)).collect()
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
        assert_eq!(warnings(&channels, TemplateProfile::App, Some(&whole)), []);
        let found = warnings(&channels, TemplateProfile::App, Some(&sample(json!({"order": {}}))));
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
        let found = warnings(&channels, TemplateProfile::All, None);
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
}
