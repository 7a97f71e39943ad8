use std::collections::HashSet;

use domain::send::Recipient;
use domain::{Expansion, UserNumber};
use store::sends::chunk::Chunk;
use store::sends::expansion::{Subscriber, Subscribers};
use store::{Error, Store};

/// Finds the next recipients of a send to topics: further subscribers, without the users that the send lists or excludes. If all of them
/// are left out, the chunk has no recipients, but may not be the last.
pub async fn next_expansion(store: &Store, chunk: &Chunk) -> Result<Expansion, Error> {
    let (send, after) = (&chunk.send, end(chunk));
    let left_out: HashSet<&str> = send.identifiers().collect();
    let Subscribers { found, up_to } =
        store.sends().subscribers(chunk.app, &send.topics, chunk.accepted_at, after).await?;
    let subscribers =
        found.into_iter().filter(|subscriber| !left_out.contains(subscriber.identifier.as_str()));
    Ok(expansion(subscribers, send.topics.len(), up_to.unwrap_or(after), up_to.is_none()))
}

/// Highest user number that the chunks up to this one cover.
fn end(chunk: &Chunk) -> UserNumber {
    chunk.expansion.as_ref().map_or(UserNumber(0), |expansion| expansion.up_to)
}

fn expansion(
    subscribers: impl Iterator<Item = Subscriber>,
    topics: usize,
    up_to: UserNumber,
    is_last: bool,
) -> Expansion {
    let (recipients, channels) = (Vec::new(), Vec::new());
    let mut expansion = Expansion { recipients, up_to, by_topic: vec![0; topics], is_last, channels };
    for (index, Subscriber { identifier, topic, channels, .. }) in (0..).zip(subscribers) {
        expansion.channels.extend(channels.map(|channels| (index, channels)));
        expansion.recipients.push(Recipient::plain(identifier));
        if let Some(number) = expansion.by_topic.get_mut(topic) {
            *number += 1;
        }
    }
    expansion
}

/// Expansion that ends a send.
#[must_use]
pub fn no_further_subscribers(chunk: &Chunk) -> Expansion {
    expansion(std::iter::empty(), chunk.send.topics.len(), end(chunk), true)
}
