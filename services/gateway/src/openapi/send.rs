//! The body of a send.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::ToSchema;

use crate::openapi::user::Profile;
use crate::openapi::vocabulary::{Channel, FreeObject, Id, Identifier, Lane, Time, TopicIdentifier};

/// Content and recipients of a send. At least one recipient or topic is required.
#[derive(ToSchema)]
#[schema(
    as = SendRequest,
    rename_all = "camelCase",
    example = json!({
        "notification": {"title": "Your order is on its way", "message": "It arrives on Friday.", "category": "orders"},
        "sendTo": {"recipients": ["ada", {"identifier": "bob", "email": "bob@example.com"}]},
        "data": {"orderId": 1007},
    })
)]
pub(crate) struct SendBody {
    notification: NotificationContent,
    send_to: Option<SendTo>,
    /// Deprecated in favour of `sendTo.recipients`. The service merges both lists and removes duplicates.
    #[schema(deprecated, max_items = 10000)]
    recipients: Option<Vec<Recipient>>,
    /// Identifier of a category. The service creates the category if it is missing. Overrides `notification.category`.
    #[schema(value_type = Option<Identifier>)]
    category: Option<String>,
    data: Option<SendData>,
    r#override: Option<Override>,
    /// True if the send may use only proven targets: addresses, push tokens and subscriptions that a caller with a user token, a
    /// signature or the API secret stored. If a user has only other targets on a channel, the channel is skipped with the reason
    /// `unproven_target`. Set it for one-time codes. Default: false.
    proven_targets: Option<bool>,
    /// Earliest time of delivery, at most 90 days ahead. A time in the past means now.
    #[schema(value_type = Option<Time>)]
    send_at: Option<String>,
    /// Latest time of sending. A delivery by email, push or SMS that is not sent by then ends as `expired`.
    #[schema(value_type = Option<Time>)]
    expires_at: Option<String>,
    /// Lane of the send. A send to more than 100 recipients always uses `bulk`, and so do the further subscribers of a large topic.
    lane: Option<Lane>,
    /// Treatment of unknown recipients: `skip` them, or `reject` the whole send.
    #[schema(inline)]
    on_unknown_recipient: Option<OnUnknownRecipient>,
    /// Same as the header `Idempotency-Key`.
    #[schema(min_length = 1, max_length = 255, pattern = "^[!-~]*$")]
    idempotency_key: Option<String>,
}

/// Data of the notification, and variables of its template: at most 256 KiB without the attachments. A key here overrides the
/// same key of `notification.data`. A key of a recipient's own `data` overrides both.
#[derive(ToSchema)]
struct SendData {
    /// Files for the email channel, at most 10 MiB in total. The inbox and the other channels do not show them.
    #[schema(max_items = 50)]
    attachments: Option<Vec<FileToSend>>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// A file to attach.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", example = json!({
    "name": "invoice.pdf", "contentType": "application/pdf", "content": "JVBERi0xLjcK",
}))]
struct FileToSend {
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    /// Media type of the file. Default: `application/octet-stream`. A file with the type `text/calendar; method=REQUEST`, or another
    /// method of RFC 5546, is an invitation: mail programs show it as an event. Its calendar must contain the same `METHOD`.
    #[schema(min_length = 1, max_length = 255)]
    content_type: Option<String>,
    /// Bytes of the file in base64.
    content: String,
    /// Id by which the HTML of the email refers to the file: `<img src="cid:logo">`. Each file needs its own.
    #[schema(min_length = 1, max_length = 259)]
    content_id: Option<String>,
    /// `inline` shows the file inside the email and requires a `contentId`. Default: `inline` for a file with a `contentId`,
    /// otherwise `attachment`.
    #[schema(inline)]
    disposition: Option<Disposition>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum Disposition {
    Inline,
    Attachment,
}

/// Content of a notification: a template, or plain texts. Without a template, a title is required.
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
    /// Alias of `templateIdentifier`.
    #[schema(inline)]
    workflow: Option<Workflow>,
    #[schema(value_type = Option<Identifier>)]
    category: Option<String>,
    #[schema(value_type = Option<FreeObject>)]
    data: Option<String>,
    /// Content blocks. Clients receive them unchanged.
    #[schema(value_type = Option<Vec<FreeObject>>)]
    blocks: Option<Vec<String>>,
}

