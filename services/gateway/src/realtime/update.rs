//! Updates that are reported to clients.

use std::fmt;
use std::sync::Arc;

use domain::inbox::{AllChange, Counts, ItemChange};
use domain::{ItemId, SendId};
use serde::Serialize;
use serde_json::value::RawValue;
use store::inbox::list::InboxItem;
use web::failure::Failure;

use crate::inbox::notification::Notification;

/// Maximum size in bytes of a notification in an update. A client fetches a larger notification.
const MAX_NOTIFICATION: usize = 16 * 1024;
/// Approximate memory of an update without its notification, in bytes.
const OVERHEAD: usize = 160;

/// A position in a stream, in the form that clients send as `Last-Event-ID`: four characters that identify the stream, a
/// hyphen and the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) stream: StreamTag,
    /// All changes of the user up to this sequence have been reported.
    pub(crate) seq: u64,
}

/// Four characters that distinguish a stream from other streams and from an earlier stream of the same name, and the tables of the
/// inbox from those that a rebuild or a restore has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamTag([u8; 4]);

/// An update, and the position that it brings a client to.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    /// None for updates that do not change the position.
    pub(crate) moment: Option<Moment>,
    pub(crate) kind: Kind,
}

/// Content of an update. Counts cover all items on the list.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The connection is established.
    Ready {
        counts: Counts,
        resumed: bool,
    },
    /// An item was added to the list, or returned to it.
    Created {
        item: ItemId,
        content: Arc<RawValue>,
        counts: Counts,
    },
    Updated {
        item: ItemId,
        content: Arc<RawValue>,
        changes: Changes,
        counts: Counts,
    },
    /// An item left the list. The send that added it is known while the inbox has a row of the item.
    Deleted {
        item: ItemId,
        send: Option<SendId>,
        reason: DeleteReason,
        counts: Counts,
    },
    /// All items on the list up to an id changed.
    AllChanged {
        change: AllChange,
        up_to: ItemId,
        counts: Counts,
    },
    /// Updates were lost: the client must fetch its items again.
    Reset(ResetReason),
    Bye {
        reason: ByeReason,
        retry_after: u64,
    },
    /// Nothing happened. Sent regularly, so that proxies do not close the connection.
    KeepAlive,
}

/// Changes of one item since the last update of the item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) seen: bool,
    pub(crate) unseen: bool,
    pub(crate) read: bool,
    pub(crate) unread: bool,
    pub(crate) state: bool,
    /// The item was archived or snoozed.
    pub(crate) hidden: bool,
}

/// Reason why an item left the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DeleteReason {
    Deleted,
    Archived,
    Snoozed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResetReason {
    /// The tables of the inbox were replaced, so items may differ.
    Rebuilt,
    /// The gateway no longer has the changes since the client's position.
    TooOld,
    /// The client did not read its updates in time.
    TooSlow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ByeReason {
    Stopping,
    /// The bearer token has expired, or its signing key was revoked.
    Expired,
    /// The user has opened too many newer connections.
    Replaced,
    Erased,
    AppDisabled,
    /// The app no longer accepts the credentials of the connection.
    Credentials,
    /// The connection has reached its maximum age.
    TooLong,
}

impl StreamTag {
    /// Derives the tag of a stream from its name, its creation time in Unix milliseconds and the identity of the inbox tables.
    pub(crate) fn of(stream: &str, created_at: i64, tables: u32) -> StreamTag {
        const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let digest = credentials::secrets::sha256(format!("{stream}\n{created_at}\n{tables}").as_bytes());
        StreamTag([0, 1, 2, 3].map(|index| DIGITS[usize::from(digest[index] % 32)]))
    }
}

impl Moment {
    /// Parses the form that [`fmt::Display`] writes.
    pub(crate) fn parse(text: &str) -> Option<Moment> {
        let (tag, seq) = text.split_once('-')?;
        let tag = tag.as_bytes().try_into().ok()?;
        let is_number = !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
        Some(Moment { stream: StreamTag(tag), seq: seq.parse().ok().filter(|_| is_number)? })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &character in &self.stream.0 {
            write!(f, "{}", char::from(character))?;
        }
        write!(f, "-{}", self.seq)
    }
}

impl Changes {
    pub(crate) fn of(change: ItemChange) -> Changes {
        let none = Changes::default();
        match change {
            ItemChange::Seen => Changes { seen: true, ..none },
            ItemChange::Unseen => Changes { unseen: true, ..none },
            ItemChange::Read => Changes { read: true, ..none },
            ItemChange::Unread => Changes { unread: true, ..none },
            ItemChange::Archived => Changes { hidden: true, ..none },
            ItemChange::Deleted | ItemChange::Unarchived => none,
        }
    }

    pub(crate) fn and(self, later: Changes) -> Changes {
        // Unseen also means unread, and read also means seen, so the last of these changes decides.
        let is_undone = later.unseen || later.unread;
        Changes {
            seen: later.seen || self.seen && !later.unseen,
            unseen: later.unseen || self.unseen && !(later.seen || later.read),
            read: later.read || self.read && !is_undone,
            unread: later.unread || self.unread && !later.read,
            state: self.state | later.state,
            hidden: self.hidden | later.hidden,
        }
    }
}

/// Replaces a notification that is too large for an update.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Truncated<'a> {
    #[serde(flatten)]
    notification: Notification<'a>,
    truncated: bool,
}

