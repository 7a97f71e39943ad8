//! Past-tense facts and jobs, and their envelope in the log.
//!
//! Golden files in `libs/domain/golden` hold one message per type and version and are never removed: every message
//! ever written stays readable.

mod decided;
mod envelope;

pub use decided::{Decided, Shape};
pub use envelope::{DecodeError, Envelope};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::content::{Content, InAppContent, Object};
use crate::inbox::{AllChange, ItemChange};
use crate::route::Route;
use crate::{
    CategoryId, Channel, DeliveryId, Digest, ItemId, Reason, SendRequest, Status, Timestamp, UserNumber,
};

/// A fact, or with [`Event::DeliveryJob`] an order.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A send was accepted.
    SendAccepted(Box<SendRequest>),
    /// The next chunk of a send, or the first of a scheduled one, is due.
    SendContinues(SendContinues),
    /// An order to make an attempt.
    DeliveryJob(Box<DeliveryJob>),
    /// A send reached the inboxes of some users.
    InboxItemsAdded(ItemsAdded),
    /// `InboxItemSeen`, `…Unseen`, `…Read`, `…Unread` or `…Deleted`: some items of a user changed.
    InboxItemsChanged(ItemChange, ItemsChanged),
    /// `InboxAllSeen`, `…Read` or `…Deleted`: every item of a user up to a given id changed.
    InboxAllChanged(AllChange, AllChanged),
    /// The app set or removed its own state of an item.
    InboxItemStateSet(ItemStateSet),
    /// A user was erased: no data of the user may be kept or return.
    UserErased(UserErased),
    /// A chunk of a send was planned.
    SendPlanned(SendPlanned),
    /// A delivery reached a terminal state, or was postponed.
    DeliverySettled(DeliverySettled),
    /// A provider reported a target dead.
    TargetSuppressed(TargetSuppressed),
    /// A request was cancelled.
    RequestCancelled(RequestCancelled),
}

/// Data of `SendContinues`; the envelope names the send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendContinues {
    /// The chunk to plan, from 0.
    #[serde(rename = "turn")]
    pub chunk: u32,
}

/// Data of `DeliveryJob`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryJob {
    pub delivery_id: DeliveryId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The channel, also implied by the stream.
    pub channel: Channel,
    /// The user addressed.
    pub user: UserNumber,
    /// The address, token or subscription.
    pub target: String,
    /// The attempt must not be made after this time.
    pub expires_at: Option<Timestamp>,
    pub content: Content,
    /// The send's category, which the recipient can turn off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<CategoryId>,
    /// The providers that may make the attempt.
    #[serde(default, skip_serializing_if = "Route::is_open")]
    pub route: Route,
    /// Overrides of the send for single providers, by provider identifier: `_config` and the provider's own members.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, Object>,
    /// Attempts made on a short schedule since the job was first published or last redriven.
    #[serde(default, skip_serializing_if = "is_none_made")]
    pub limited_retries: u32,
    /// The recipient's position in the send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipient: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none_made(retries: &u32) -> bool {
    *retries == 0
}

impl DeliveryJob {
    /// Creates the job of a delivery's first attempt, which any provider may make.
    #[must_use]
    pub fn first(
        delivery_id: DeliveryId,
        channel: Channel,
        user: UserNumber,
        target: String,
        content: Content,
    ) -> DeliveryJob {
        DeliveryJob {
            delivery_id,
            attempt: 1,
            channel,
            user,
            target,
            expires_at: None,
            content,
            category: None,
            route: Route::default(),
            overrides: BTreeMap::new(),
            limited_retries: 0,
            recipient: None,
        }
    }
}

/// Data of `InboxItemsAdded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemsAdded {
    pub created_at: Timestamp,
    pub category_id: Option<CategoryId>,
    /// Each distinct content once.
    pub contents: Vec<InAppContent>,
    /// User and index into `contents`; at most 512 entries.
    pub recipients: Vec<(UserNumber, u32)>,
}

/// Data of the events that change some items. The change names the event's type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemsChanged {
    pub user: UserNumber,
    pub items: Vec<ItemId>,
}

/// Data of the events that change all items. The change names the event's type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllChanged {
    pub user: UserNumber,
    /// The highest id that changes; items added later do not change.
    pub up_to: ItemId,
}

