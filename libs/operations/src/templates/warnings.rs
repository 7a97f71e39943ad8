//! Warnings about a template that can be stored, but hardly does what its author wants.

use std::collections::BTreeSet;

use domain::{Problem, TemplateProfile};
use serde_json::Value;

/// Returns a warning for each variable that the app hides from templates, and for each that only one of the two parts of the email uses.
#[must_use]
pub fn warnings(channels: &Value, profile: TemplateProfile) -> Vec<Problem> {
    let texts = planning::variables(channels);
    let mut warnings = Vec::new();
    for (name, variables) in &texts {
        let of_profile = variables.iter().filter_map(|variable| variable.strip_prefix("recipient."));
        for key in of_profile.filter(|key| !profile.shows(key) && *key != "identifier") {
            let message = format!(
                "channels.{name}: recipient.{key} is empty, because templates of this app see only recipient.app, which its backend \
                 writes. Use recipient.app.{key}, or set template-profile=all"
            );
            warnings.push(Problem::new(format!("channels.{name}"), "hidden_variable", message));
        }
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn codes(channels: &Value, profile: TemplateProfile) -> Vec<(String, &'static str)> {
        warnings(channels, profile).into_iter().map(|warning| (warning.field, warning.code)).collect()
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
}
