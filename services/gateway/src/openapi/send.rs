//! The body of a send.
#![expect(dead_code, reason = "these structs stand for their schemas alone")]

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::ToSchema;

use crate::openapi::user::Profile;
use crate::openapi::vocabulary::{Channel, FreeObject, Id, Identifier, Lane, Time};

/// Content and recipients of a send. At least one recipient is required.
#[derive(ToSchema)]
#[schema(
    rename_all = "camelCase",
    example = json!({
        "notification": {"title": "Your order is on its way", "message": "It arrives on Friday.", "category": "orders"},
        "sendTo": {"recipients": ["ada", {"identifier": "bob", "email": "bob@example.com"}]},
        "data": {"orderId": 1007},
    })
)]
pub(crate) struct SendRequest {
    notification: NotificationContent,
    send_to: Option<SendTo>,
    /// In favour of `sendTo.recipients`. Both are united, and duplicates removed.
    #[schema(deprecated, max_items = 10000)]
    recipients: Option<Vec<Recipient>>,
    /// The identifier of a category, which is made if missing. Wins over `notification.category`.
    #[schema(value_type = Option<Identifier>)]
    category: Option<String>,
    data: Option<SendData>,
    r#override: Option<Override>,
    /// Not before this time, at most 90 days ahead. One that has passed means now.
    #[schema(value_type = Option<Time>)]
    send_at: Option<String>,
    /// Not after this time.
    #[schema(value_type = Option<Time>)]
    expires_at: Option<String>,
    /// More than 100 recipients are bulk in any case.
    lane: Option<Lane>,
    /// Treatment of a recipient that is not known: it is skipped, or the whole send is refused.
    #[schema(inline)]
    on_unknown_recipient: Option<OnUnknownRecipient>,
    /// As the header `Idempotency-Key`.
    #[schema(min_length = 1, max_length = 255, pattern = "^[!-~]*$")]
    idempotency_key: Option<String>,
}

/// Stored on the notification, and the variables of its template: at most 256 KiB, attachments apart. Wins per key over
/// `notification.data`, and loses to a recipient's own data.
#[derive(ToSchema)]
struct SendData {
    /// Files for the email channel, at most 10 MiB together. They are not stored on the notification.
    #[schema(max_items = 50)]
    attachments: Option<Vec<FileToSend>>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// A file.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", example = json!({
    "name": "invoice.pdf", "contentType": "application/pdf", "content": "JVBERi0xLjcK",
}))]
struct FileToSend {
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    /// Its media type; `application/octet-stream` where it is left out.
    #[schema(min_length = 1, max_length = 255)]
    content_type: Option<String>,
    /// Its bytes in base64.
    content: String,
}

/// Content of a notification: a template, or plain texts. A title is required unless a template is named.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct NotificationContent {
    /// At most 1 KiB.
    #[schema(max_length = 1024)]
    title: Option<String>,
    /// At most 64 KiB.
    #[schema(max_length = 65536)]
    message: Option<String>,
    #[schema(max_length = 2048)]
    icon: Option<String>,
    #[schema(max_length = 2048)]
    url: Option<String>,
    #[schema(value_type = Option<Identifier>)]
    template_identifier: Option<String>,
    #[schema(value_type = Option<Id>)]
    template_id: Option<i64>,
    /// The template by another name.
    #[schema(inline)]
    workflow: Option<Workflow>,
    #[schema(value_type = Option<Identifier>)]
    category: Option<String>,
    #[schema(value_type = Option<FreeObject>)]
    data: Option<String>,
    /// Content blocks, as the app gives them.
    #[schema(value_type = Option<Vec<FreeObject>>)]
    blocks: Option<Vec<String>>,
}

#[derive(ToSchema)]
struct Workflow {
    #[schema(value_type = Option<Identifier>)]
    identifier: Option<String>,
}

/// Recipients.
#[derive(ToSchema)]
pub(crate) struct SendTo {
    /// At least one, here or in the deprecated `recipients` of the send.
    #[schema(max_items = 10000)]
    recipients: Option<Vec<Recipient>>,
}

