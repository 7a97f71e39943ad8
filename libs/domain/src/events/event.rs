//! Messages of the event log: events, jobs, and the envelope of both. `libs/domain/golden` contains a message of every type, and a bundle;
//! golden files are never removed, because every message ever written must stay readable.

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

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    SendAccepted(Box<SendRequest>),
    /// The next chunk of a send, or the first of a scheduled send, is due for planning.
    SendContinues(SendContinues),
    /// A worker must make one delivery attempt.
    DeliveryJob(Box<DeliveryJob>),
    InboxItemsAdded(ItemsAdded),
    /// `InboxItemSeen`, `…Unseen`, `…Read`, `…Unread`, `…Deleted`, `…Archived` or `…Unarchived`.
    InboxItemsChanged(ItemChange, ItemsChanged),
    /// `InboxAllSeen`, `…Read` or `…Deleted`: every item on the list of a user changed, up to a given id.
    InboxAllChanged(AllChange, AllItemsChanged),
    InboxItemStateSet(ItemStateSet),
    InboxItemsSnoozed(ItemsSnoozed),
    InboxSnoozesEnded(SnoozesEnded),
    /// The user's data must be deleted and must not reappear.
    UserErased(UserErased),
    ChunkPlanned(ChunkPlanned),
    /// A delivery reached a terminal status, or waits for a retry after a failed attempt.
    DeliverySettled(DeliverySettled),
    TargetSuppressed(TargetSuppressed),
    RequestCancelled(RequestCancelled),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendContinues {
    #[serde(rename = "turn")]
    pub chunk: u32,
    /// None if the send lists its recipients, or if the chunk is already frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expansion: Option<Expansion>,
    /// Releases before 0.4.0 cannot continue a send with topics.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_topics: bool,
}

impl SendContinues {
    /// Requests a chunk that needs no expansion.
    #[must_use]
    pub fn plain(send: &SendRequest, chunk: u32) -> SendContinues {
        SendContinues { chunk, expansion: None, has_topics: send.has_topics() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryJob {
    pub delivery_id: DeliveryId,
    pub attempt: u32,
    /// Contained in the name of the stream as well.
    pub channel: Channel,
    pub user: UserNumber,
    pub target: String,
    /// The attempt must not be made after this time.
    pub expires_at: Option<Timestamp>,
    pub content: Content,
    /// The recipient can turn the channel off for this category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<CategoryId>,
    #[serde(default, skip_serializing_if = "Route::is_open")]
    pub route: Route,
    /// Keyed by provider identifier. Each contains settings (`_config`) and members that only this provider understands.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, Object>,
    /// Attempts that ended in a temporary failure with a `RetryLimit`, since the job was first published or last redriven.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limited_retries: u32,
    /// Calls whose outcome is unknown, since the job was first published or last redriven.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub doubts: u32,
    /// Position in the send, from 0. None in jobs that an older release wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipient: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl DeliveryJob {
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemsAdded {
    pub created_at: Timestamp,
    pub category_id: Option<CategoryId>,
    /// Index of the first item among all items of the message: 0, except in a [`bundle`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: u32,
    pub contents: Vec<InAppContent>,
    /// Each recipient's user and the index of the content in `contents`; at most 512.
    pub recipients: Vec<(UserNumber, u32)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChunkPlanned {
    #[serde(rename = "turn")]
    pub chunk: u32,
    pub recipients: u32,
    pub in_app: u32,
    pub deliveries: u32,
    pub skipped: u32,
    /// None in events that an older release wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<ChunkDecisions>,
    /// None if the send lists its recipients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expansion: Option<Expansion>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenOutcome", into = "WrittenOutcome")]
pub struct DeliverySettled {
    pub delivery_id: DeliveryId,
    pub channel: Channel,
    pub user: UserNumber,
    /// Number of the attempt that led to this status.
    pub attempt: u32,
    pub status: Status,
    pub reason: Option<Reason>,
    pub provider: Option<String>,
}

/// Wire format: the previous release reads `reason` and ignores `detail`.
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
    /// Returns the message id and the event id under which an event about this outcome is published; `what` is `settled` or `suppressed`. A
    /// process that publishes the event again derives the same ids. They depend on the status, because one attempt can have two outcomes:
    /// the first without the provider's answer, the second with it.
    #[must_use]
    pub fn ids(&self, what: &str) -> (String, Uuid) {
        let DeliverySettled { delivery_id, attempt, status, .. } = self;
        let name = format!("{delivery_id}.{what}.{attempt}.{status}");
        let id = Uuid::new_v5(&delivery_id.0, name.as_bytes());
        (name, id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetSuppressed {
    pub delivery_id: DeliveryId,
    pub channel: Channel,
    pub user: UserNumber,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCancelled {}

macro_rules! types {
    ($($kind:literal = $event:ident $(($change:path))?),+ $(,)?) => {
        impl Event {
            pub const KINDS: &'static [&'static str] = &[$($kind),+];

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
    /// Releases before 0.4.0 ignore unknown members: without a newer version they would leave out the subscribers of a send to topics.
    fn version(&self) -> u16 {
        let is_topical = match self {
            Event::SendAccepted(send) => send.has_topics(),
            Event::SendContinues(continues) => continues.has_topics,
            _ => false,
        };
        if is_topical { envelope::WITH_TOPICS } else { envelope::VERSION }
    }
}

struct Data<'a>(&'a Event);
