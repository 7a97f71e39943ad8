//! Past-tense facts and jobs, and the envelope in which they stand in the log.
//!
//! Golden files in `libs/domain/golden` hold one message per type and version, for ever: what was once written
//! stays readable.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::content::{Content, InAppContent};
use crate::inbox::ItemChange;
use crate::{
    AppId, CategoryId, Channel, DeliveryId, ItemId, Reason, Send, SendId, Status, Timestamp, UserNumber,
};

/// A message of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Identity of this message.
    pub id: Uuid,
    /// The app that it belongs to.
    pub app: AppId,
    /// When the fact happened; what replays go by.
    pub at: Timestamp,
    /// The send that it concerns.
    pub send_id: Option<SendId>,
    /// The message that led to it.
    pub caused_by: Option<Uuid>,
    /// W3C trace context (`traceparent`) of the work that wrote it.
    pub trace: Option<String>,
    /// What happened.
    pub event: Event,
}

/// What happened, or for [`Event::DeliveryJob`], what is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A send was accepted.
    SendAccepted(Box<Send>),
    /// The next turn of a send, or the first of a scheduled one, is due.
    SendContinues(SendContinues),
    /// Make an attempt.
    DeliveryJob(Box<DeliveryJob>),
    /// A send reached the inboxes of some users.
    InboxItemsAdded(ItemsAdded),
    /// `InboxItemSeen`, `…Unseen`, `…Read`, `…Unread` or `…Deleted`: a user's items changed.
    InboxItemsChanged(ItemsChanged),
    /// A turn of a send was planned.
    SendPlanned(SendPlanned),
    /// A delivery reached a terminal state, or was put off.
    DeliverySettled(DeliverySettled),
    /// A target was found dead.
    TargetSuppressed(TargetSuppressed),
}

/// Data of `SendContinues`; the send is the envelope's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendContinues {
    /// The turn to plan, from 0.
    pub turn: u32,
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

/// Data of the events that change items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemsChanged {
    /// The owner of the items.
    pub user: UserNumber,
    /// The items.
    pub items: Vec<ItemId>,
    /// The change, which names the event's type.
    pub change: ItemChange,
}

/// Data of `SendPlanned`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendPlanned {
    /// The turn, from 0.
    pub turn: u32,
    /// Recipients of the turn.
    pub recipients: u32,
    /// Inbox items ordered.
    pub in_app: u32,
    /// External deliveries ordered.
    pub deliveries: u32,
    /// (recipient, channel) pairs decided against.
    pub skipped: u32,
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

/// Why a message of the log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not an envelope, or its data does not fit its type.
    #[error("malformed message: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A type that this release does not know; readers count and skip it.
    #[error("unknown message type {0:?}")]
    UnknownType(String),
    /// A newer version of a known type; its reader must be upgraded first.
    #[error("{kind} has version {version}, this release reads up to 1")]
    Newer {
        /// The type.
        kind: String,
        /// The version found.
        version: u16,
    },
}

/// The version of every type that this release writes.
const VERSION: u16 = 1;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireOut<'a, D> {
    id: Uuid,
    #[serde(rename = "type")]
    kind: &'a str,
    v: u16,
    app: AppId,
    at: Timestamp,
    send_id: Option<SendId>,
    caused_by: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
    data: &'a D,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireIn<'a> {
    id: Uuid,
    #[serde(rename = "type")]
    kind: &'a str,
    v: u16,
    app: AppId,
    at: Timestamp,
    send_id: Option<SendId>,
    caused_by: Option<Uuid>,
    #[serde(default)]
    trace: Option<String>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Serialize, Deserialize)]
struct ItemsWire {
    user: UserNumber,
    items: Vec<ItemId>,
}

