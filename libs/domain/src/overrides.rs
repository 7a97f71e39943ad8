//! What a send says and does otherwise than its template and the settings of its app.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Channel;
use crate::content::{EmailOptions, Object};

/// `override.channel` and the members of `override` that name providers. Checked where the send is accepted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overrides {
    /// For the `email` channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<Box<EmailOverride>>,
    /// For the `sms` channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sms: Option<SmsOverride>,
    /// For the `mobilePush` channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mobile_push: Option<PushOverride>,
    /// For the `webPush` channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_push: Option<PushOverride>,
    /// For single providers, by identifier: `_config` and the provider's own members.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, Object>,
}

/// Texts of an email, used as they stand, and what it asks for beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EmailOverride {
    /// Subject line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Plain-text part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// HTML part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// Sender, further recipients, headers; never attachments, which a send names elsewhere.
    #[serde(skip_serializing_if = "EmailOptions::is_empty")]
    pub options: EmailOptions,
}

/// Text of a short message, used as it stands, and its sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SmsOverride {
    /// The whole text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Sender in place of the provider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// Texts of a push message, used as they stand, and what the channel's own members say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PushOverride {
    /// Title line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Body text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Icon reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Link that a tap opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Wins per key over the send's data.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub data: Object,
    /// All other members.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub options: Object,
}

impl Overrides {
    /// Whether nothing is overridden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Overrides::default()
    }

    /// What is overridden for the email channel.
    #[must_use]
    pub fn email(&self) -> Option<&EmailOverride> {
        self.email.as_deref()
    }

    /// What is overridden for a push channel.
    #[must_use]
    pub fn push(&self, channel: Channel) -> Option<&PushOverride> {
        match channel {
            Channel::WebPush => self.web_push.as_ref(),
            Channel::MobilePush => self.mobile_push.as_ref(),
            _ => None,
        }
    }

    /// Whether there is enough to say on a channel that the template has no content for. `title` is the send's own.
    #[must_use]
    pub fn offers(&self, channel: Channel, title: Option<&str>) -> bool {
        let said = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
        match channel {
            Channel::Email => self.email().is_some_and(|email| {
                let titled = title.is_some_and(|title| !title.trim().is_empty());
                email.has_body() && (said(&email.subject) || titled)
            }),
            Channel::Sms => self.sms.as_ref().is_some_and(|sms| said(&sms.text)),
            _ => self.push(channel).is_some_and(|push| said(&push.title) || said(&push.body)),
        }
    }
}

impl EmailOverride {
    /// Whether it says what the email says: then neither part comes from the template, or the two would differ.
    #[must_use]
    pub fn has_body(&self) -> bool {
        self.text.is_some() || self.html.is_some()
    }
}
