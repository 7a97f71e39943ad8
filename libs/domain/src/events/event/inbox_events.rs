use serde::{Deserialize, Serialize};

use crate::{Digest, ItemId, Timestamp, UserNumber};

/// The type of the event states the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemsChanged {
    pub user: UserNumber,
    pub items: Vec<ItemId>,
}

/// The type of the event states the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllItemsChanged {
    pub user: UserNumber,
    /// Items that were added later do not change.
    pub up_to: ItemId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemStateSet {
    pub user: UserNumber,
    pub item: ItemId,
    /// None removes the state.
    pub state: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemsSnoozed {
    pub user: UserNumber,
    pub items: Vec<ItemId>,
    /// Return to the list.
    pub until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnoozesEnded {
    pub user: UserNumber,
    pub items: Vec<ItemId>,
    /// Items that are snoozed beyond this time stay snoozed. None if the user ended the snoozes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserErased {
    /// The number is never used again.
    pub user: UserNumber,
    /// SHA-256 of the app's number, a line feed and the user's identifier. A database that never stored the user recognises the identifier
    /// by it. None in events that an older release wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}
