//! What a recipient would get to read, as a dry run shows it.

use domain::content::{Content, InAppContent, Object};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::openapi::vocabulary::FreeObject;

/// Rendered content, by its channel.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = RenderedContent)]
pub(crate) enum ShownContent {
    InApp(InAppBody),
    Email(EmailBody),
    Push(PushBody),
    Sms(SmsBody),
}

/// An inbox item.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RenderedInApp)]
pub(crate) struct InAppBody {
    title: Option<String>,
    message: Option<String>,
    icon: Option<String>,
    url: Option<String>,
    #[schema(value_type = FreeObject)]
    data: Object,
    #[schema(value_type = Vec<FreeObject>)]
    blocks: Vec<Value>,
}

/// An email.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RenderedEmail)]
pub(crate) struct EmailBody {
    subject: String,
    text: Option<String>,
    html: Option<String>,
}

/// A push message.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RenderedPush)]
pub(crate) struct PushBody {
    title: Option<String>,
    body: Option<String>,
    icon: Option<String>,
    url: Option<String>,
    #[schema(value_type = FreeObject)]
    data: Object,
}

/// A short message.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RenderedSms)]
pub(crate) struct SmsBody {
    text: String,
}

impl From<InAppContent> for ShownContent {
    fn from(content: InAppContent) -> ShownContent {
        let InAppContent { title, message, icon, url, data, blocks } = content;
        ShownContent::InApp(InAppBody { title, message, icon, url, data, blocks })
    }
}

impl From<Content> for ShownContent {
    fn from(content: Content) -> ShownContent {
        match content {
            Content::Email(email) => {
                ShownContent::Email(EmailBody { subject: email.subject, text: email.text, html: email.html })
            }
            Content::Push(push) => ShownContent::Push(PushBody {
                title: push.title,
                body: push.body,
                icon: push.icon,
                url: push.url,
                data: push.data,
            }),
            Content::Sms(sms) => ShownContent::Sms(SmsBody { text: sms.text }),
        }
    }
}
