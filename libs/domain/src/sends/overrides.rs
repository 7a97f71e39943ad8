//! Overrides of a send: content that replaces the template's content, and settings that replace the provider's settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Channel;
use crate::content::{EmailOptions, Object, PushContent};

/// `override.channel` and the members of `override` that name providers, validated when the send is accepted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<Box<EmailOverride>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sms: Option<SmsOverride>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mobile_push: Option<PushOverride>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_push: Option<PushOverride>,
    /// Overrides for single providers, by provider identifier. Each contains settings (`_config`) and members that only this
    /// provider understands.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, Object>,
}

/// Texts of an email, which are not rendered as templates, and its options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EmailOverride {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Plain-text part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// Sender, further recipients and headers; never attachments, which come from `data.attachments`.
    #[serde(skip_serializing_if = "EmailOptions::is_empty")]
    pub options: EmailOptions,
}

/// Text of an SMS, which is not rendered as a template, and its sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SmsOverride {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Sender that replaces the provider's `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// Texts of a push message, which are not rendered as templates, and members that are specific to the channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PushOverride {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Link that a tap opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Data of the push message. Each key replaces the same key of the send's data.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub data: Object,
    /// All other members, which the channel's worker interprets.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub options: Object,
}

impl PushOverride {
    /// Returns the message that consists of this override only, without its body.
    #[must_use]
    pub fn alone(&self) -> PushContent {
        let PushOverride { title, body: _, icon, url, data, options } = self.clone();
        PushContent { title, body: None, icon, url, data, options }
    }
}

impl Overrides {
    /// Returns true if nothing is overridden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Overrides::default()
    }

    /// Returns the overrides for the email channel.
    #[must_use]
    pub fn email(&self) -> Option<&EmailOverride> {
        self.email.as_deref()
    }

    /// Returns the overrides for a push channel.
    #[must_use]
    pub fn push(&self, channel: Channel) -> Option<&PushOverride> {
        match channel {
            Channel::WebPush => self.web_push.as_ref(),
            Channel::MobilePush => self.mobile_push.as_ref(),
            _ => None,
        }
    }

    /// Returns true if the overrides alone contain enough content for a channel. `title` is the title of the send itself.
    #[must_use]
    pub fn offers(&self, channel: Channel, title: Option<&str>) -> bool {
        let is_filled = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
        match channel {
            Channel::Email => self.email().is_some_and(|email| {
                let has_title = title.is_some_and(|title| !title.trim().is_empty());
                email.has_body() && (is_filled(&email.subject) || has_title)
            }),
            Channel::Sms => self.sms.as_ref().is_some_and(|sms| is_filled(&sms.text)),
            _ => self.push(channel).is_some_and(|push| is_filled(&push.title) || is_filled(&push.body)),
        }
    }
}

impl EmailOverride {
    /// Returns true if a text or HTML part is set. The template then supplies neither part, because a part from the template
    /// could have different content than the part from the override.
    #[must_use]
    pub fn has_body(&self) -> bool {
        self.text.is_some() || self.html.is_some()
    }
}
