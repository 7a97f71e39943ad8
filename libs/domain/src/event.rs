//! Past-tense facts and jobs, and the envelope in which they stand in the log.
//!
//! Golden files in `libs/domain/golden` hold one message per type and version, for ever: what was once written
//! stays readable.

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

/// What happened, or for [`Event::DeliveryJob`], what is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A send was accepted.
    SendAccepted(Box<SendRequest>),
    /// The next chunk of a send, or the first of a scheduled one, is due.
    SendContinues(SendContinues),
    /// Make an attempt.
    DeliveryJob(Box<DeliveryJob>),
    /// A send reached the inboxes of some users.
    InboxItemsAdded(ItemsAdded),
    /// `InboxItemSeen`, `…Unseen`, `…Read`, `…Unread` or `…Deleted`: some items of a user changed.
    InboxItemsChanged(ItemChange, ItemsChanged),
    /// `InboxAllSeen`, `…Read` or `…Deleted`: every item of a user changed, up to one.
    InboxAllChanged(AllChange, AllChanged),
    /// The app gave an item a state of its own, or took it away.
    InboxItemStateSet(ItemStateSet),
    /// A user was erased: nothing of the user may be kept, or come back.
    UserErased(UserErased),
    /// A chunk of a send was planned.
    SendPlanned(SendPlanned),
    /// A delivery reached a terminal state, or was put off.
    DeliverySettled(DeliverySettled),
    /// A target was found dead.
    TargetSuppressed(TargetSuppressed),
    /// A request was cancelled.
    RequestCancelled(RequestCancelled),
}

/// Data of `SendContinues`; the send is the envelope's.
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
    /// The delivery to attempt.
    pub delivery_id: DeliveryId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The channel, which the stream implies.
    pub channel: Channel,
    /// The user addressed.
    pub user: UserNumber,
    /// The address, token or subscription.
    pub target: String,
    /// Not after this time.
    pub expires_at: Option<Timestamp>,
    /// What to say.
    pub content: Content,
    /// The send's category, which the recipient can turn off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<CategoryId>,
    /// Which providers may make the attempt.
    #[serde(default, skip_serializing_if = "Route::is_open")]
    pub route: Route,
    /// What the send says to single providers, by their identifiers: `_config` and the provider's own members.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, Object>,
    /// Attempts on a short schedule that were made so far, since it was last put back.
    #[serde(default, skip_serializing_if = "is_none_made")]
    pub limited_retries: u32,
    /// The recipient's position in the send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipient: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none_made(retries: &u32) -> bool {
    *retries == 0
}

impl DeliveryJob {
    /// The first attempt of a delivery, which any provider may make.
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
    /// Creation time of the items.
    pub created_at: Timestamp,
    /// Their category.
    pub category_id: Option<CategoryId>,
    /// Each distinct content once.
    pub contents: Vec<InAppContent>,
    /// User and index into `contents`, at most 512.
    pub recipients: Vec<(UserNumber, u32)>,
}

/// Data of the events that change some items. The change names the event's type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemsChanged {
    /// The owner of the items.
    pub user: UserNumber,
    /// The items.
    pub items: Vec<ItemId>,
}

/// Data of the events that change all items. The change names the event's type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllChanged {
    /// The owner of the items.
    pub user: UserNumber,
    /// The highest id that is meant; items added later stay as they are.
    pub up_to: ItemId,
}

/// Data of `InboxItemStateSet`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemStateSet {
    /// The owner of the item.
    pub user: UserNumber,
    /// The item.
    pub item: ItemId,
    /// The app's own state of it; None takes it away.
    pub state: Option<String>,
}

/// Data of `UserErased`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserErased {
    /// The user, whose number is never used again.
    pub user: UserNumber,
    /// SHA-256 over the app, a line feed and the identifier: by it a database that never knew the user tells who it was. None
    /// in events of a release that did not write it.
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
    /// Inbox items ordered.
    pub in_app: u32,
    /// External deliveries ordered.
    pub deliveries: u32,
    /// (recipient, channel) pairs decided against.
    pub skipped: u32,
    /// What was decided for whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
}

/// Data of `DeliverySettled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliverySettled {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// Its channel.
    pub channel: Channel,
    /// Its user.
    pub user: UserNumber,
    /// The attempt after which it settled so.
    pub attempt: u32,
    /// The state it reached.
    pub status: Status,
    /// Why, where it did not go out.
    pub reason: Option<Reason>,
    /// The provider that answered.
    pub provider: Option<String>,
}

impl DeliverySettled {
    /// The ids of the message and of the event that tell of this (`settled`), or of what came with it: the same whoever
    /// tells, and however often. An attempt can end twice, without its answer and then with it, so the state is part of them.
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
    /// The delivery whose answer showed it.
    pub delivery_id: DeliveryId,
    /// Its channel.
    pub channel: Channel,
    /// Its user.
    pub user: UserNumber,
}

/// Data of `RequestCancelled`; the send is the envelope's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCancelled {}

/// States once which type on the wire is which event, for its name, for reading and for writing.
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

/// What an event says, without its type.
struct Data<'a>(&'a Event);
