use std::borrow::Cow;

use domain::content::{
    Content, EmailContent, EmailOptions, InAppContent, Object, PushContent, SmsContent, UNSUBSCRIBE_SLOT,
};
use domain::email_layout::{Brand, EmailLayout};
use domain::link::web_link;
use domain::overrides::{EmailOverride, PushOverride};
use domain::send::Recipient;
use domain::size::json_size;
use domain::sms::segment::SegmentedText;
use domain::{Channel, SendRequest, TemplateProfile, profile};
use minijinja::context;
use minijinja::value::{Serde, merge_maps};
use serde_json::Value;
use store::sends::planned_chunk::PlanCategory;

use crate::template::{Template, TemplateError, one_line};

/// JSON of the content of an external delivery, in bytes. The job that contains it must stay well below the broker's limit of 1 MiB.
const MAX_CONTENT: usize = 500 * 1024;
/// JSON of an inbox item, in bytes, so that one event can hold it.
const MAX_ITEM: usize = 760 * 1024;
/// An SMS gets the link of its send only if it then has at most this many segments, which all providers accept.
const SEGMENTS_WITH_LINK: usize = 10;

/// Look of the emails that have neither a template nor an override.
#[derive(Clone, Copy, Debug)]
pub struct EmailLook<'a> {
    pub brand: &'a Brand,
    /// Template of the app that replaces the built-in layout.
    pub layout: Option<&'a Template>,
    /// True if the recipients can turn the category of the send off with a link.
    pub unsubscribe: bool,
}

#[derive(Debug)]
pub struct ContentRenderer<'a> {
    send: &'a SendRequest,
    /// None if the send names no template, or if the template is missing or cannot be compiled.
    template: Option<&'a Template>,
    look: EmailLook<'a>,
    facts: minijinja::Value,
    data: minijinja::Value,
    /// Part of the profile that templates can read.
    template_profile: TemplateProfile,
}