impl Event {
    /// The type's name on the wire.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Event::SendAccepted(_) => "SendAccepted",
            Event::SendContinues(_) => "SendContinues",
            Event::DeliveryJob(_) => "DeliveryJob",
            Event::InboxItemsAdded(_) => "InboxItemsAdded",
            Event::InboxItemsChanged(changed) => match changed.change {
                ItemChange::Seen => "InboxItemSeen",
                ItemChange::Unseen => "InboxItemUnseen",
                ItemChange::Read => "InboxItemRead",
                ItemChange::Unread => "InboxItemUnread",
                ItemChange::Deleted => "InboxItemDeleted",
            },
            Event::SendPlanned(_) => "SendPlanned",
            Event::DeliverySettled(_) => "DeliverySettled",
            Event::TargetSuppressed(_) => "TargetSuppressed",
        }
    }

    fn read(kind: &str, data: &str) -> Result<Event, DecodeError> {
        let changed = |change| -> Result<Event, DecodeError> {
            let ItemsWire { user, items } = serde_json::from_str(data)?;
            Ok(Event::InboxItemsChanged(ItemsChanged { user, items, change }))
        };
        Ok(match kind {
            "SendAccepted" => Event::SendAccepted(serde_json::from_str(data)?),
            "SendContinues" => Event::SendContinues(serde_json::from_str(data)?),
            "DeliveryJob" => Event::DeliveryJob(serde_json::from_str(data)?),
            "InboxItemsAdded" => Event::InboxItemsAdded(serde_json::from_str(data)?),
            "InboxItemSeen" => changed(ItemChange::Seen)?,
            "InboxItemUnseen" => changed(ItemChange::Unseen)?,
            "InboxItemRead" => changed(ItemChange::Read)?,
            "InboxItemUnread" => changed(ItemChange::Unread)?,
            "InboxItemDeleted" => changed(ItemChange::Deleted)?,
            "SendPlanned" => Event::SendPlanned(serde_json::from_str(data)?),
            "DeliverySettled" => Event::DeliverySettled(serde_json::from_str(data)?),
            "TargetSuppressed" => Event::TargetSuppressed(serde_json::from_str(data)?),
            other => return Err(DecodeError::UnknownType(other.to_owned())),
        })
    }
}

impl Envelope {
    /// Writes the message as JSON.
    ///
    /// # Errors
    /// Only where memory for the text cannot be had; every event is representable.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        match &self.event {
            Event::SendAccepted(data) => self.encode_with(data),
            Event::SendContinues(data) => self.encode_with(data),
            Event::DeliveryJob(data) => self.encode_with(data),
            Event::InboxItemsAdded(data) => self.encode_with(data),
            Event::InboxItemsChanged(data) => {
                self.encode_with(&ItemsWire { user: data.user, items: data.items.clone() })
            }
            Event::SendPlanned(data) => self.encode_with(data),
            Event::DeliverySettled(data) => self.encode_with(data),
            Event::TargetSuppressed(data) => self.encode_with(data),
        }
    }

    fn encode_with<D: Serialize>(&self, data: &D) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&WireOut {
            id: self.id,
            kind: self.event.kind(),
            v: VERSION,
            app: self.app,
            at: self.at,
            send_id: self.send_id,
            caused_by: self.caused_by,
            trace: self.trace.as_deref(),
            data,
        })
    }

    /// Reads a message.
    ///
    /// # Errors
    /// See [`DecodeError`]; an unknown type is to be skipped, a newer version to be waited for.
    pub fn decode(bytes: &[u8]) -> Result<Envelope, DecodeError> {
        let wire: WireIn<'_> = serde_json::from_slice(bytes)?;
        let read = Event::read(wire.kind, wire.data.get());
        let event = match read {
            Err(unknown @ DecodeError::UnknownType(_)) => return Err(unknown),
            _ if wire.v > VERSION => {
                return Err(DecodeError::Newer { kind: wire.kind.to_owned(), version: wire.v });
            }
            other => other?,
        };
        let WireIn { id, app, at, send_id, caused_by, trace, .. } = wire;
        Ok(Envelope { id, app, at, send_id, caused_by, trace, event })
    }
}
