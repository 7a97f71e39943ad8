//! Differences between two texts of a template.

use std::time::Duration;

use serde_json::Value;
use similar::TextDiff;
use store::control::template::TemplateVersion;

use super::{TemplateDocument, mjml};

/// Time for finding the smallest difference. After it, the difference is still correct, but may have more lines than necessary.
const SEARCH: Duration = Duration::from_millis(500);

/// A text of a template that is compared with another.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    label: String,
    name: &'a str,
    category: Option<&'a str>,
    channels: &'a Value,
    mjml: Option<&'a str>,
}

impl<'a> From<&'a TemplateVersion> for Compared<'a> {
    fn from(version: &'a TemplateVersion) -> Self {
        Compared {
            label: format!("{} version {}", version.identifier, version.version),
            name: &version.name,
            category: version.category.as_deref(),
            channels: &version.channels,
            mjml: version.mjml.as_deref(),
        }
    }
}

impl<'a> From<&'a TemplateDocument> for Compared<'a> {
    fn from(document: &'a TemplateDocument) -> Self {
        Compared {
            label: format!("{} unpublished", document.identifier),
            name: &document.name,
            category: document.category.as_deref(),
            channels: &document.channels,
            mjml: document.mjml.as_deref(),
        }
    }
}

impl Compared<'_> {
    /// Writes the text as lines: each text of a channel below its name.
    fn text(&self) -> String {
        let mut text = format!("name: {}\ncategory: {}\n", self.name, self.category.unwrap_or("-"));
        for (name, content) in mjml::written_texts(self.channels, self.mjml) {
            text.push_str(&format!("[{name}]\n{content}\n"));
        }
        text
    }
}

/// Returns a unified diff; empty if the texts are equal. Without an earlier text, all lines are new.
#[must_use]
pub fn diff(earlier: Option<&Compared<'_>>, later: &Compared<'_>) -> String {
    let (label, before) = match earlier {
        Some(earlier) => (earlier.label.as_str(), earlier.text()),
        None => ("nothing", String::new()),
    };
    let after = later.text();
    TextDiff::configure()
        .timeout(SEARCH)
        .diff_lines(&before, &after)
        .unified_diff()
        .context_radius(3)
        .header(label, &later.label)
        .missing_newline_hint(false)
        .to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Instant;

    use domain::TemplateProfile;
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_without_a_common_line_are_compared_in_time() {
        let document = |seed: usize| {
            let lines: Vec<_> =
                (0..60_000).map(|n| ((n * 7919 + seed * 104_729) % 100_003).to_string()).collect();
            let text = json!({"identifier": "x", "channels": {"email": {"subject": "Hi", "text": lines.join("\n")}}});
            TemplateDocument::read(text, TemplateProfile::All).unwrap()
        };
        let (one, two) = (document(1), document(2));
        let begin = Instant::now();
        let found = diff(Some(&(&one).into()), &(&two).into());
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        let added: Vec<_> = found.lines().skip(2).filter(|line| line.starts_with(['+', ' '])).collect();
        assert!(added.len() <= 60_004 && found.contains("\n@@ "));
    }
}
