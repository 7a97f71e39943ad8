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
    /// An app (tenant). Only the credential of a request determines the app, never its body or path.
    AppId,
    /// Internal number of a user: never reused and not personal data, so events may contain it.
    UserNumber,
    CategoryId,
    /// A topic that is created again gets another id.
    TopicId,
    TemplateId,
    /// Unique in the installation and below 2^53.
    ItemId,
}

uuid_id! {
    /// UUIDv7. The API names it `requestId`.
    SendId,
    /// One send to one target of a recipient on one channel. The id is the idempotency key for providers.
    DeliveryId,
}

/// Derivation of the ids of a send's deliveries. If a send is planned twice, its deliveries must get the same ids, so the database stores
/// the derivation with the send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryIds {
    /// A UUIDv5 in the send's namespace, as in releases up to 0.3.
    Hashed,
    /// The first half of the send's id, then the second half of that UUIDv5. Such ids have the time order of the sends, so new rows are
    /// neighbours in an index.
    TimeOrdered,
}

impl DeliveryIds {
    #[must_use]
    pub fn derive(self, send: SendId, user: UserNumber, channel: Channel, target: &str) -> DeliveryId {
        let hashed = Uuid::new_v5(&send.0, format!("{user}\n{channel}\n{target}").as_bytes());
        match self {
            DeliveryIds::Hashed => DeliveryId(hashed),
            DeliveryIds::TimeOrdered => {
                let (first, _) = send.0.as_u64_pair();
                let (_, second) = hashed.as_u64_pair();
                DeliveryId(Uuid::from_u64_pair(first, second))
            }
        }
    }

    #[must_use]
    pub fn of(id: DeliveryId) -> DeliveryIds {
        if id.0.get_version_num() == 5 { DeliveryIds::Hashed } else { DeliveryIds::TimeOrdered }
    }

    /// Stored in the database.
    #[must_use]
    pub fn number(self) -> i16 {
        match self {
            DeliveryIds::Hashed => 1,
            DeliveryIds::TimeOrdered => 2,
        }
    }

    #[must_use]
    pub fn from_number(number: i16) -> Option<DeliveryIds> {
        [DeliveryIds::Hashed, DeliveryIds::TimeOrdered].into_iter().find(|ids| ids.number() == number)
    }
}

/// Limit per inbox event; [`ItemId`]s reserve this number of indexes per event.
pub const RECIPIENTS_PER_EVENT: u64 = 512;

impl ItemId {
    /// Derives an item's id from its `index` in an event and the event's sequence `seq` in `partition`. The same event yields the same ids
    /// at every replay. None if the id would exceed the 53 bits that JSON numbers represent exactly, or if the index is out of range.
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

/// Inbox partition of a user: xxh3-64(`{app}\n{user number}`) modulo the number of partitions.
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
        let derive =
            |ids: DeliveryIds, send| ids.derive(send, UserNumber(5), Channel::Email, "ada@example.com");
        assert_eq!(derive(DeliveryIds::Hashed, send).to_string(), "6f9a6721-db99-52b3-8e3e-78775110ebb0");
        let send = SendId(Uuid::from_u128(0x018f_3f6e_7c1a_7000_8000_0000_0000_00bb));
        let hashed = derive(DeliveryIds::Hashed, send);
        assert_eq!(hashed.to_string(), "23a91a7e-95b9-584b-b128-2cb9f3f1c6f1");
        let ordered = derive(DeliveryIds::TimeOrdered, send);
        assert_eq!(ordered.to_string(), "018f3f6e-7c1a-7000-b128-2cb9f3f1c6f1");
        for (ids, id) in [(DeliveryIds::Hashed, hashed), (DeliveryIds::TimeOrdered, ordered)] {
            assert_eq!(DeliveryIds::of(id), ids);
            assert_eq!(DeliveryIds::from_number(ids.number()), Some(ids));
        }
        assert_eq!(
            [1, 2].map(DeliveryIds::from_number),
            [Some(DeliveryIds::Hashed), Some(DeliveryIds::TimeOrdered)]
        );
        assert_eq!(DeliveryIds::from_number(3), None);
    }
}
