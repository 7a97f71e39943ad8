//! Expands the topics of a send: finds the subscribers for its next chunk.

use std::collections::HashSet;

use domain::send::Recipient;
use domain::{Expansion, UserNumber};
use store::sends::chunk::Chunk;
use store::sends::expansion::{Subscriber, Subscribers};
use store::{Error, Store};

/// Maximum number of rounds for one chunk. A chunk without recipients follows if all subscribers of so many rounds are left out.
const ROUNDS: usize = 20;

/// Returns the subscribers of the send's topics to whom the chunk after `chunk` goes, without the users that the send names or excludes.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn next_expansion(store: &Store, chunk: &Chunk) -> Result<Expansion, Error> {
    let send = &chunk.send;
    let left_out: HashSet<&str> = send.identifiers().collect();
    let mut next = no_further_subscribers(chunk);
    for _ in 0..ROUNDS {
        let Subscribers { found, up_to } =
            store.sends().subscribers(chunk.app, &send.topics, chunk.accepted_at, next.up_to).await?;
        let counted =
            found.into_iter().filter(|subscriber| !left_out.contains(subscriber.identifier.as_str()));
        next = expansion(counted, send.topics.len(), up_to.unwrap_or(next.up_to), up_to.is_none());
        if next.is_last || !next.recipients.is_empty() {
            break;
        }
    }
    Ok(next)
}

fn expansion(
    subscribers: impl Iterator<Item = Subscriber>,
    topics: usize,
    up_to: UserNumber,
    is_last: bool,
) -> Expansion {
    let mut expansion = Expansion { recipients: Vec::new(), up_to, by_topic: vec![0; topics], is_last };
    for Subscriber { identifier, topic, .. } in subscribers {
        expansion.recipients.push(Recipient::plain(identifier));
        if let Some(number) = expansion.by_topic.get_mut(topic) {
            *number += 1;
        }
    }
    expansion
}

/// Returns the expansion that ends a send: no further subscriber is a recipient.
#[must_use]
pub fn no_further_subscribers(chunk: &Chunk) -> Expansion {
    let up_to = chunk.expansion.as_ref().map_or(UserNumber(0), |expansion| expansion.up_to);
    expansion(std::iter::empty(), chunk.send.topics.len(), up_to, true)
}
