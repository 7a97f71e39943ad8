//! Rendered content, as the answers to dry runs show it.

use std::collections::BTreeMap;

use domain::content::{Attachment, Content, EmailContent, EmailOptions, InAppContent, Object};
use domain::content_ids;
use operations::sends::dry_run::RenderedContent;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::openapi::vocabulary::FreeObject;

/// Rendered content. Its members depend on the channel.
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
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RenderedEmail)]
pub(crate) struct EmailBody {
    subject: String,
    text: Option<String>,
    html: Option<String>,
    /// Sender address; null if the provider's settings determine the sender.
    from: Option<String>,
    from_name: Option<String>,
    reply_to: Option<String>,
    cc: Vec<String>,
    bcc: Vec<String>,
    /// Additional headers, by name.
    headers: BTreeMap<String, String>,
    attachments: Vec<AttachmentBody>,
    /// Ids that the HTML refers to with `cid:` and that no file has, at most 20. Mail programs show broken images there.
    #[schema(max_items = 20)]
    missing_content_ids: Vec<String>,
}

/// A file of an email.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RenderedAttachment)]
struct AttachmentBody {
    name: String,
    content_type: String,
    /// Size of the file in bytes.
    size: u64,
    /// Id by which the HTML refers to the file; null if the file has none.
    content_id: Option<String>,
    disposition: &'static str,
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
    /// Further members of `override.channel.mobilePush` or `override.channel.webPush`, which the push service receives.
    #[schema(value_type = FreeObject)]
    options: Object,
}

/// An SMS.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RenderedSms)]
pub(crate) struct SmsBody {
    text: String,
    /// Sender; null if the provider's settings determine it.
    from: Option<String>,
}

impl From<RenderedContent> for ShownContent {
    fn from(content: RenderedContent) -> ShownContent {
        match content {
            RenderedContent::InApp(content) => {
                let InAppContent { title, message, icon, url, data, blocks } = content;
                ShownContent::InApp(InAppBody { title, message, icon, url, data, blocks })
            }
            RenderedContent::External(content) => content.into(),
        }
    }
}

impl From<Content> for ShownContent {
    fn from(content: Content) -> ShownContent {
        match content {
            Content::Email(email) => ShownContent::Email(email.into()),
            Content::Push(push) => ShownContent::Push(PushBody {
                title: push.title,
                body: push.body,
                icon: push.icon,
                url: push.url,
                data: push.data,
                options: push.options,
            }),
            Content::Sms(sms) => ShownContent::Sms(SmsBody { text: sms.text, from: sms.from }),
        }
    }
}

impl From<EmailContent> for EmailBody {
    fn from(content: EmailContent) -> EmailBody {
        let EmailContent { subject, text, html, options, .. } = content;
        let EmailOptions { from, from_name, reply_to, cc, bcc, headers, attachments } = options;
        let shown = |file: Attachment| AttachmentBody {
            name: file.name,
            content_type: file.content_type,
            size: file.size,
            content_id: file.content_id,
            disposition: if file.inline { "inline" } else { "attachment" },
        };
        let missing_content_ids = content_ids::missing(html.as_deref().unwrap_or_default(), &attachments);
        let attachments = attachments.into_iter().map(shown).collect();
        EmailBody {
            subject,
            text,
            html,
            from,
            from_name,
            reply_to,
            cc,
            bcc,
            headers,
            attachments,
            missing_content_ids,
        }
    }
}