/// Returns the JSON of an item in updates.
pub(crate) fn content(item: &InboxItem) -> Result<Arc<RawValue>, Failure> {
    let malformed = |error| Failure::Defect(format!("item {}: {error}", item.id));
    let full = Notification::of(item)?;
    let mut json = serde_json::value::to_raw_value(&full).map_err(malformed)?;
    if json.get().len() > MAX_NOTIFICATION {
        let short = Truncated { notification: full.shortened(), truncated: true };
        json = serde_json::value::to_raw_value(&short).map_err(malformed)?;
    }
    Ok(json.into())
}

/// Data of an event, in the form that clients receive.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    notification: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<ItemId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<Option<SendId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    up_to: Option<ItemId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unread_count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unseen_count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

impl Data<'_> {
    fn counting(counts: Counts) -> Self {
        Data { unread_count: Some(counts.unread), unseen_count: Some(counts.unseen), ..Data::default() }
    }
}

impl Kind {
    /// Returns the name of the event; None for [`Kind::KeepAlive`], which is no event.
    pub(crate) fn name(&self) -> Option<&'static str> {
        Some(match self {
            Kind::Ready { .. } => "ready",
            Kind::Created { .. } => "notification.created",
            Kind::Updated { .. } => "notification.updated",
            Kind::Deleted { .. } => "notification.deleted",
            Kind::AllChanged { .. } => "inbox.updated",
            Kind::Reset(_) => "reset",
            Kind::Bye { .. } => "bye",
            Kind::KeepAlive => return None,
        })
    }

    pub(crate) fn data(&self) -> Result<String, serde_json::Error> {
        let data = match self {
            &Kind::Ready { counts, resumed } => Data { resumed: Some(resumed), ..Data::counting(counts) },
            Kind::Created { content, counts, .. } | Kind::Updated { content, counts, .. } => {
                Data { notification: Some(content), ..Data::counting(*counts) }
            }
            &Kind::Deleted { item, send, reason, counts } => Data {
                id: Some(item),
                request_id: Some(send),
                reason: Some(serde_json::to_value(reason)?),
                ..Data::counting(counts)
            },
            &Kind::AllChanged { change, up_to, counts } => {
                Data { change: Some(all_change(change)), up_to: Some(up_to), ..Data::counting(counts) }
            }
            Kind::Reset(reason) => Data { reason: Some(serde_json::to_value(reason)?), ..Data::default() },
            Kind::Bye { reason, retry_after } => Data {
                reason: Some(serde_json::to_value(reason)?),
                retry_after: Some(*retry_after),
                ..Data::default()
            },
            Kind::KeepAlive => Data::default(),
        };
        serde_json::to_string(&data)
    }

    pub(crate) fn item(&self) -> Option<ItemId> {
        match self {
            Kind::Created { item, .. } | Kind::Updated { item, .. } | Kind::Deleted { item, .. } => {
                Some(*item)
            }
            _ => None,
        }
    }

    /// Combines an earlier update of the same item, which the client has not received, with this one.
    pub(crate) fn after(self, earlier: &Kind) -> Kind {
        match (earlier, self) {
            (Kind::Created { .. }, Kind::Updated { item, content, counts, .. }) => {
                Kind::Created { item, content, counts }
            }
            (Kind::Updated { changes: before, .. }, Kind::Updated { item, content, changes, counts }) => {
                Kind::Updated { item, content, changes: before.and(changes), counts }
            }
            (_, later) => later,
        }
    }

    /// Approximate size of the update in memory, in bytes. A notification that several updates share counts for each.
    pub(crate) fn size(&self) -> usize {
        match self {
            Kind::Created { content, .. } | Kind::Updated { content, .. } => OVERHEAD + content.get().len(),
            _ => OVERHEAD,
        }
    }
}

fn all_change(change: AllChange) -> &'static str {
    match change {
        AllChange::Seen => "allSeen",
        AllChange::Read => "allRead",
        AllChange::Deleted => "allDeleted",
    }
}
