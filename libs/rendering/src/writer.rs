//! What a send says to one recipient on one channel: rendered from its template, or from its own fields.

use std::borrow::Cow;

use domain::content::{Content, EmailContent, InAppContent, Object, PushContent, SmsContent};
use domain::send::Recipient;
use domain::size::json_size;
use domain::{Channel, Send};
use minijinja::context;
use minijinja::value::{Serde, merge_maps};
use serde_json::Value;
use store::facts::PlanCategory;

use crate::template::{Template, TemplateError, one_line};

/// Bytes that the content of an external delivery may have as JSON: with its job, it must stay far from the broker's
/// 1 MiB.
const MAX_CONTENT: usize = 500 * 1024;
/// Bytes that an inbox item may have as JSON, so that one event can hold it.
const MAX_ITEM: usize = 760 * 1024;

/// Writes what a send says to its recipients.
#[derive(Debug)]
pub struct Writer<'a> {
    send: &'a Send,
    /// None without one, or when it cannot be compiled.
    template: Option<&'a Template>,
    /// The variables `app` and `category`.
    facts: minijinja::Value,
    /// The send's data, as variables.
    data: minijinja::Value,
}

impl<'a> Writer<'a> {
    /// A writer for the recipients of `send`. Without `template`, a send that names one has no content at all.
    #[must_use]
    pub fn new(
        send: &'a Send,
        template: Option<&'a Template>,
        app_name: &str,
        category: Option<&PlanCategory>,
    ) -> Writer<'a> {
        let category = category.map(|category| context! { identifier => category.identifier.as_str(), name => category.name.as_str() });
        let facts = context! { app => context! { name => app_name }, category => category };
        let data = template.map(|_| minijinja::Value::from(Serde(&send.content.data))).unwrap_or_default();
        Writer { send, template, facts, data }
    }

    /// The inbox item for a recipient. Its size is for the caller to check, with [`item_size`].
    ///
    /// # Errors
    /// The template failed.
    pub fn in_app(
        &self,
        recipient: &Recipient,
        profile: &Object,
    ) -> Result<Cow<'a, InAppContent>, TemplateError> {
        let template = self.template()?;
        if template.is_none() && recipient.data.is_empty() {
            return Ok(Cow::Borrowed(&self.send.content));
        }
        let plain = InAppContent { data: self.merged_data(recipient), ..self.send.content.clone() };
        match template {
            None => Ok(Cow::Owned(plain)),
            Some(template) => template.in_app(&self.variables(recipient, profile), plain).map(Cow::Owned),
        }
    }

    /// The content of an external delivery to a recipient.
    ///
    /// # Errors
    /// The template failed, or the content comes out too large.
    pub fn external(
        &self,
        channel: Channel,
        recipient: &Recipient,
        profile: &Object,
    ) -> Result<Content, TemplateError> {
        let rendered = match self.template()? {
            None => None,
            Some(template) => {
                let variables = self.variables(recipient, profile);
                match channel {
                    Channel::Email => template.email(&variables)?.map(Content::Email),
                    Channel::Sms => template.sms(&variables)?.map(Content::Sms),
                    _ => template.push(channel, &variables, &self.merged_data(recipient))?.map(Content::Push),
                }
            }
        };
        let content = rendered.unwrap_or_else(|| self.plain(channel, recipient));
        fitting(json_size(&content), MAX_CONTENT)?;
        Ok(content)
    }

    /// The template, if the send has one.
    fn template(&self) -> Result<Option<&'a Template>, TemplateError> {
        if self.send.template.is_some() && self.template.is_none() {
            return Err(TemplateError::Missing);
        }
        Ok(self.template)
    }

    fn variables(&self, recipient: &Recipient, profile: &Object) -> minijinja::Value {
        let mut person = profile.clone();
        person.insert("identifier".to_owned(), Value::String(recipient.identifier.clone()));
        let own = minijinja::Value::from(Serde(&recipient.data));
        let (facts, data) = (self.facts.clone(), self.data.clone());
        let person = context! { recipient => minijinja::Value::from(Serde(&person)) };
        // The last one wins.
        merge_maps([data, own, facts, person])
    }

    fn merged_data(&self, recipient: &Recipient) -> Object {
        let mut data = self.send.content.data.clone();
        data.extend(recipient.data.clone());
        data
    }

    fn plain(&self, channel: Channel, recipient: &Recipient) -> Content {
        let InAppContent { title, message, icon, url, .. } = &self.send.content;
        let heading = title.as_deref().unwrap_or_default();
        let words = message.as_deref().unwrap_or(heading);
        match channel {
            Channel::Email => Content::Email(EmailContent {
                subject: one_line(heading),
                text: Some(words.to_owned()),
                html: Some(html(words)),
            }),
            Channel::Sms => Content::Sms(SmsContent { text: words.to_owned() }),
            _ => Content::Push(PushContent {
                title: title.clone(),
                body: message.clone(),
                icon: icon.clone(),
                url: url.clone(),
                data: self.merged_data(recipient),
            }),
        }
    }
}

/// Bytes of an inbox item as JSON.
///
/// # Errors
/// No event can hold it.
pub fn item_size(content: &InAppContent) -> Result<usize, TemplateError> {
    fitting(json_size(content), MAX_ITEM)
}

fn fitting(size: usize, most: usize) -> Result<usize, TemplateError> {
    if size > most { Err(TemplateError::TooLarge { size, most }) } else { Ok(size) }
}

fn html(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 16);
    html.push_str("<p>");
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\r' => {}
            '\n' => html.push_str("<br>"),
            c => html.push(c),
        }
    }
    html.push_str("</p>");
    html
}
