//! Requests about inboxes.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

use utoipa::ToSchema;

use crate::openapi::vocabulary::{Id, Time};

/// App-defined state of a notification.
#[derive(ToSchema)]
#[schema(example = json!({"state": "done"}))]
pub(crate) struct NewState {
    /// At most 64 bytes, without control characters; null removes the state.
    #[schema(required = true, min_length = 1, max_length = 64)]
    state: Option<String>,
}

/// One change to several notifications.
#[derive(ToSchema)]
#[schema(example = json!({"ids": [4096, 4097], "change": "read"}))]
pub(crate) struct BulkChange {
    /// Ids of notifications; at most 100.
    #[schema(value_type = Vec<Id>, min_items = 1, max_items = 100)]
    ids: Vec<i64>,
    change: ItemChange,
    /// Required for `snoozed`: time at which the notifications return to the list, at most 365 days ahead. Only for `snoozed`.
    #[schema(value_type = Option<Time>, nullable = false)]
    until: Option<String>,
}

/// Time until which a notification is snoozed.
#[derive(ToSchema)]
#[schema(example = json!({"until": "2027-01-31T09:00:00.000Z"}))]
pub(crate) struct Snooze {
    /// Time at which the notification returns to the list, at most 365 days ahead.
    #[schema(value_type = Time)]
    until: String,
}

/// A change to a notification.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum ItemChange {
    Seen,
    Unseen,
    Read,
    Unread,
    Deleted,
    Archived,
    Unarchived,
    Snoozed,
    Unsnoozed,
}
