//! Preview of a text, as parts of a page.

use domain::content::{Content, EmailContent, InAppContent, PushContent};
use domain::sms::segment::{Alphabet, SegmentedText};
use domain::{Channel, mobile_push, web_push};
use operations::sends::dry_run::RenderedContent;
use operations::templates::{Preview, TemplateError};

use crate::answer::{self, Answer};
use crate::text;

/// Push services by the names that people know.
const SERVICES: [(&str, &str); 2] = [("apns", "Apple"), ("fcm", "Google")];

/// Content of a channel, or the reason why it cannot be rendered.
type Rendered = (Channel, Result<RenderedContent, TemplateError>);

/// Content of one channel.
pub(crate) struct ShownContent {
    pub(crate) channel: &'static str,
    /// Reason why the content cannot be rendered.
    pub(crate) failure: Option<String>,
    /// Short texts with their names.
    pub(crate) lines: Vec<(&'static str, String)>,
    /// A text of several lines.
    pub(crate) text: Option<String>,
    pub(crate) has_html: bool,
    /// Sentences about the size of the message.
    pub(crate) notes: Vec<String>,
}

pub(crate) fn shown(preview: &Preview) -> Vec<ShownContent> {
    let content = |(channel, content): &Rendered| {
        let mut shown = ShownContent {
            channel: text::channel(*channel),
            failure: None,
            lines: Vec::new(),
            text: None,
            has_html: false,
            notes: Vec::new(),
        };
        match content {
            Err(error) => shown.failure = Some(error.to_string()),
            Ok(RenderedContent::InApp(content)) => shown.in_app(content),
            Ok(RenderedContent::External(Content::Email(content))) => shown.email(content),
            Ok(RenderedContent::External(Content::Sms(content))) => shown.sms(&content.text),
            Ok(RenderedContent::External(Content::Push(content))) => shown.push(*channel, content),
        }
        shown
    };
    preview.contents.iter().map(content).collect()
}

impl ShownContent {
    fn line(&mut self, name: &'static str, text: Option<&String>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.lines.push((name, text.clone()));
        }
    }

    fn in_app(&mut self, content: &InAppContent) {
        self.line("Title", content.title.as_ref());
        self.line("Message", content.message.as_ref());
        self.line("Link", content.url.as_ref());
        self.line("Icon", content.icon.as_ref());
        if !content.blocks.is_empty() {
            let blocks = serde_json::to_string_pretty(&content.blocks).unwrap_or_default();
            self.text = Some(blocks);
        }
    }

    fn email(&mut self, content: &EmailContent) {
        self.line("Subject", Some(&content.subject));
        self.text.clone_from(&content.text);
        if let Some(html) = &content.html {
            self.has_html = true;
            self.notes.push(format!("The HTML has {} KB.", html.len().div_ceil(1024)));
        }
    }

    fn sms(&mut self, message: &str) {
        let segmented = SegmentedText::of(message);
        let alphabet = match segmented.alphabet {
            Alphabet::Gsm7 => "GSM 7 bit",
            Alphabet::Ucs2 => "UCS-2, because GSM 7 bit lacks a character",
        };
        let segments = if segmented.parts.len() == 1 { "segment" } else { "segments" };
        let count = segmented.parts.len();
        self.notes.push(format!("{count} {segments}, {} characters in {alphabet}.", message.chars().count()));
        self.text = Some(message.to_owned());
    }

    fn push(&mut self, channel: Channel, content: &PushContent) {
        self.line("Title", content.title.as_ref());
        self.line("Text", content.body.as_ref());
        self.line("Link", content.url.as_ref());
        self.line("Icon", content.icon.as_ref());
        if channel == Channel::WebPush {
            self.limit("Browsers", web_push::cut(content));
        } else {
            for (service, name) in SERVICES {
                self.limit(name, mobile_push::cut(content, service));
            }
        }
    }

    /// Notes how a push service limits the message. A message that fits needs no note.
    fn limit(&mut self, service: &str, cut: Result<Option<domain::excerpt::Cut>, domain::Answer>) {
        match cut {
            Ok(None) => {}
            Ok(Some(cut)) => self.notes.push(format!("{service}: {cut}.")),
            Err(answer) => self.notes.push(format!("{service} cannot get it: {}.", answer.message)),
        }
    }
}

/// Answers with the HTML of the email, or with the reason why there is none.
pub(crate) fn frame(preview: &Preview) -> Answer {
    let email = preview.contents.iter().find(|(channel, _)| *channel == Channel::Email);
    match email.map(|(_, content)| content) {
        Some(Ok(RenderedContent::External(Content::Email(EmailContent { html: Some(html), .. })))) => {
            answer::frame(html)
        }
        Some(Err(error)) => {
            let text = domain::html::escaped(&error.to_string());
            answer::frame(&format!("<p>The email cannot be rendered: {text}</p>"))
        }
        _ => answer::frame("<p>The email has no HTML part.</p>"),
    }
}
