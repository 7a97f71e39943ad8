use std::borrow::Cow;

use domain::content::{Content, EmailContent, EmailOptions, InAppContent, Object, PushContent, SmsContent};
use domain::overrides::{EmailOverride, PushOverride};
use domain::send::Recipient;
use domain::size::json_size;
use domain::{Channel, SendRequest, TemplateProfile, profile};
use minijinja::context;
use minijinja::value::{Serde, merge_maps};
use serde_json::Value;
use store::sends::planned_chunk::PlanCategory;

use crate::plain::EmailLook;
use crate::template::{Template, TemplateError};

/// JSON of the content of an external delivery, in bytes. The job that contains it must stay well below the broker's limit of 1 MiB.
const MAX_CONTENT: usize = 500 * 1024;
/// JSON of an inbox item, in bytes, so that one event can hold it.
const MAX_ITEM: usize = 760 * 1024;
#[derive(Debug)]
pub struct ContentRenderer<'a> {
    pub(crate) send: &'a SendRequest,
    /// None if the send names no template, or if the template is missing or cannot be compiled.
    template: Option<&'a Template>,
    pub(crate) look: EmailLook<'a>,
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
}

/// Size as JSON, in bytes. Fails if the item is too large for an event.
pub fn item_size(content: &InAppContent) -> Result<usize, TemplateError> {
    check_size(json_size(content), MAX_ITEM)
}

fn check_size(size: usize, most: usize) -> Result<usize, TemplateError> {
    if size > most { Err(TemplateError::TooLarge { size, most }) } else { Ok(size) }
}
