//! Emails and SMS of sends without a template.

use domain::content::{EmailContent, InAppContent, UNSUBSCRIBE_SLOT};
use domain::email_layout::{Brand, EmailLayout};
use domain::link::web_link;
use domain::overrides::EmailOverride;
use domain::sms::segment::{MOST_SEGMENTS_WITH_LINK, SegmentedText};
use minijinja::context;
use minijinja::value::merge_maps;

use crate::renderer::ContentRenderer;
use crate::template::{Template, TemplateError, one_line};

/// Look of the emails that have neither a template nor an override.
#[derive(Clone, Copy, Debug)]
pub struct EmailLook<'a> {
    pub brand: &'a Brand,
    /// Template of the app that replaces the built-in layout.
    pub layout: Option<&'a Template>,
    /// True if the recipients can turn the category of the send off with a link.
    pub unsubscribe: bool,
}

impl ContentRenderer<'_> {
    /// Returns the email of a send whose template has no email.
    pub(crate) fn plain_email(
        &self,
        variables: impl Fn() -> minijinja::Value,
        own: &EmailOverride,
    ) -> Result<EmailContent, TemplateError> {
        let (heading, words) = self.plain_text();
        let subject = one_line(own.subject.as_deref().unwrap_or(heading));
        if own.has_body() {
            let (text, html) = (own.text.clone(), own.html.clone());
            return Ok(EmailContent { subject, text, html, ..EmailContent::default() });
        }
        let laid_out = self.look.layout.map(|layout| {
            let variables = merge_maps([variables(), self.layout_variables()]);
            layout.email(&variables, own)
        });
        if let Some(content) = laid_out.transpose()?.flatten() {
            return Ok(EmailContent { unsubscribe_slot: true, ..content });
        }
        let InAppContent { title, url, .. } = &self.send.content;
        let layout = EmailLayout { title: title.clone(), url: url.clone(), brand: self.look.brand.clone() };
        let (text, layout) = (Some(words.to_owned()), Some(Box::new(layout)));
        Ok(EmailContent { subject, text, layout, ..EmailContent::default() })
    }

    /// Returns the variables that only a layout has. Missing ones are empty, so that they hide keys of the send's data. `unsubscribe` stands
    /// for the link that the worker inserts.
    fn layout_variables(&self) -> minijinja::Value {
        let InAppContent { title, message, url, .. } = &self.send.content;
        let url = url.as_deref().and_then(web_link).unwrap_or_default();
        // Not escaped, so that the worker finds it in HTML too.
        let unsubscribe =
            minijinja::Value::from_safe_string(self.unsubscribe().unwrap_or_default().to_owned());
        let [title, message] = [title, message].map(|text| text.as_deref().unwrap_or_default());
        context! { title, message, url, unsubscribe }
    }

    /// None if the email has no unsubscribe link. An email with copies has none, because those who get them could use it too.
    pub(crate) fn unsubscribe(&self) -> Option<&'static str> {
        let has_copies =
            |email: &EmailOverride| !email.options.cc.is_empty() || !email.options.bcc.is_empty();
        let is_linked = self.look.unsubscribe && !self.send.overrides.email().is_some_and(has_copies);
        is_linked.then_some(UNSUBSCRIBE_SLOT)
    }

    pub(crate) fn plain_sms(&self) -> String {
        let text = self.plain_text().1;
        let link =
            self.send.content.url.as_deref().and_then(web_link).filter(|link| !text.contains(link.as_ref()));
        let link = link.filter(|_| !text.trim().is_empty());
        let with_link = link.map(|link| format!("{}\n{link}", text.trim_end()));
        let fits = |text: &String| SegmentedText::of(text).parts.len() <= MOST_SEGMENTS_WITH_LINK;
        with_link.filter(fits).unwrap_or_else(|| text.to_owned())
    }

    fn plain_text(&self) -> (&str, &str) {
        let heading = self.send.content.title.as_deref().unwrap_or_default();
        (heading, self.send.content.message.as_deref().unwrap_or(heading))
    }
}
