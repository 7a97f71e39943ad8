//! Requests about inboxes.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

use utoipa::ToSchema;

/// App-defined state of a notification.
#[derive(ToSchema)]
#[schema(example = json!({"state": "archived"}))]
pub(crate) struct NewState {
    /// At most 64 bytes, without control characters; null removes the state.
    #[schema(required = true, min_length = 1, max_length = 64)]
    state: Option<String>,
}
