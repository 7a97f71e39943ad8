//! Requests about preferences.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

use utoipa::ToSchema;

use crate::openapi::vocabulary::{Channel, Id};

/// Preferences to set. If a channel of a category is named twice, the last one counts.
#[derive(ToSchema)]
#[schema(example = json!({"preference": [{"categoryId": 7, "channels": [{"channel": "email", "enabled": false}]}]}))]
pub(crate) struct NewPreferences {
    #[schema(max_items = 1000)]
    preference: Vec<NewPreference>,
}

/// Preferences to set for one category.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct NewPreference {
    #[schema(value_type = Id)]
    category_id: i64,
    #[schema(max_items = 100)]
    channels: Option<Vec<ChannelChoice>>,
}

/// Preference for one channel. If `enabled` is false, notifications of the category do not use the channel.
#[derive(ToSchema)]
pub(crate) struct ChannelChoice {
    #[schema(value_type = Channel)]
    channel: String,
    enabled: bool,
}
