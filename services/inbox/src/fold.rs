//! What a batch of inbox events comes down to: items to add, then changes to items, each in one statement.

use std::collections::HashMap;
use std::sync::Arc;

use domain::event::ItemsAdded;
use domain::id::partition;
use domain::inbox::{ItemChange, ItemState};
use domain::{AppId, Envelope, Event, ItemId, Timestamp, UserNumber};
use store::projection::{Batch, ItemKey, NewItem};

/// Which partition the events come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) partition: u32,
    pub(crate) partitions: u32,
}

impl Origin {
    /// Two partitions must never write the rows of one user.
    fn owns(self, app: AppId, user: UserNumber) -> Result<(), Unfit> {
        let own = partition(app, user, self.partitions) == self.partition;
        if own { Ok(()) } else { Err(Unfit::WrongPartition(user.0)) }
    }
}

/// Why an event cannot be applied. It is the event's own fault, so repeating does not help.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("{0} does not belong into an inbox stream")]
    Foreign(&'static str),
    #[error("items are added without a send")]
    NoSend,
    #[error("a recipient points at content {0}, which the event does not have")]
    NoContent(u32),
    #[error("user {0} belongs to another partition")]
    WrongPartition(i64),
    #[error("an item has no number: too many recipients, or a sequence beyond 53 bits")]
    NoNumber,
    #[error("content: {0}")]
    Content(#[from] serde_json::Error),
}

/// Which items the inbox may have already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// None: nobody published an event again, which only a crash leads to.
    Unexpected,
    /// Some, and those are left as they are.
    LeftOut,
}

/// A batch of events, folded. All items are added before any is changed: a change names an item that was there
/// before it, so the order among adds and changes of different items does not matter.
#[derive(Default)]
pub(crate) struct Fold {
    adds: Vec<NewItem>,
    changes: Vec<(ItemKey, ItemChange, Timestamp)>,
}

impl Fold {
    /// Takes in the event with sequence `seq`. An event that is unfit leaves nothing behind.
    pub(crate) fn push(&mut self, origin: Origin, seq: u64, envelope: &Envelope) -> Result<(), Unfit> {
        match &envelope.event {
            Event::InboxItemsAdded(added) => self.adds.extend(new_items(origin, seq, envelope, added)?),
            Event::InboxItemsChanged(change, changed) => {
                origin.owns(envelope.app, changed.user)?;
                let first_later = ItemId::derive(seq, 0, origin.partitions, 0).ok_or(Unfit::NoNumber)?;
                let earlier = changed.items.iter().filter(|&&item| item < first_later);
                let keys = earlier.map(|&item| (envelope.app, changed.user, item));
                self.changes.extend(keys.map(|key| (key, *change, envelope.at)));
            }
            other => return Err(Unfit::Foreign(other.kind())),
        }
        Ok(())
    }

    /// Items to add and changes to make.
    pub(crate) fn len(&self) -> usize {
        self.adds.len() + self.changes.len()
    }

    /// Creation time of every item to be added.
    pub(crate) fn created_at(&self) -> impl Iterator<Item = Timestamp> {
        self.adds.iter().map(|item| item.created_at)
    }

    /// Writes everything into the batch's transaction.
    pub(crate) async fn apply(&self, batch: &mut Batch, repeats: Repeats) -> Result<(), store::Error> {
        match repeats {
            Repeats::Unexpected => batch.add_new(&self.adds).await?,
            Repeats::LeftOut => batch.add(&self.adds).await?,
        }
        if self.changes.is_empty() {
            return Ok(());
        }
        let mut keys: Vec<ItemKey> = self.changes.iter().map(|(key, ..)| *key).collect();
        keys.sort_unstable();
        keys.dedup();
        let before = batch.states(&keys).await?;
        let mut after: HashMap<ItemKey, ItemState> = before.iter().copied().collect();
        for (key, change, at) in &self.changes {
            if let Some(state) = after.get_mut(key) {
                state.apply(*change, *at);
            }
        }
        let changed: Vec<_> = before
            .into_iter()
            .filter_map(|(key, old)| after.remove(&key).filter(|new| *new != old).map(|new| (key, old, new)))
            .collect();
        batch.change(&changed).await
    }
}

fn new_items(
    origin: Origin,
    seq: u64,
    envelope: &Envelope,
    added: &ItemsAdded,
) -> Result<Vec<NewItem>, Unfit> {
    let send_id = envelope.send_id.ok_or(Unfit::NoSend)?;
    let contents: Vec<Arc<str>> = added
        .contents
        .iter()
        .map(|content| Ok(Arc::from(serde_json::to_string(content)?)))
        .collect::<Result<_, Unfit>>()?;
    let numbered = (0..).zip(&added.recipients);
    numbered
        .map(|(index, &(user, content))| {
            origin.owns(envelope.app, user)?;
            let content = contents.get(content as usize).ok_or(Unfit::NoContent(content))?;
            Ok(NewItem {
                app: envelope.app,
                user,
                id: ItemId::derive(seq, origin.partition, origin.partitions, index).ok_or(Unfit::NoNumber)?,
                send_id,
                category: added.category_id,
                created_at: added.created_at,
                content: Arc::clone(content),
                event_id: envelope.id,
            })
        })
        .collect()
}
