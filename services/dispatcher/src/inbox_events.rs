//! Gathering the inbox items of a turn into as few events as their size allows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use domain::content::InAppContent;
use domain::event::ItemsAdded;
use domain::{CategoryId, Timestamp, UserNumber};

/// Size that one event may have, so that it fits into the broker's 1 MiB with its envelope.
const MAX_EVENT: usize = 768 * 1024;
/// Room for one recipient in an event.
const RECIPIENT_SIZE: usize = 32;

/// The inbox items of one turn, by partition.
pub(crate) struct InboxEvents {
    created_at: Timestamp,
    category_id: Option<CategoryId>,
    partitions: BTreeMap<u32, Vec<Sized>>,
}

struct Sized {
    event: ItemsAdded,
    size: usize,
}

impl InboxEvents {
    pub(crate) fn new(created_at: Timestamp, category_id: Option<CategoryId>) -> InboxEvents {
        InboxEvents { created_at, category_id, partitions: BTreeMap::new() }
    }

    /// Adds an item. Content that the event has already is not repeated.
    pub(crate) fn add(&mut self, partition: u32, user: UserNumber, content: Cow<'_, InAppContent>) {
        let events = self.partitions.entry(partition).or_default();
        let known =
            events.last().and_then(|last| last.event.contents.iter().position(|known| *known == *content));
        let added = if known.is_some() { RECIPIENT_SIZE } else { RECIPIENT_SIZE + size_of(&content) };
        if events.last().is_none_or(|last| last.size + added > MAX_EVENT) {
            let (created_at, category_id) = (self.created_at, self.category_id);
            let event = ItemsAdded { created_at, category_id, contents: Vec::new(), recipients: Vec::new() };
            events.push(Sized { event, size: 0 });
        }
        let Some(last) = events.last_mut() else { return };
        let place = known.filter(|place| *place < last.event.contents.len()).unwrap_or_else(|| {
            last.event.contents.push(content.into_owned());
            last.event.contents.len() - 1
        });
        last.event.recipients.push((user, u32::try_from(place).unwrap_or(u32::MAX)));
        last.size += added;
    }

    /// Every event with its partition.
    pub(crate) fn into_events(self) -> impl Iterator<Item = (u32, ItemsAdded)> {
        let events = self.partitions.into_iter();
        events.flat_map(|(partition, events)| events.into_iter().map(move |sized| (partition, sized.event)))
    }
}

fn size_of(content: &InAppContent) -> usize {
    serde_json::to_vec(content).map_or(MAX_EVENT, |text| text.len())
}
