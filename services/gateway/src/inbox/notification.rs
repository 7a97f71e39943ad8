//! A notification as answers show it.

use domain::{CategoryId, ItemId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::inbox::InboxItem;

use crate::http::failure::Failure;

/// The interface's Notification. The content passes through as the text that is stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Notification<'a> {
    id: ItemId,
    #[serde(flatten)]
    content: Content<'a>,
    created_at: Timestamp,
    seen_at: Option<Timestamp>,
    clicked_at: Option<Timestamp>,
    category: Option<Category<'a>>,
    state: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    title: &'a RawValue,
    #[serde(borrow)]
    message: &'a RawValue,
    #[serde(borrow)]
    icon: &'a RawValue,
    #[serde(borrow)]
    url: &'a RawValue,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow)]
    blocks: &'a RawValue,
}

#[derive(Serialize)]
struct Category<'a> {
    id: CategoryId,
    identifier: &'a str,
    name: &'a str,
}

impl<'a> Notification<'a> {
    /// What a client sees of an item.
    pub(crate) fn of(item: &'a InboxItem) -> Result<Notification<'a>, Failure> {
        let content = serde_json::from_str(&item.content)
            .map_err(|error| Failure::Defect(format!("content of item {}: {error}", item.id)))?;
        Ok(Notification {
            id: item.id,
            content,
            created_at: item.created_at,
            seen_at: item.state.seen_at,
            clicked_at: item.state.clicked_at,
            category: item.category.as_ref().map(|category| Category {
                id: category.id,
                identifier: &category.identifier,
                name: &category.name,
            }),
            state: item.app_state.as_deref(),
        })
    }
}
