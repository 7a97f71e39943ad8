//! Requests about preferences.
#![expect(dead_code, reason = "these structs stand for their schemas alone")]

use utoipa::ToSchema;

use crate::openapi::vocabulary::{Channel, Id};

/// What to set. Of what is named twice, the last holds.
#[derive(ToSchema)]
#[schema(example = json!({"preference": [{"categoryId": 7, "channels": [{"channel": "email", "enabled": false}]}]}))]
pub(crate) struct NewPreferences {
    #[schema(max_items = 1000)]
    preference: Vec<NewPreference>,
}

/// What to set for a category.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct NewPreference {
    #[schema(value_type = Id)]
    category_id: i64,
    #[schema(max_items = 100)]
    channels: Option<Vec<ChannelChoice>>,
}

/// Whether notifications may take a channel.
#[derive(ToSchema)]
pub(crate) struct ChannelChoice {
    #[schema(value_type = Channel)]
    channel: String,
    enabled: bool,
}
