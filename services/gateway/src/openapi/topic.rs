//! Requests about topics.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

use utoipa::ToSchema;

use crate::openapi::vocabulary::Identifier;

/// Values of a topic. A value that is not given stays as it is.
#[derive(ToSchema)]
#[schema(example = json!({"name": "News", "open": true}))]
pub(crate) struct TopicValues {
    /// Display name, shown to users. Default for a new topic: its identifier.
    #[schema(min_length = 1, max_length = 255)]
    name: Option<String>,
    /// True if users may subscribe themselves. Default for a new topic: false.
    open: Option<bool>,
}

/// Users to subscribe and to unsubscribe, at most 1,000 together. At least one of the two lists is required, and no user may be in
/// both.
#[derive(ToSchema)]
#[schema(example = json!({"add": ["ada", "bob"], "remove": ["eve"]}))]
pub(crate) struct SubscriptionChanges {
    #[schema(value_type = Option<Vec<Identifier>>, max_items = 1000)]
    add: Option<Vec<String>>,
    #[schema(value_type = Option<Vec<Identifier>>, max_items = 1000)]
    remove: Option<Vec<String>>,
}
