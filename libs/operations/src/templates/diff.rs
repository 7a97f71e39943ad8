//! Differences between two texts of a template.

use serde_json::Value;
use similar::TextDiff;
use store::control::template::TemplateVersion;

use super::TemplateDocument;

/// A text of a template that is compared with another.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    label: String,
    name: &'a str,
    category: Option<&'a str>,
    channels: &'a Value,
}

impl<'a> From<&'a TemplateVersion> for Compared<'a> {
    fn from(version: &'a TemplateVersion) -> Self {
        Compared {
            label: format!("{} version {}", version.identifier, version.version),
            name: &version.name,
            category: version.category.as_deref(),
            channels: &version.channels,
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
        }
    }
}

impl Compared<'_> {
    /// Writes the text as lines: each text of a channel below its name.
    fn text(&self) -> String {
        let mut text = format!("name: {}\ncategory: {}\n", self.name, self.category.unwrap_or("-"));
        for (name, content) in planning::texts(self.channels) {
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
    TextDiff::from_lines(&before, &after)
        .unified_diff()
        .context_radius(3)
        .header(label, &later.label)
        .missing_newline_hint(false)
        .to_string()
}
