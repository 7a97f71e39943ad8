//! Expansion of topics: the subscribers in one chunk of a send.

use serde::{Deserialize, Serialize};

use crate::send::Recipient;
use crate::{Channel, UserNumber};

/// The recipients of one chunk of a send to topics. The log contains them, so a chunk that is processed again has the same recipients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expansion {
    /// The subscribers, in the order of their user numbers, without users that the send names or excludes.
    pub recipients: Vec<Recipient>,
    /// Highest user number that this chunk covers. The next chunk begins after it.
    pub up_to: UserNumber,
    /// Number of recipients by topic, in the order of the send's topics. A subscriber of several of them counts for the first one.
    pub by_topic: Vec<u32>,
    /// True if this is the last chunk of the send.
    pub is_last: bool,
    /// The channels of recipients whose subscriptions limit them, each with the recipient's index, in ascending order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<(u32, Vec<Channel>)>,
}

impl Expansion {
    /// Returns the channels on which the send's topics may reach the recipient at an index; None if on all.
    #[must_use]
    pub fn channels_of(&self, index: usize) -> Option<&[Channel]> {
        let place = self.channels.binary_search_by_key(&index, |(place, _)| *place as usize).ok()?;
        self.channels.get(place).map(|(_, channels)| channels.as_slice())
    }
}
