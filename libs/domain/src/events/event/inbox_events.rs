//! Data of the events that change inboxes after a send has added its items.

use serde::{Deserialize, Serialize};

use crate::{Digest, ItemId, Timestamp, UserNumber};

/// Data of the events that change some items of a user. The type of the event states the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemsChanged {
    pub user: UserNumber,
    pub items: Vec<ItemId>,
}

/// Data of the events that change all items on the list of a user. The type of the event states the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllItemsChanged {
    pub user: UserNumber,
    /// The highest id of the items that change. Items that were added later do not change.
    pub up_to: ItemId,
}

/// Data of `InboxItemStateSet`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemStateSet {
    pub user: UserNumber,
    pub item: ItemId,
    /// The state that the app keeps with the item. None removes the state.
    pub state: Option<String>,
}

/// Data of `InboxItemSnoozed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemsSnoozed {
    pub user: UserNumber,
    pub items: Vec<ItemId>,
    /// Time at which the items return to the list.
    pub until: Timestamp,
}

/// Data of `InboxSnoozeEnded`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnoozesEnded {
    pub user: UserNumber,
    pub items: Vec<ItemId>,
    /// Items that are snoozed beyond this time stay snoozed. None if the user ended the snoozes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
}

/// Data of `UserErased`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserErased {
    /// The user, whose number is never used again.
    pub user: UserNumber,
    /// SHA-256 of the app's number, a line feed and the user's identifier. A database that never stored the user recognises the
    /// identifier by this digest. None in events that an older release wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}