#[derive(ToSchema)]
struct Workflow {
    #[schema(value_type = Option<Identifier>)]
    identifier: Option<String>,
}

/// Recipients of a send.
#[derive(ToSchema)]
pub(crate) struct SendTo {
    /// At least one recipient is required, here or in the deprecated `recipients` of the send, unless `topics` names a topic.
    #[schema(max_items = 10000)]
    recipients: Option<Vec<Recipient>>,
    /// Topics whose subscribers are recipients too: everyone who subscribed before the send was accepted, or up to a second later, and
    /// still does when the send reaches them. Each gets the send once.
    #[schema(value_type = Option<Vec<TopicIdentifier>>, max_items = 50)]
    topics: Option<Vec<String>>,
    /// Subscribers of the topics that are not recipients, such as the person whose action the send reports. Not allowed without
    /// topics, and not for users that the send also names as recipients.
    #[schema(value_type = Option<Vec<Identifier>>, max_items = 1000)]
    exclude: Option<Vec<String>>,
}

/// A user: an identifier, or an identifier with a profile.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum Recipient {
    Known(Identifier),
    WithProfile(Box<RecipientProfile>),
}

/// A user with profile data. Before the send is planned, the service creates the user or merges the data into the profile.
/// Members other than `identifier` and `data` are key-value pairs of the profile.
#[derive(ToSchema)]
pub(crate) struct RecipientProfile {
    #[schema(value_type = Identifier)]
    identifier: String,
    /// Template variables for this recipient only.
    #[schema(value_type = Option<FreeObject>)]
    data: Option<String>,
    #[serde(flatten)]
    profile: Profile,
}

/// Overrides of the template and of the app's settings, for this send only. Each member other than `channels` and `channel`
/// overrides one provider of the app; its name is the provider's identifier.
#[derive(ToSchema)]
pub(crate) struct Override {
    /// The only channels to use. The service skips channels on which it cannot deliver.
    channels: Option<Vec<Channel>>,
    /// Overrides by channel.
    channel: Option<ChannelOverrides>,
    #[serde(flatten)]
    providers: BTreeMap<String, ProviderOverride>,
}

/// Content and options by channel. A text given here replaces the text of the template and is not rendered as a template.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", example = json!({
    "email": {"fromName": "The shop", "subject": "Your invoice", "cc": ["books@example.com"]},
    "sms": {"text": "Your invoice is in your mailbox."},
}))]
struct ChannelOverrides {
    email: Option<EmailOverride>,
    sms: Option<SmsOverride>,
    mobile_push: Option<MobilePushOverride>,
    web_push: Option<WebPushOverride>,
}

/// Overrides for email. If `text` or `html` is given, the text and HTML of the template are not used.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct EmailOverride {
    /// Sender address instead of `from` in the provider's settings. The settings list the allowed addresses in `allowedFrom`; by
    /// default, every address in the domain of their `from` is allowed. 400 (`sender_not_allowed`) if no email provider of the app
    /// allows the address. If only some do, and another one is used, the delivery fails with the reason `sender_not_allowed`.
    from: Option<String>,
    #[schema(min_length = 1, max_length = 255)]
    from_name: Option<String>,
    /// Address for replies.
    reply_to: Option<String>,
    /// One address or several; at most 50 together with `bcc`.
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
    /// Further headers, at most 50. Names consist of letters, digits and hyphens. The service refuses headers that it writes
    /// itself, and headers that control a relay.
    headers: Option<BTreeMap<String, String>>,
}

#[derive(ToSchema)]
#[serde(untagged)]
enum Addresses {
    One(String),
    Several(Vec<String>),
}

/// Overrides for SMS.
#[derive(ToSchema)]
struct SmsOverride {
    #[schema(max_length = 65536)]
    text: Option<String>,
    /// Sender instead of the one in the provider's settings.
    #[schema(min_length = 1, max_length = 255)]
    from: Option<String>,
}

