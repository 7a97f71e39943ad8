//! Expansion of topics: the subscribers to whom one chunk of a send goes.

use serde::{Deserialize, Serialize};

use crate::UserNumber;
use crate::send::Recipient;

/// The subscribers of a send's topics to whom one chunk of the send goes. Once it is in the log, it does not change: if the chunk is
/// processed again, it goes to the same subscribers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expansion {
    /// The subscribers, in the order of their user numbers, without users that the send names or excludes.
    pub recipients: Vec<Recipient>,
    /// The next chunk goes to subscribers whose user numbers are greater than this one.
    pub up_to: UserNumber,
    /// Number of recipients by topic, in the order of the send's topics. A subscriber of several of them counts for the first one.
    pub by_topic: Vec<u32>,
    /// True if this is the last chunk of the send.
    pub is_last: bool,
}
