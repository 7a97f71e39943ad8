//! JSON form of notifications in answers.

use domain::{CategoryId, ItemId, SendId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::inbox::list::InboxItem;
use utoipa::ToSchema;
use web::failure::Failure;

use crate::openapi::vocabulary::{FreeObject, Id, Identifier, Time, Uuid};

/// A notification of a user's inbox.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": 4096, "requestId": "018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11", "title": "Your order is on its way", "message": "It arrives on Friday.", "icon": null,
    "url": "https://shop.example/orders/1007", "data": {"orderId": 1007}, "blocks": [],
    "createdAt": "2027-01-31T09:00:00.000Z", "seenAt": "2027-01-31T09:05:00.000Z", "clickedAt": null,
    "category": {"id": 7, "identifier": "orders", "name": "Orders"}, "state": null,
    "archivedAt": null, "snoozedUntil": null,
}))]
pub(crate) struct Notification<'a> {
    #[schema(value_type = Id)]
    id: ItemId,
    /// The `requestId` of the send.
    #[schema(value_type = Uuid)]
    request_id: SendId,
    #[serde(flatten)]
    content: Content<'a>,
    #[schema(value_type = Time)]
    created_at: Timestamp,
    #[schema(value_type = Option<Time>)]
    seen_at: Option<Timestamp>,
    /// Time at which the notification was read; null if it is unread.
    #[schema(value_type = Option<Time>)]
    clicked_at: Option<Timestamp>,
    #[schema(inline)]
    category: Option<Category<'a>>,
    /// App-defined state of the notification; null if it has none.
    state: Option<&'a str>,
    /// Time at which the notification was archived; null if it is not archived.
    #[schema(value_type = Option<Time>)]
    archived_at: Option<Timestamp>,
    /// Time until which the notification is snoozed; null if it is not snoozed.
    #[schema(value_type = Option<Time>)]
    snoozed_until: Option<Timestamp>,
}

// The JSON text of each member is copied from the stored content into the answer without being parsed.
#[derive(Serialize, Deserialize, ToSchema)]
struct Content<'a> {
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    title: &'a RawValue,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    message: &'a RawValue,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    icon: &'a RawValue,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    url: &'a RawValue,
    #[serde(borrow)]
    #[schema(value_type = FreeObject)]
    data: &'a RawValue,
    #[serde(borrow)]
    #[schema(value_type = Vec<FreeObject>)]
    blocks: &'a RawValue,
}

#[derive(Serialize, ToSchema)]
struct Category<'a> {
    #[schema(value_type = Id)]
    id: CategoryId,
    #[schema(value_type = Identifier)]
    identifier: &'a str,
    name: &'a str,
}

/// Longest member, in bytes of JSON, that a shortened notification keeps.
const SHORT: usize = 2 * 1024;

impl<'a> Notification<'a> {
    /// Returns the notification without its long members: `data` and `blocks` are empty, and a long text is null.
    pub(crate) fn shortened(mut self) -> Notification<'a> {
        let content = &mut self.content;
        let members = [&mut content.title, &mut content.message, &mut content.icon, &mut content.url];
        for member in members.into_iter().filter(|member| member.get().len() > SHORT) {
            *member = RawValue::NULL;
        }
        content.data = constant("{}");
        content.blocks = constant("[]");
        self
    }

    /// Builds the JSON form of an item. Fails if its stored content is malformed.
    pub(crate) fn of(item: &'a InboxItem) -> Result<Notification<'a>, Failure> {
        let content = serde_json::from_str(&item.content)
            .map_err(|error| Failure::Defect(format!("content of item {}: {error}", item.id)))?;
        Ok(Notification {
            id: item.id,
            request_id: item.send,
            content,
            created_at: item.created_at,
            seen_at: item.state.seen_at,
            clicked_at: item.state.clicked_at,
            category: item.category.as_ref().map(|category| Category {
                id: category.id,
                identifier: &category.identifier,
                name: &category.name,
            }),
            state: item.state.app_state.as_deref(),
            archived_at: item.state.archived_at,
            snoozed_until: item.state.snoozed_until,
        })
    }
}

/// Parses JSON text that the code contains.
fn constant(text: &'static str) -> &'static RawValue {
    serde_json::from_str(text).unwrap_or(RawValue::NULL)
}