/// Overrides for mobile push. The service ignores unknown members. With an Apple (`apns`) or Google (`fcm`) provider, 400 if the
/// override without its `body` does not fit into a push of that service.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct MobilePushOverride {
    #[schema(max_length = 1024)]
    title: Option<String>,
    /// Cut if the message is too large for the push service.
    #[schema(max_length = 65536)]
    body: Option<String>,
    #[schema(max_length = 2048)]
    icon: Option<String>,
    #[schema(max_length = 2048)]
    url: Option<String>,
    /// Data of the message. A key here overrides the same key of the send's `data`. Together with what the service adds, it must
    /// fit into 4,096 bytes.
    #[schema(value_type = Option<FreeObject>)]
    data: Option<String>,
    #[schema(max_length = 2048)]
    subtitle: Option<String>,
    /// Link of an image, or `data:image/…`.
    #[schema(max_length = 2048)]
    image: Option<String>,
    /// Name of the sound; empty for no sound.
    #[schema(max_length = 2048)]
    sound: Option<String>,
    badge: Option<i64>,
    /// Phones group the messages of a thread.
    #[schema(max_length = 2048)]
    thread_id: Option<String>,
    /// A later message replaces an earlier one with the same id. Printable ASCII characters.
    #[schema(max_length = 64, pattern = "^[ -~]*$")]
    collapse_id: Option<String>,
    /// Category of the actions that the app offers.
    #[schema(max_length = 2048)]
    category: Option<String>,
    #[schema(max_length = 2048)]
    interruption_level: Option<String>,
    mutable_content: Option<bool>,
    content_available: Option<bool>,
    #[schema(inline)]
    priority: Option<PushPriority>,
    /// Seconds for which the push service keeps the message.
    #[schema(minimum = 0)]
    ttl: Option<i64>,
    /// Members of the message to FCM for Android.
    #[schema(value_type = Option<FreeObject>)]
    android: Option<String>,
    /// Headers and payload for APNs: `{"headers": {…}, "payload": {…}}`, or the payload alone, with its member `aps`. The header
    /// `apns-topic` must be the topic of one of the app's `apns` providers, or begin with it and a dot; otherwise 400.
    #[schema(value_type = Option<FreeObject>)]
    apns: Option<String>,
    /// Members of the message to FCM for browsers.
    #[schema(value_type = Option<FreeObject>)]
    webpush: Option<String>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum PushPriority {
    High,
    Normal,
}

/// Overrides for web push. The service ignores unknown members.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct WebPushOverride {
    #[schema(max_length = 1024)]
    title: Option<String>,
    /// Cut if the message is too large for the push service.
    #[schema(max_length = 65536)]
    body: Option<String>,
    #[schema(max_length = 2048)]
    icon: Option<String>,
    #[schema(max_length = 2048)]
    url: Option<String>,
    /// Data of the message. A key here overrides the same key of the send's `data`. Together with `title`, `icon` and
    /// `url`, it may have 3,480 bytes.
    #[schema(value_type = Option<FreeObject>)]
    data: Option<String>,
    /// Seconds for which the push service keeps the message, at most four weeks.
    #[schema(minimum = 0, maximum = 2_419_200)]
    ttl: Option<u32>,
    #[schema(inline)]
    urgency: Option<PushUrgency>,
    /// A message replaces an undelivered message with the same topic.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,32}$")]
    topic: Option<String>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Urgency of a web push (RFC 8030, section 5.3).
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
enum PushUrgency {
    VeryLow,
    Low,
    Normal,
    High,
}

/// Overrides for one provider: the sender, and members that only this provider understands.
#[derive(ToSchema)]
struct ProviderOverride {
    /// Sender to use. Hosts and credentials belong to the provider's settings; the service refuses them here.
    _config: Option<SenderOverride>,
    #[serde(flatten)]
    members: BTreeMap<String, Value>,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct SenderOverride {
    /// 400 (`sender_not_allowed`) if the settings of this email provider do not allow the address.
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
