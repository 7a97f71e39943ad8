//! Requests about categories.
#![expect(dead_code, reason = "these structs stand for their schemas alone")]

use utoipa::ToSchema;

use crate::openapi::vocabulary::Identifier;

/// A category to create.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"identifier": "orders", "name": "Orders"}))]
pub(crate) struct NewCategory {
    /// Unique within the app.
    #[schema(value_type = Identifier)]
    identifier: String,
    /// Visibility to users.
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    /// That what users prefer does not apply to it.
    critical: Option<bool>,
    /// A hint for clients: that inboxes should not show it. Lists and counters do not regard it.
    hide_in_in_app: Option<bool>,
    /// A hint for clients: that preference screens should not show it.
    hide_in_preference_manager: Option<bool>,
}
