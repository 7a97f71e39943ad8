//! The layout of an email whose send has only a title, a message and a link: HTML for light and dark mode, and a text part.

mod color;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;

use crate::excerpt::excerpt;
use crate::html::escaped;
use crate::link::web_link;

use color::{BLACK, DARK_PAGE, WHITE};
pub use color::{Color, InvalidColor};

const BUTTON: &str = "View details";
const UNSUBSCRIBE: &str = "Unsubscribe";
/// Accent of an app that sets none, and the one in dark mode.
const NEUTRAL: [Color; 2] = [Color([0x18, 0x18, 0x1b]), Color([0xf4, 0xf4, 0xf5])];
/// Maximum length of the text that mail programs show next to the subject, in bytes.
const PREHEADER: usize = 140;
/// Invisible characters after the preheader, so that mail programs do not fill the line with the text below.
const FILLER: &str = "&zwnj;&nbsp;";

/// Look of an app's emails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Brand {
    pub name: String,
    /// `https` URL of an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo: Option<String>,
    /// Accent colour; None for a neutral one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<Color>,
    /// Postal address in the footer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Text of the button; None for the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub button: Option<String>,
    /// Text of the unsubscribe link; None for the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsubscribe: Option<String>,
}

/// Layout around the message of an email. The worker writes both parts, because the layout is larger than the message, and only the worker
/// has the unsubscribe link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EmailLayout {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Link of the send. Only `http` and `https` links are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    pub brand: Brand,
}

impl EmailLayout {
    /// Writes the text part: title, message, link and footer.
    #[must_use]
    pub fn text(&self, message: &str, unsubscribe: Option<&str>) -> String {
        let message = self.message(message);
        let link = self.link().filter(|link| !message.contains(link.as_ref()));
        let blocks = [self.title().unwrap_or_default(), message, link.as_deref().unwrap_or_default()];
        let mut text = blocks.into_iter().filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n\n");
        text.push_str("\n\n-- \n");
        let Brand { name, address, .. } = &self.brand;
        for line in [Some(name), address.as_ref()].into_iter().flatten() {
            text.push_str(line);
            text.push('\n');
        }
        if let Some(unsubscribe) = unsubscribe {
            text.push_str(&format!("{}: {unsubscribe}\n", self.unsubscribe_text()));
        }
        text
    }

    /// Writes the HTML part. Every text of the send and the app is escaped.
    #[must_use]
    pub fn html(&self, message: &str, unsubscribe: Option<&str>) -> String {
        let message = self.message(message);
        let is_rtl = is_right_to_left(self.title().unwrap_or(message));
        let (dir, start) = if is_rtl { ("rtl", "right") } else { ("ltr", "left") };
        let [_, neutral] = NEUTRAL;
        let dark_accent = self.brand.color.map_or(neutral, |accent| accent.visible_on(DARK_PAGE, WHITE));
        let title = self.title().map(escaped);
        format!(
            include_str!("email_layout/page.html"),
            dir = dir,
            start = start,
            title = title.as_deref().unwrap_or_default(),
            dark_accent = dark_accent,
            dark_label = dark_accent.label(),
            preheader = preheader(message),
            header = self.header(dir),
            title_block = title.as_deref().map_or_else(String::new, title_block),
            text = paragraphs(message),
            button = self.button(dir),
            footer = self.footer(dir, unsubscribe),
        )
    }

    fn title(&self) -> Option<&str> {
        self.title.as_deref().map(str::trim).filter(|title| !title.is_empty())
    }

    /// Returns nothing if the message only repeats the title.
    fn message<'a>(&self, message: &'a str) -> &'a str {
        let message = message.trim();
        if self.title() == Some(message) { "" } else { message }
    }

    fn link(&self) -> Option<Cow<'_, str>> {
        self.url.as_deref().and_then(web_link)
    }

    fn unsubscribe_text(&self) -> &str {
        self.brand.unsubscribe.as_deref().unwrap_or(UNSUBSCRIBE)
    }

    /// Accent and label colour in light mode.
    fn accent(&self) -> (Color, Color) {
        let [neutral, _] = NEUTRAL;
        let accent = self.brand.color.map_or(neutral, |accent| accent.visible_on(WHITE, BLACK));
        (accent, accent.label())
    }

    /// Writes the logo; for an app without one, its name and initial.
    fn header(&self, dir: &str) -> String {
        let name = escaped(&self.brand.name);
        if let Some(logo) = &self.brand.logo {
            return format!(
                "<img class=\"ink\" src=\"{}\" alt=\"{name}\" height=\"32\" style=\"display:block;height:32px;max-width:200px;margin:0 0 32px;\
                 border:0;color:#18181b;font-size:16px;line-height:32px;font-weight:600\">\n",
                escaped(logo)
            );
        }
        let initial = self.brand.name.graphemes(true).next().unwrap_or_default().to_uppercase();
        let (accent, label) = self.accent();
        format!(
            include_str!("email_layout/monogram.html"),
            dir = dir,
            accent = accent,
            label = label,
            initial = escaped(&initial),
            name = name
        )
    }

    fn button(&self, dir: &str) -> String {
        let Some(link) = self.link() else { return String::new() };
        let (accent, label) = self.accent();
        format!(
            include_str!("email_layout/button.html"),
            dir = dir,
            accent = accent,
            label = label,
            url = escaped(&link),
            text = escaped(self.brand.button.as_deref().unwrap_or(BUTTON))
        )
    }

    fn footer(&self, dir: &str, unsubscribe: Option<&str>) -> String {
        let Brand { name, address, .. } = &self.brand;
        let mut lines: Vec<_> =
            [Some(name), address.as_ref()].into_iter().flatten().map(|line| escaped(line)).collect();
        if let Some(unsubscribe) = unsubscribe {
            let (link, text) = (escaped(unsubscribe), escaped(self.unsubscribe_text()));
            lines.push(format!(
                "<a href=\"{link}\" target=\"_blank\" style=\"color:#71717a;text-decoration:underline\">{text}</a>"
            ));
        }
        format!(include_str!("email_layout/footer.html"), dir = dir, lines = lines.join("<br>\n"))
    }
}

fn title_block(title: &str) -> String {
    format!(
        "<h1 class=\"ink title\" style=\"margin:0;color:#18181b;font-size:24px;line-height:32px;font-weight:600;letter-spacing:-0.01em\">{title}</h1>\n"
    )
}

/// Blank lines separate paragraphs. Other line breaks are kept.
fn paragraphs(message: &str) -> String {
    let message = message.replace("\r\n", "\n").replace('\r', "\n");
    let paragraphs = message.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
    let written = paragraphs.map(|paragraph| {
        let text = escaped(paragraph).replace('\n', "<br>\n");
        format!("<p class=\"text\" style=\"margin:16px 0 0;color:#3f3f46;font-size:16px;line-height:26px\">{text}</p>\n")
    });
    written.collect()
}

fn preheader(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return String::new();
    }
    let filler = FILLER.repeat(PREHEADER.saturating_sub(line.len()));
    let line = escaped(&excerpt(line, PREHEADER));
    format!(
        "<div style=\"display:none;max-height:0;max-width:0;overflow:hidden;opacity:0;mso-hide:all\">{line}{filler}</div>\n"
    )
}

/// Decides by the first letter with a direction (UAX 9, rules P2 and P3).
fn is_right_to_left(text: &str) -> bool {
    let is_rtl = |letter: char| matches!(letter, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}');
    text.chars().find(|letter| letter.is_alphabetic()).is_some_and(is_rtl)
}
