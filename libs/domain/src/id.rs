//! Identifiers, and functions that derive them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use crate::Channel;

macro_rules! number_id {
    ($($(#[$meta:meta])* $name:ident),+ $(,)?) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl From<i64> for $name {
            fn from(number: i64) -> Self {
                $name(number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map($name)
            }
        }
    )+ };
}

macro_rules! uuid_id {
    ($($(#[$meta:meta])* $name:ident),+ $(,)?) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                $name(id)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map($name)
            }
        }
    )+ };
}

number_id! {
    /// An app (tenant). The credential of a request alone determines the app. The body and the path cannot.
    AppId,
    /// The internal number of a user: never reused and not personal data, so events may contain it.
    UserNumber,
    /// A notification category of an app.
    CategoryId,
    /// A template of an app; all its versions share this id.
    TemplateId,
    /// An inbox item; unique in the installation and below 2^53.
    ItemId,
}

uuid_id! {
    /// A send: one accepted notification request (UUIDv7). In the API, its id is named `requestId`.
    SendId,
    /// A delivery: one send to one target of a recipient on one channel. The id is the idempotency key for providers.
    DeliveryId,
}

impl DeliveryId {
    /// Derives a UUIDv5 in the send's namespace. If the same send is planned twice, its deliveries get the same ids.
    #[must_use]
    pub fn derive(send: SendId, user: UserNumber, channel: Channel, target: &str) -> Self {
        DeliveryId(Uuid::new_v5(&send.0, format!("{user}\n{channel}\n{target}").as_bytes()))
    }
}

/// Maximum number of recipients of one inbox event; [`ItemId`]s reserve this number of indexes per event.
pub const RECIPIENTS_PER_EVENT: u64 = 512;

impl ItemId {
    /// Derives the id of the item at `index` of the event with sequence `seq` in `partition` of `partitions`.
    ///
    /// The same event yields the same ids at every replay. Returns None if the id would exceed the 53 bits that JSON numbers
    /// represent exactly, or if the index is out of range.
    #[must_use]
    pub fn derive(seq: u64, partition: u32, partitions: u32, index: u32) -> Option<Self> {
        if u64::from(index) >= RECIPIENTS_PER_EVENT {
            return None;
        }
        let slot = seq.checked_mul(u64::from(partitions))?.checked_add(u64::from(partition))?;
        let id = slot.checked_mul(RECIPIENTS_PER_EVENT)?.checked_add(u64::from(index))?;
        (id < 1 << 53).then_some(ItemId(i64::try_from(id).ok()?))
    }
}

/// Returns the inbox partition of a user: xxh3-64(`{app}\n{user number}`) modulo the number of partitions.
#[must_use]
pub fn partition(app: AppId, user: UserNumber, partitions: u32) -> u32 {
    let hash = xxh3_64(format!("{app}\n{user}").as_bytes());
    u32::try_from(hash % u64::from(partitions.max(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_ids_are_unique_and_fit_53_bits() {
        assert_eq!(ItemId::derive(1, 0, 4, 0), Some(ItemId(2048)));
        assert_eq!(ItemId::derive(1, 3, 4, 511), Some(ItemId(4095)));
        assert_eq!(ItemId::derive(2, 0, 4, 0), Some(ItemId(4096)));
        assert_eq!(ItemId::derive(1 << 42, 0, 4, 0), None);
        assert_eq!(ItemId::derive(1, 0, 4, 512), None);
    }

    #[test]
    fn partitions_and_delivery_ids_never_change() {
        // Running installations have stored rows and messages under these values.
        assert_eq!(partition(AppId(1), UserNumber(1), 4), 0);
        assert_eq!(partition(AppId(7), UserNumber(123_456), 4), 1);
        let send = SendId(Uuid::from_u128(7));
        let id = DeliveryId::derive(send, UserNumber(5), Channel::Email, "ada@example.com");
        assert_eq!(id.to_string(), "6f9a6721-db99-52b3-8e3e-78775110ebb0");
    }
}
