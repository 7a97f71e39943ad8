//! Messages of the event log: events, jobs, and the envelope of both.
//!
//! A message contains one event, or several if it is a [`bundle`]. Golden files in `libs/domain/golden` contain one message per type,
//! and a bundle. They are never removed, because every message ever written must stay readable.

pub mod bundle;
mod chunk_decisions;
mod envelope;
mod inbox_events;

pub use chunk_decisions::{ChunkDecisions, Shape};
pub use envelope::{DecodeError, Envelope, envelope_owner};
pub use inbox_events::{AllItemsChanged, ItemStateSet, ItemsChanged, ItemsSnoozed, SnoozesEnded, UserErased};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::content::{Content, InAppContent, Object};
use crate::inbox::{AllChange, ItemChange};
use crate::route::Route;
use crate::{CategoryId, Channel, DeliveryId, Expansion, Reason, SendRequest, Status, Timestamp, UserNumber};

/// An event, or a job in the case of [`Event::DeliveryJob`].
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A send was accepted.
    SendAccepted(Box<SendRequest>),
    /// The next chunk of a send, or the first chunk of a scheduled send, is due for planning.
    SendContinues(SendContinues),
    /// A job: a worker must make one delivery attempt.
    DeliveryJob(Box<DeliveryJob>),
    /// Items of a send were added to the inboxes of some users.
    InboxItemsAdded(ItemsAdded),
    /// `InboxItemSeen`, `…Unseen`, `…Read`, `…Unread`, `…Deleted`, `…Archived` or `…Unarchived`: some items of a user changed.
    InboxItemsChanged(ItemChange, ItemsChanged),
    /// `InboxAllSeen`, `…Read` or `…Deleted`: every item on the list of a user changed, up to a given id.
    InboxAllChanged(AllChange, AllItemsChanged),
    /// The app set or removed the state that it keeps with an item.
    InboxItemStateSet(ItemStateSet),
    /// The user hid some items until a given time.
    InboxItemsSnoozed(ItemsSnoozed),
    /// Some items of a user are no longer snoozed.
    InboxSnoozesEnded(SnoozesEnded),
    /// A user was erased: the user's data must be deleted and must not reappear.
    UserErased(UserErased),
    /// A chunk of a send was planned.
    ChunkPlanned(ChunkPlanned),
    /// A delivery reached a terminal status, or waits for a retry after a failed attempt.
    DeliverySettled(DeliverySettled),
    /// A provider reported a target dead.
    TargetSuppressed(TargetSuppressed),
    /// A request was cancelled.
    RequestCancelled(RequestCancelled),
}

/// Data of `SendContinues`; the envelope names the send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendContinues {
    /// The chunk to plan, from 0.
    #[serde(rename = "turn")]
    pub chunk: u32,
    /// The recipients of the chunk, if they are subscribers. None if the send lists them, or if the chunk is already frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expansion: Option<Expansion>,
    /// True if the send has topics. Releases before 0.4.0 cannot continue such a send.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_topics: bool,
}

impl SendContinues {
    /// Requests a chunk that needs no expansion: the send lists its recipients, or it is already frozen.
    #[must_use]
    pub fn plain(send: &SendRequest, chunk: u32) -> SendContinues {
        SendContinues { chunk, expansion: None, has_topics: send.has_topics() }
    }
}

/// Data of `DeliveryJob`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryJob {
    pub delivery_id: DeliveryId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The channel, which the name of the stream also contains.
    pub channel: Channel,
    pub user: UserNumber,
    /// Email address, phone number, push token or web push endpoint.
    pub target: String,
    /// The attempt must not be made after this time.
    pub expires_at: Option<Timestamp>,
    pub content: Content,
    /// The send's category. The recipient can turn the channel off for this category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<CategoryId>,
    /// The providers that may be called for the attempt.
    #[serde(default, skip_serializing_if = "Route::is_open")]
    pub route: Route,
    /// Overrides of the send for single providers, by provider identifier. Each contains settings (`_config`) and members that
    /// only this provider understands.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, Object>,
    /// Number of attempts that ended in a temporary failure with a `RetryLimit`, counted since the job was first published or
    /// last redriven.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limited_retries: u32,
    /// Number of calls whose outcome is unknown, counted since the job was first published or last redriven.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub doubts: u32,
    /// The recipient's position in the send, from 0. None in jobs that an older release wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipient: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl DeliveryJob {
    /// Creates the job of a delivery's first attempt, for which any provider may be called.
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
            doubts: 0,
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
    /// Index of the first item among all items of the message. It is 0, except in a [`bundle`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: u32,
    /// The distinct contents of the items.
    pub contents: Vec<InAppContent>,
    /// Each recipient's user and the index of the content in `contents`. A message contains at most 512 recipients.
    pub recipients: Vec<(UserNumber, u32)>,
}

