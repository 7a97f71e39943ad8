//! Content of a notification, per channel.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::email_layout::EmailLayout;
use crate::html::escaped;

pub type Object = Map<String, Value>;

/// Content of an inbox item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InAppContent {
    pub title: Option<String>,
    pub message: Option<String>,
    /// Name, link or `data:` URL of an image; see [`is_icon`](crate::link::is_icon).
    pub icon: Option<String>,
    /// Link that a click opens.
    pub url: Option<String>,
    /// Arbitrary payload of the app.
    #[serde(default)]
    pub data: Object,
    /// Content blocks, as the app sent them.
    #[serde(default)]
    pub blocks: Vec<Value>,
}

/// Content of an email.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmailContent {
    /// Subject line, without line breaks.
    pub subject: String,
    /// Plain-text part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// Layout around `text`, which is then the message only. A worker of an earlier release sends `text` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Box<EmailLayout>>,
    /// True if both parts may contain [`UNSUBSCRIBE_SLOT`].
    #[serde(default, rename = "unsubscribeSlot", skip_serializing_if = "std::ops::Not::not")]
    pub unsubscribe_slot: bool,
    /// Options that the send sets; a template has none.
    #[serde(default, skip_serializing_if = "EmailOptions::is_empty")]
    pub options: EmailOptions,
}

/// Link that stands for the unsubscribe link until the worker creates it.
pub const UNSUBSCRIBE_SLOT: &str = "https://unsubscribe.invalid/";

impl EmailContent {
    /// Returns the text and HTML parts as recipients get them.
    #[must_use]
    pub fn parts(&self, unsubscribe: Option<&str>) -> (Option<Cow<'_, str>>, Option<Cow<'_, str>>) {
        if let Some(layout) = &self.layout {
            let message = self.text.as_deref().unwrap_or_default();
            let (text, html) = (layout.text(message, unsubscribe), layout.html(message, unsubscribe));
            return (Some(Cow::Owned(text)), Some(Cow::Owned(html)));
        }
        let link = unsubscribe.unwrap_or_default();
        let filled = |part: &'_ Option<String>, link: &str| {
            part.as_ref().map(|part| part.replace(UNSUBSCRIBE_SLOT, link)).map(Cow::Owned)
        };
        if self.unsubscribe_slot {
            return (filled(&self.text, link), filled(&self.html, &escaped(link)));
        }
        (self.text.as_deref().map(Cow::Borrowed), self.html.as_deref().map(Cow::Borrowed))
    }

    /// Returns the content with the parts as recipients get them.
    #[must_use]
    pub fn complete(self, unsubscribe: Option<&str>) -> EmailContent {
        let (text, html) = self.parts(unsubscribe);
        let (text, html) = (text.map(Cow::into_owned), html.map(Cow::into_owned));
        EmailContent { text, html, layout: None, unsubscribe_slot: false, ..self }
    }
}

/// Options from `override.channel.email` and `data.attachments`, validated when the send is accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EmailOptions {
    /// Address in place of the provider's `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Display name in place of the provider's `fromName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_name: Option<String>,
    /// Address in place of the provider's `replyTo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Further recipients, visible to all recipients.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<String>,
    /// Further recipients, hidden from all other recipients.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bcc: Vec<String>,
    /// Further headers, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Attached files, ordered by their number. The database keeps their contents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

impl EmailOptions {
    /// Returns true if no option is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == EmailOptions::default()
    }
}

/// An attached file of a send; its bytes are not in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// Number in the send, from 0.
    pub number: u32,
    pub name: String,
    pub content_type: String,
    /// Size in bytes.
    pub size: u64,
    /// Id by which the HTML of the email refers to the file (`cid:`), without angle brackets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_id: Option<String>,
    /// True if mail programs show the file inside the email, and not in the list of attachments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inline: bool,
}

/// Methods of invitations (RFC 5546, section 1.4).
const METHODS: [&str; 8] =
    ["ADD", "CANCEL", "COUNTER", "DECLINECOUNTER", "PUBLISH", "REFRESH", "REPLY", "REQUEST"];
/// Longest content id, in bytes.
pub const MAX_CONTENT_ID: usize = 255;

impl Attachment {
    /// Returns the method of an invitation: a calendar file whose media type has the parameter `method` (RFC 6047, section 2.4).
    #[must_use]
    pub fn method(&self) -> Option<&'static str> {
        let method = calendar_method(&self.content_type)?;
        METHODS.into_iter().find(|known| method.eq_ignore_ascii_case(known))
    }

    /// Returns true if a text can be the id of a file: 1 to 255 characters that need no quotes in a header and no escapes in a
    /// `cid:` URL (RFC 2392).
    #[must_use]
    pub fn is_content_id(text: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".@_-+!$&'*/^`{|}~".contains(&byte);
        (1..=MAX_CONTENT_ID).contains(&text.len()) && text.bytes().all(is_plain)
    }
}

/// Returns the parameter `method` of the media type of a calendar file.
pub(crate) fn calendar_method(media_type: &str) -> Option<&str> {
    let (essence, parameters) = media_type.split_once(';')?;
    if !essence.trim().eq_ignore_ascii_case("text/calendar") {
        return None;
    }
    let mut named = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let (_, value) = named.find(|(name, _)| name.trim().eq_ignore_ascii_case("method"))?;
    Some(value.trim().trim_matches('"'))
}

/// Content of a push message, to a browser or a phone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PushContent {
    pub title: Option<String>,
    pub body: Option<String>,
    pub icon: Option<String>,
    /// Link that a tap opens.
    pub url: Option<String>,
    /// Arbitrary payload of the app.
    #[serde(default)]
    pub data: Object,
    /// Further members of `override.channel.webPush` or `.mobilePush`, which the channel's worker interprets.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub options: Object,
}

/// Content of an SMS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmsContent {
    pub text: String,
    /// Sender that replaces the provider's `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// Rendered content of one delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Content {
    Email(EmailContent),
    /// For the `webPush` and `mobilePush` channels.
    Push(PushContent),
    Sms(SmsContent),
}
