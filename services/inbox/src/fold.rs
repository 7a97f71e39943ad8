//! What a batch of inbox events comes down to: items to add, then steps that change them in the order of the log.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::event::{AllChanged, ItemStateSet, ItemsAdded, ItemsChanged, UserErased};
use domain::id::partition;
use domain::inbox::{ItemChange, ItemState};
use domain::{AppId, Envelope, Event, ItemId, Timestamp, UserNumber};
use store::projection::{Batch, Changed, ItemKey, NewItem, WholeInbox};

/// What a change to a whole inbox counts for among the changes of a batch.
const WEIGHT_OF_AN_INBOX: usize = 50;

/// The users of a partition that were erased. What the log still says of them is dropped.
pub(crate) type Erased = HashSet<(AppId, UserNumber)>;

/// Which partition the events come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) partition: u32,
    pub(crate) partitions: u32,
}

impl Origin {
    /// Whether a user's events belong here.
    pub(crate) fn owns(self, app: AppId, user: UserNumber) -> bool {
        partition(app, user, self.partitions) == self.partition
    }

    /// Two partitions must never write the rows of one user.
    fn check(self, app: AppId, user: UserNumber) -> Result<(), Unfit> {
        if self.owns(app, user) { Ok(()) } else { Err(Unfit::WrongPartition(user.0)) }
    }

    /// The highest id that an item of this user may have had before the event with sequence `seq`.
    fn last_before(self, app: AppId, user: UserNumber, seq: u64) -> Result<ItemId, Unfit> {
        self.check(app, user)?;
        let first = ItemId::derive(seq, 0, self.partitions, 0).ok_or(Unfit::NoNumber)?;
        Ok(ItemId(first.0 - 1))
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

/// A batch of events, folded. All items are added before any is changed: a change names items that were there before
/// it, so the order among additions and changes of other items does not matter.
#[derive(Default)]
pub(crate) struct Fold {
    adds: Vec<NewItem>,
    steps: Vec<Step>,
    weight: usize,
}

/// Changes that are made together. The steps of a batch are made one after the other.
enum Step {
    /// Changes to single items, in the order of the log: one statement reads the items, another writes them.
    Items(Vec<(ItemKey, Change)>),
    /// A change to all items of a user.
    All(WholeInbox),
    /// A user was erased.
    Erasure(AppId, UserNumber),
}

/// A change to a single item.
enum Change {
    /// Seen, read, deleted and their opposites.
    Item(ItemChange, Timestamp),
    /// The app's own state.
    AppState(Option<String>),
}

impl Fold {
    /// Takes in the event with sequence `seq`, and learns from it who is erased. An event that is unfit leaves
    /// nothing behind.
    pub(crate) fn push(
        &mut self,
        origin: Origin,
        seq: u64,
        envelope: &Envelope,
        erased: &mut Erased,
    ) -> Result<(), Unfit> {
        let (app, at) = (envelope.app, envelope.at);
        match &envelope.event {
            Event::InboxItemsAdded(added) => {
                let items = new_items(origin, seq, envelope, added)?;
                self.weight += items.len();
                self.adds.extend(items.into_iter().filter(|item| !erased.contains(&(app, item.user))));
            }
            Event::InboxItemsChanged(change, ItemsChanged { user, items }) => {
                let last = origin.last_before(app, *user, seq)?;
                for &item in items.iter().filter(|&&item| item <= last) {
                    self.change_item((app, *user, item), Change::Item(*change, at));
                }
            }
            Event::InboxItemStateSet(ItemStateSet { user, item, state }) => {
                if *item <= origin.last_before(app, *user, seq)? {
                    self.change_item((app, *user, *item), Change::AppState(state.clone()));
                }
            }
            &Event::InboxAllChanged(change, AllChanged { user, up_to }) => {
                let up_to = origin.last_before(app, user, seq)?.min(up_to);
                self.weight += WEIGHT_OF_AN_INBOX;
                self.steps.push(Step::All(WholeInbox { app, user, up_to, change, at }));
            }
            &Event::UserErased(UserErased { user }) => {
                origin.check(app, user)?;
                erased.insert((app, user));
                self.weight += WEIGHT_OF_AN_INBOX;
                self.steps.push(Step::Erasure(app, user));
            }
            other => return Err(Unfit::Foreign(other.kind())),
        }
        Ok(())
    }

    fn change_item(&mut self, key: ItemKey, change: Change) {
        self.weight += 1;
        match self.steps.last_mut() {
            Some(Step::Items(changes)) => changes.push((key, change)),
            _ => self.steps.push(Step::Items(vec![(key, change)])),
        }
    }

    /// About how many rows a transaction of it touches.
    pub(crate) fn weight(&self) -> usize {
        self.weight
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
        for step in &self.steps {
            match step {
                Step::Items(changes) => change_items(batch, changes).await?,
                Step::All(inbox) => batch.change_all(*inbox).await?,
                Step::Erasure(app, user) => batch.erase(*app, *user).await?,
            }
        }
        Ok(())
    }
}

async fn change_items(batch: &mut Batch, changes: &[(ItemKey, Change)]) -> Result<(), store::Error> {
    let mut keys: Vec<ItemKey> = changes.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    keys.dedup();
    let before = batch.states(&keys).await?;
    let mut after: HashMap<ItemKey, ItemState> = before.iter().cloned().collect();
    for (key, change) in changes {
        match (after.get_mut(key), change) {
            (Some(state), Change::Item(change, at)) => state.apply(*change, *at),
            (Some(state), Change::AppState(app_state)) => state.set_app_state(app_state.clone()),
            (None, _) => {}
        }
    }
    let changed = before.into_iter().filter_map(|(key, old)| {
        let new = after.remove(&key).filter(|new| *new != old)?;
        Some(Changed { key, old, new })
    });
    batch.change(&changed.collect::<Vec<_>>()).await
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
            origin.check(envelope.app, user)?;
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