/// A user, by identifier alone or with a profile.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum Recipient {
    Known(Identifier),
    WithProfile(Box<RecipientProfile>),
}

/// A user who is created, or merged, before the send is planned. Further members go to the profile.
#[derive(ToSchema)]
pub(crate) struct RecipientProfile {
    #[schema(value_type = Identifier)]
    identifier: String,
    /// Variables of this recipient alone.
    #[schema(value_type = Option<FreeObject>)]
    data: Option<String>,
    #[serde(flatten)]
    profile: Profile,
}

/// Changes to the template and to the app's settings for this send. Every further member names a provider of
/// the app by its identifier.
#[derive(ToSchema)]
pub(crate) struct Override {
    /// The only channels to use. Those that the service does not deliver over are skipped.
    channels: Option<Vec<Channel>>,
    /// By channel.
    channel: Option<ChannelOverrides>,
    #[serde(flatten)]
    providers: BTreeMap<String, ProviderOverride>,
}

/// Content and options of single channels. A text given here replaces that of the template and is not rendered.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", example = json!({
    "email": {"fromName": "The shop", "subject": "Your invoice", "cc": ["books@example.com"]},
    "sms": {"text": "Your invoice is in your mailbox."},
}))]
struct ChannelOverrides {
    email: Option<EmailOverride>,
    sms: Option<SmsOverride>,
    mobile_push: Option<PushOverride>,
    web_push: Option<PushOverride>,
}

/// An email. With `text` or `html`, neither part comes from the template.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct EmailOverride {
    /// Address in place of the provider's. A provider sends only in names that its settings allow, by default any of its
    /// own domain; otherwise the delivery fails with the code `sender_not_allowed`.
    from: Option<String>,
    #[schema(min_length = 1, max_length = 255)]
    from_name: Option<String>,
    /// Address that answers go to.
    reply_to: Option<String>,
    /// One address or several; at most 50 with those of `bcc`.
    #[schema(inline)]
    cc: Option<Addresses>,
    #[schema(inline)]
    bcc: Option<Addresses>,
    #[schema(min_length = 1, max_length = 1024)]
    subject: Option<String>,
    #[schema(max_length = 262144)]
    text: Option<String>,
    #[schema(max_length = 262144)]
    html: Option<String>,
    /// Further headers, at most 50. Names are letters, digits and hyphens. Those that the service writes itself, or that
    /// tell a relay what to do, are refused.
    headers: Option<BTreeMap<String, String>>,
}

#[derive(ToSchema)]
#[serde(untagged)]
enum Addresses {
    One(String),
    Several(Vec<String>),
}

/// A short message.
#[derive(ToSchema)]
struct SmsOverride {
    #[schema(max_length = 65536)]
    text: Option<String>,
    /// Sender in place of the provider's.
    #[schema(min_length = 1, max_length = 255)]
    from: Option<String>,
}

/// A push message. Further members are for the push service.
#[derive(ToSchema)]
struct PushOverride {
    #[schema(max_length = 1024)]
    title: Option<String>,
    #[schema(max_length = 65536)]
    body: Option<String>,
    #[schema(max_length = 2048)]
    icon: Option<String>,
    #[schema(max_length = 2048)]
    url: Option<String>,
    /// Wins per key over the send's data.
    #[schema(value_type = Option<FreeObject>)]
    data: Option<String>,
    #[serde(flatten)]
    options: BTreeMap<String, Value>,
}

/// Provider-specific members and the sender.
#[derive(ToSchema)]
struct ProviderOverride {
    /// Sender. Hosts and credentials belong to the provider's settings and are refused here.
    _config: Option<SenderOverride>,
    #[serde(flatten)]
    members: BTreeMap<String, Value>,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct SenderOverride {
    #[schema(min_length = 1, max_length = 255)]
    from: Option<String>,
    #[schema(min_length = 1, max_length = 255)]
    from_name: Option<String>,
    reply_to: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum OnUnknownRecipient {
    Skip,
    Reject,
}