impl<'a> ContentRenderer<'a> {
    /// If the send names a template but `template` is None, every call returns [`TemplateError::Missing`].
    #[must_use]
    pub fn new(
        send: &'a SendRequest,
        template: Option<&'a Template>,
        app_name: &str,
        look: EmailLook<'a>,
        category: Option<&PlanCategory>,
    ) -> ContentRenderer<'a> {
        let category = category.map(|category| context! { identifier => category.identifier.as_str(), name => category.name.as_str() });
        let facts = context! { app => context! { name => app_name, brand => Serde(look.brand) }, category => category };
        let is_rendered = template.is_some() || look.layout.is_some();
        let data = if is_rendered {
            minijinja::Value::from(Serde(&send.content.data))
        } else {
            minijinja::Value::default()
        };
        ContentRenderer { send, template, look, facts, data, template_profile: TemplateProfile::All }
    }

    #[must_use]
    pub fn with_template_profile(self, template_profile: TemplateProfile) -> ContentRenderer<'a> {
        ContentRenderer { template_profile, ..self }
    }

    /// The caller must check the size of the item with [`item_size`].
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

    pub fn external(
        &self,
        channel: Channel,
        recipient: &Recipient,
        profile: &Object,
    ) -> Result<Content, TemplateError> {
        let variables = || self.variables(recipient, profile);
        let content = match channel {
            Channel::Email => Content::Email(self.email(variables)?),
            Channel::Sms => Content::Sms(self.sms(variables)?),
            _ => Content::Push(self.push(channel, variables, recipient)?),
        };
        check_size(json_size(&content), MAX_CONTENT)?;
        Ok(content)
    }

    /// Returns the content as recipients get it. A link that leads nowhere stands for the unsubscribe link.
    pub fn shown(
        &self,
        channel: Channel,
        recipient: &Recipient,
        profile: &Object,
    ) -> Result<Content, TemplateError> {
        Ok(match self.external(channel, recipient, profile)? {
            Content::Email(email) => Content::Email(email.complete(self.unsubscribe())),
            content => content,
        })
    }

    fn email(&self, variables: impl Fn() -> minijinja::Value) -> Result<EmailContent, TemplateError> {
        let nothing = EmailOverride::default();
        let own = self.send.overrides.email().unwrap_or(&nothing);
        let rendered = self.template()?.map(|template| template.email(&variables(), own)).transpose()?;
        let content = match rendered.flatten() {
            Some(content) => content,
            None => self.plain_email(variables, own)?,
        };
        let options = EmailOptions { attachments: self.send.attachments.clone(), ..own.options.clone() };
        Ok(EmailContent { options, ..content })
    }

    /// Returns the email of a send whose template has no email.
    fn plain_email(
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
    fn unsubscribe(&self) -> Option<&'static str> {
        let has_copies =
            |email: &EmailOverride| !email.options.cc.is_empty() || !email.options.bcc.is_empty();
        let is_linked = self.look.unsubscribe && !self.send.overrides.email().is_some_and(has_copies);
        is_linked.then_some(UNSUBSCRIBE_SLOT)
    }

    fn sms(&self, variables: impl Fn() -> minijinja::Value) -> Result<SmsContent, TemplateError> {
        let own = self.send.overrides.sms.clone().unwrap_or_default();
        let text = match (own.text, self.template()?) {
            (Some(text), _) => text,
            (None, Some(template)) => match template.sms(&variables())? {
                Some(rendered) => rendered.text,
                None => self.plain_sms(),
            },
            (None, None) => self.plain_sms(),
        };
        Ok(SmsContent { text, from: own.from })
    }

    fn plain_sms(&self) -> String {
        let text = self.plain_text().1;
        let link =
            self.send.content.url.as_deref().and_then(web_link).filter(|link| !text.contains(link.as_ref()));
        let link = link.filter(|_| !text.trim().is_empty());
        let with_link = link.map(|link| format!("{}\n{link}", text.trim_end()));
        let fits = |text: &String| SegmentedText::of(text).parts.len() <= SEGMENTS_WITH_LINK;
        with_link.filter(fits).unwrap_or_else(|| text.to_owned())
    }

    fn push(
        &self,
        channel: Channel,
        variables: impl Fn() -> minijinja::Value,
        recipient: &Recipient,
    ) -> Result<PushContent, TemplateError> {
        let nothing = PushOverride::default();
        let own = self.send.overrides.push(channel).unwrap_or(&nothing);
        let rendered =
            self.template()?.map(|template| template.push(channel, &variables(), own)).transpose()?;
        let content = rendered.flatten().unwrap_or_else(|| {
            let InAppContent { title, message, icon, url, .. } = &self.send.content;
            PushContent {
                title: own.title.clone().or_else(|| title.clone()),
                body: own.body.clone().or_else(|| message.clone()),
                icon: own.icon.clone().or_else(|| icon.clone()),
                url: own.url.clone().or_else(|| url.clone()),
                ..PushContent::default()
            }
        });
        let mut data = self.merged_data(recipient);
        data.extend(own.data.clone());
        Ok(PushContent { data, options: own.options.clone(), ..content })
    }

    fn template(&self) -> Result<Option<&'a Template>, TemplateError> {
        if self.send.template.is_some() && self.template.is_none() {
            return Err(TemplateError::Missing);
        }
        Ok(self.template)
    }

    fn variables(&self, recipient: &Recipient, profile: &Object) -> minijinja::Value {
        let mut person = match self.template_profile {
            TemplateProfile::All => profile.clone(),
            TemplateProfile::App => profile
                .get_key_value(profile::APP_KEY)
                .map(|(key, app)| (key.clone(), app.clone()))
                .into_iter()
                .collect(),
        };
        person.insert("identifier".to_owned(), Value::String(recipient.identifier.clone()));
        let own = minijinja::Value::from(Serde(&recipient.data));
        let facts = self.facts.clone();
        let data = self.data.clone();
        let person = context! { recipient => minijinja::Value::from(Serde(&person)) };
        // If a name occurs in several maps, the last map decides.
        merge_maps([data, own, facts, person])
    }

    fn merged_data(&self, recipient: &Recipient) -> Object {
        let mut data = self.send.content.data.clone();
        data.extend(recipient.data.clone());
        data
    }

    fn plain_text(&self) -> (&'a str, &'a str) {
        let heading = self.send.content.title.as_deref().unwrap_or_default();
        (heading, self.send.content.message.as_deref().unwrap_or(heading))
    }
}

/// Size as JSON, in bytes. Fails if the item is too large for an event.
pub fn item_size(content: &InAppContent) -> Result<usize, TemplateError> {
    check_size(json_size(content), MAX_ITEM)
}

fn check_size(size: usize, most: usize) -> Result<usize, TemplateError> {
    if size > most { Err(TemplateError::TooLarge { size, most }) } else { Ok(size) }
}