/// Data of `InboxItemStateSet`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemStateSet {
    pub user: UserNumber,
    pub item: ItemId,
    /// The app's own state of the item; None removes it.
    pub state: Option<String>,
}

/// Data of `UserErased`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserErased {
    /// The user, whose number is never used again.
    pub user: UserNumber,
    /// SHA-256 over the app, a line feed and the identifier: it identifies the user to a database that never knew the user.
    /// None in events of releases that did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// Data of `SendPlanned`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendPlanned {
    /// The chunk, from 0.
    #[serde(rename = "turn")]
    pub chunk: u32,
    /// Recipients of the chunk.
    pub recipients: u32,
    /// Inbox items published.
    pub in_app: u32,
    /// Jobs published for external deliveries.
    pub deliveries: u32,
    /// Skipped (recipient, channel) pairs.
    pub skipped: u32,
    /// The decision for each recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
}

/// Data of `DeliverySettled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliverySettled {
    pub delivery_id: DeliveryId,
    pub channel: Channel,
    pub user: UserNumber,
    /// The attempt that led to this state.
    pub attempt: u32,
    pub status: Status,
    /// The reason, if it was not sent.
    pub reason: Option<Reason>,
    /// The provider that answered.
    pub provider: Option<String>,
}

impl DeliverySettled {
    /// Returns the ids of the message and the event that publish this outcome (`settled`) or a related fact. They are the
    /// same for every process and every repeat. They contain the status, because an attempt can end twice: first without
    /// its answer and then with it.
    #[must_use]
    pub fn ids(&self, what: &str) -> (String, Uuid) {
        let DeliverySettled { delivery_id, attempt, status, .. } = self;
        let name = format!("{delivery_id}.{what}.{attempt}.{status}");
        let id = Uuid::new_v5(&delivery_id.0, name.as_bytes());
        (name, id)
    }
}

/// Data of `TargetSuppressed`; the target itself stays out of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetSuppressed {
    /// The delivery whose answer reported it.
    pub delivery_id: DeliveryId,
    pub channel: Channel,
    pub user: UserNumber,
}

/// Data of `RequestCancelled`; the envelope names the send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCancelled {}

/// Maps each wire type to its event, for naming, reading and writing.
macro_rules! types {
    ($($kind:literal = $event:ident $(($change:path))?),+ $(,)?) => {
        impl Event {
            /// Every type of this release.
            pub const KINDS: &'static [&'static str] = &[$($kind),+];

            /// The type's name on the wire.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self { $(Event::$event($($change,)? _) => $kind),+ }
            }

            fn read(kind: &str, data: &str) -> Result<Event, DecodeError> {
                Ok(match kind {
                    $($kind => Event::$event($($change,)? serde_json::from_str(data)?),)+
                    other => return Err(DecodeError::UnknownType(other.to_owned())),
                })
            }
        }

        impl Serialize for Data<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.0 { $(Event::$event($($change,)? data) => data.serialize(serializer)),+ }
            }
        }
    };
}

types! {
    "SendAccepted" = SendAccepted,
    "SendContinues" = SendContinues,
    "DeliveryJob" = DeliveryJob,
    "InboxItemsAdded" = InboxItemsAdded,
    "InboxItemSeen" = InboxItemsChanged(ItemChange::Seen),
    "InboxItemUnseen" = InboxItemsChanged(ItemChange::Unseen),
    "InboxItemRead" = InboxItemsChanged(ItemChange::Read),
    "InboxItemUnread" = InboxItemsChanged(ItemChange::Unread),
    "InboxItemDeleted" = InboxItemsChanged(ItemChange::Deleted),
    "InboxAllSeen" = InboxAllChanged(AllChange::Seen),
    "InboxAllRead" = InboxAllChanged(AllChange::Read),
    "InboxAllDeleted" = InboxAllChanged(AllChange::Deleted),
    "InboxItemStateSet" = InboxItemStateSet,
    "UserErased" = UserErased,
    "SendPlanned" = SendPlanned,
    "DeliverySettled" = DeliverySettled,
    "TargetSuppressed" = TargetSuppressed,
    "RequestCancelled" = RequestCancelled,
}

/// The data of an event, without its type.
struct Data<'a>(&'a Event);
