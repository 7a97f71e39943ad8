//! Requests about inboxes.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

use utoipa::ToSchema;

use crate::openapi::vocabulary::Id;

/// App-defined state of a notification.
#[derive(ToSchema)]
#[schema(example = json!({"state": "archived"}))]
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
}
