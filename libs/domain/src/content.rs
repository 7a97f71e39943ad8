//! What a notification says, per channel.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A JSON object.
pub type Object = Map<String, Value>;

/// Content of an inbox item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InAppContent {
    /// Title text.
    pub title: Option<String>,
    /// Body text.
    pub message: Option<String>,
    /// Icon reference.
    pub icon: Option<String>,
    /// Link reference.
    pub url: Option<String>,
    /// The app's free payload.
    #[serde(default)]
    pub data: Object,
    /// Content blocks, as the app gave them.
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
    /// HTML part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
}

/// Content of a push message, to a browser or a phone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PushContent {
    /// Title line.
    pub title: Option<String>,
    /// Body text.
    pub body: Option<String>,
    /// Icon reference.
    pub icon: Option<String>,
    /// Link that a tap opens.
    pub url: Option<String>,
    /// The app's free payload.
    #[serde(default)]
    pub data: Object,
}

/// Content of a short message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmsContent {
    /// The whole text.
    pub text: String,
}

/// Rendered content of one delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Content {
    /// For the `email` channel.
    Email(EmailContent),
    /// For the `webPush` and `mobilePush` channels.
    Push(PushContent),
    /// For the `sms` channel.
    Sms(SmsContent),
}
