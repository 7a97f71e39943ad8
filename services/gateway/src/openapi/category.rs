//! Requests about categories.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

use utoipa::ToSchema;

use crate::openapi::vocabulary::Identifier;

/// A category to create.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"identifier": "orders", "name": "Orders"}))]
pub(crate) struct NewCategory {
    /// Unique within the app.
    #[schema(value_type = Identifier)]
    identifier: String,
    /// Display name, shown to users.
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    /// Critical: user preferences are ignored for this category. Default: false.
    critical: Option<bool>,
    /// Hint for clients to hide the category in inboxes. Lists and counters ignore it. Default: false.
    hide_in_in_app: Option<bool>,
    /// Hint for clients to hide the category on preference screens. Default: false.
    hide_in_preference_manager: Option<bool>,
}
