//! Inbox items of a chunk, gathered into as few events as the size limit allows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use domain::content::InAppContent;
use domain::event::{ItemsAdded, bundle};
use domain::id::RECIPIENTS_PER_EVENT;
use domain::{CategoryId, Envelope, Event, StreamName, Timestamp, UserNumber};
use planning::{TemplateError, item_size};
use service_kit::append::NewEvent;

/// Size in bytes. With its envelope, such an event fits into the broker's limit of 1 MiB.
const MAX_EVENT: usize = 768 * 1024;
#[expect(clippy::cast_possible_truncation, reason = "512")]
const MAX_ITEMS: usize = RECIPIENTS_PER_EVENT as usize;
/// Bytes reserved for one recipient in an event.
const RECIPIENT_SIZE: usize = 32;

pub(crate) struct InboxEvents {
    created_at: Timestamp,
    category_id: Option<CategoryId>,
    partitions: BTreeMap<u32, Vec<OpenEvent>>,
    /// Approximate size in bytes.
    size: usize,
}

struct OpenEvent {
    event: ItemsAdded,
    size: usize,
}

impl InboxEvents {
    pub(crate) fn new(created_at: Timestamp, category_id: Option<CategoryId>) -> InboxEvents {
        InboxEvents { created_at, category_id, partitions: BTreeMap::new(), size: 0 }
    }

    /// Fails if the content is too large for any event.
    pub(crate) fn add(
        &mut self,
        partition: u32,
        user: UserNumber,
        content: Cow<'_, InAppContent>,
    ) -> Result<(), TemplateError> {
        let events = self.partitions.entry(partition).or_default();
        if let Some(last) = events.last_mut()
            && let Some(known) = last.event.contents.iter().position(|known| *known == *content)
            && last.size + RECIPIENT_SIZE <= MAX_EVENT
        {
            last.event.recipients.push((user, place(known)));
            last.size += RECIPIENT_SIZE;
            self.size += RECIPIENT_SIZE;
            return Ok(());
        }
        let added = RECIPIENT_SIZE + item_size(&content)?;
        if events.last().is_none_or(|last| last.size + added > MAX_EVENT) {
            let event = ItemsAdded {
                created_at: self.created_at,
                category_id: self.category_id,
                first: 0,
                contents: Vec::new(),
                recipients: Vec::new(),
            };
            events.push(OpenEvent { event, size: 0 });
        }
        if let Some(last) = events.last_mut() {
            last.event.recipients.push((user, place(last.event.contents.len())));
            last.event.contents.push(content.into_owned());
            last.size += added;
            self.size += added;
        }
        Ok(())
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn into_events(self) -> impl Iterator<Item = (u32, ItemsAdded)> {
        let events = self.partitions.into_iter();
        events.flat_map(|(partition, events)| events.into_iter().map(move |filled| (partition, filled.event)))
    }
}

pub(crate) fn encode(events: Vec<(u32, Envelope)>) -> Result<Vec<NewEvent>, serde_json::Error> {
    let mut messages = Vec::new();
    let mut open: BTreeMap<u32, OpenMessage> = BTreeMap::new();
    for (partition, mut envelope) in events {
        let Event::InboxItemsAdded(added) = &mut envelope.event else { continue };
        let items = added.recipients.len();
        let message = open.entry(partition).or_default();
        added.first = place(message.items);
        let mut event = NewEvent::new(StreamName::Inbox(partition), None, &envelope)?;
        if message.items + items > MAX_ITEMS || message.size + event.payload.len() > MAX_EVENT {
            messages.extend(std::mem::take(message).bundled());
            if let Event::InboxItemsAdded(added) = &mut envelope.event {
                added.first = 0;
            }
            event = NewEvent::new(StreamName::Inbox(partition), None, &envelope)?;
        }
        message.items += items;
        message.size += event.payload.len();
        message.events.push(event);
    }
    messages.extend(open.into_values().filter_map(OpenMessage::bundled));
    Ok(messages)
}

#[derive(Default)]
struct OpenMessage {
    events: Vec<NewEvent>,
    items: usize,
    size: usize,
}

impl OpenMessage {
    fn bundled(self) -> Option<NewEvent> {
        let payloads: Vec<_> = self.events.iter().map(|event| event.payload.clone()).collect();
        let first = self.events.into_iter().next()?;
        Some(NewEvent { payload: bundle::encode(first.kind, &payloads), ..first })
    }
}

fn place(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