/// Data of `SendPlanned`, the event that reports the plan of one chunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChunkPlanned {
    /// Number of the chunk, from 0.
    #[serde(rename = "turn")]
    pub chunk: u32,
    /// Number of recipients of the chunk.
    pub recipients: u32,
    /// Number of inbox items published.
    pub in_app: u32,
    /// Number of jobs published for external deliveries.
    pub deliveries: u32,
    /// Number of skipped (recipient, channel) pairs.
    pub skipped: u32,
    /// The decision for each recipient. None in events that an older release wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<ChunkDecisions>,
    /// The recipients of the chunk, if they are subscribers. None if the send lists them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expansion: Option<Expansion>,
}

/// Data of `DeliverySettled`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenOutcome", into = "WrittenOutcome")]
pub struct DeliverySettled {
    pub delivery_id: DeliveryId,
    pub channel: Channel,
    pub user: UserNumber,
    /// Number of the attempt that led to this status.
    pub attempt: u32,
    pub status: Status,
    /// The reason, if the message was not sent.
    pub reason: Option<Reason>,
    /// The provider that answered.
    pub provider: Option<String>,
}

/// [`DeliverySettled`] on the wire. The previous release reads `reason` and ignores `detail`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenOutcome {
    delivery_id: DeliveryId,
    channel: Channel,
    user: UserNumber,
    attempt: u32,
    status: Status,
    reason: Option<Reason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    provider: Option<String>,
}

impl From<WrittenOutcome> for DeliverySettled {
    fn from(written: WrittenOutcome) -> DeliverySettled {
        let WrittenOutcome { delivery_id, channel, user, attempt, status, reason, detail, provider } =
            written;
        let reason = reason.map(|reason| reason.with_detail(detail.as_deref()));
        DeliverySettled { delivery_id, channel, user, attempt, status, reason, provider }
    }
}

impl From<DeliverySettled> for WrittenOutcome {
    fn from(settled: DeliverySettled) -> WrittenOutcome {
        let DeliverySettled { delivery_id, channel, user, attempt, status, reason, provider } = settled;
        let detail = reason.and_then(Reason::detail).map(|detail| detail.as_str().to_owned());
        let reason = reason.map(Reason::known_before);
        WrittenOutcome { delivery_id, channel, user, attempt, status, reason, detail, provider }
    }
}

impl DeliverySettled {
    /// Returns the message id and the event id under which an event about this outcome is published. `what` is `settled` for the
    /// outcome itself, and `suppressed` for the suppression of its target. A process that publishes the event again derives the
    /// same ids. The ids depend on the status, because one attempt can have two outcomes: the first without the provider's
    /// answer, the second with it.
    #[must_use]
    pub fn ids(&self, what: &str) -> (String, Uuid) {
        let DeliverySettled { delivery_id, attempt, status, .. } = self;
        let name = format!("{delivery_id}.{what}.{attempt}.{status}");
        let id = Uuid::new_v5(&delivery_id.0, name.as_bytes());
        (name, id)
    }
}

/// Data of `TargetSuppressed`, which does not contain the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetSuppressed {
    /// The delivery for which the provider reported the target dead.
    pub delivery_id: DeliveryId,
    pub channel: Channel,
    pub user: UserNumber,
}

/// Data of `RequestCancelled`; the envelope names the send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCancelled {}

/// Generates the type name, the reader and the writer of every event.
macro_rules! types {
    ($($kind:literal = $event:ident $(($change:path))?),+ $(,)?) => {
        impl Event {
            /// The names of all event types of this release.
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
    "InboxItemArchived" = InboxItemsChanged(ItemChange::Archived),
    "InboxItemUnarchived" = InboxItemsChanged(ItemChange::Unarchived),
    "InboxItemSnoozed" = InboxItemsSnoozed,
    "InboxSnoozeEnded" = InboxSnoozesEnded,
    "InboxAllSeen" = InboxAllChanged(AllChange::Seen),
    "InboxAllRead" = InboxAllChanged(AllChange::Read),
    "InboxAllDeleted" = InboxAllChanged(AllChange::Deleted),
    "InboxItemStateSet" = InboxItemStateSet,
    "UserErased" = UserErased,
    "SendPlanned" = ChunkPlanned,
    "DeliverySettled" = DeliverySettled,
    "TargetSuppressed" = TargetSuppressed,
    "RequestCancelled" = RequestCancelled,
}

impl Event {
    /// The version of the event's message. Releases before 0.4.0 cannot read sends to topics. They ignore unknown members, so without a
    /// newer version they would leave out the subscribers.
    fn version(&self) -> u16 {
        let is_topical = match self {
            Event::SendAccepted(send) => send.has_topics(),
            Event::SendContinues(continues) => continues.has_topics,
            _ => false,
        };
        if is_topical { envelope::WITH_TOPICS } else { envelope::VERSION }
    }
}

/// The data of an event, without its type.
struct Data<'a>(&'a Event);
