//! Requests about categories.
#![expect(dead_code, reason = "these structs stand for their schemas alone")]

use utoipa::ToSchema;

use crate::openapi::vocabulary::Identifier;

/// A category to create.
#[derive(ToSchema)]
#[schema(example = json!({"identifier": "orders", "name": "Orders"}))]
pub(crate) struct NewCategory {
    /// Unique within the app.
    #[schema(value_type = Identifier)]
    identifier: String,
    /// Shown to users.
    #[schema(min_length = 1, max_length = 255)]
    name: String,
}
