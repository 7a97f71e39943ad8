//! The body of a send.
#![expect(dead_code, reason = "these structs stand for their schemas alone")]

use utoipa::ToSchema;

use crate::openapi::user::Profile;
use crate::openapi::vocabulary::{Channel, FreeObject, Id, Identifier, Lane, Time};

/// What is to be sent, and to whom. At least one recipient is required.
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
    #[schema(deprecated, min_items = 1, max_items = 10000)]
    recipients: Option<Vec<Recipient>>,
    /// The identifier of a category, which is made if missing. Wins over `notification.category`.
    #[schema(value_type = Option<Identifier>)]
    category: Option<String>,
    /// Stored on the notification, and the variables of its template: at most 256 KiB. Wins per key over
    /// `notification.data`, and loses to a recipient's own data.
    #[schema(value_type = Option<FreeObject>)]
    data: Option<String>,
    r#override: Option<Override>,
    /// Not before this time, at most 90 days ahead. One that has passed means now.
    #[schema(value_type = Option<Time>)]
    send_at: Option<String>,
    /// Not after this time.
    #[schema(value_type = Option<Time>)]
    expires_at: Option<String>,
    /// More than 100 recipients are bulk in any case.
    lane: Option<Lane>,
    /// Whether a recipient that the service does not know is skipped, or refuses the whole send.
    #[schema(inline)]
    on_unknown_recipient: Option<OnUnknownRecipient>,
    /// As the header `Idempotency-Key`.
    #[schema(min_length = 1, max_length = 255, pattern = "^[!-~]*$")]
    idempotency_key: Option<String>,
}

/// What a notification says: by a template, or plainly. A title is required unless a template is named.
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

/// Who is to get it.
#[derive(ToSchema)]
pub(crate) struct SendTo {
    #[schema(min_items = 1, max_items = 10000)]
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

/// What this send does otherwise than the app's settings say.
#[derive(ToSchema)]
pub(crate) struct Override {
    /// The only channels to use. Those that the service does not deliver over are skipped.
    channels: Option<Vec<Channel>>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum OnUnknownRecipient {
    Skip,
    Reject,
}
