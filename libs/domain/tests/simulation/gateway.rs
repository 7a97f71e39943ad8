//! A gateway: reserves the key of a send, publishes it, answers; publishes changes to an inbox and waits until it shows
//! them.

use std::rc::Rc;
use std::time::Duration;

use domain::event::{AllChanged, ItemsChanged};
use domain::id::partition;
use domain::inbox::{AllChange, ItemChange};
use domain::{Envelope, Event, ItemId, SendId, Timestamp};
use uuid::Uuid;

use crate::choice::Luck;
use crate::client::{Change, Kept, Stage};
use crate::dice::Dice;
use crate::directory::{PEOPLE, number};
use crate::log::{APP, Message, Name, PARTITIONS, Queue};
use crate::mutant::Mutant;
use crate::world::World;

/// How long an answer waits for the inbox to show a change.
const VISIBLE_WITHIN: Duration = Duration::from_millis(1_500);

/// How far a gateway is.
#[derive(Debug, Default)]
pub(crate) enum Gateway {
    #[default]
    Idle,
    Reserving {
        key: usize,
        send_id: SendId,
    },
    Publishing {
        key: usize,
        send_id: SendId,
    },
    Answering {
        key: usize,
        send_id: SendId,
    },
    /// It has found what the change means.
    Changing(Kept),
    /// It waits for the inbox, until then.
    Awaiting(Kept, Timestamp),
}

impl Gateway {
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        match self {
            Gateway::Awaiting(_, until) => Some(*until),
            _ => None,
        }
    }
}

impl World {
    pub(crate) fn step_gateway(&mut self, number: usize, luck: Luck, dice: &mut Dice) -> bool {
        let before = std::mem::take(&mut self.gateways[number]);
        let after = match before {
            Gateway::Idle => match self.next_request(dice) {
                Some(next) => next,
                None => return false,
            },
            Gateway::Reserving { key, send_id } => self.reserve(key, send_id, luck),
            Gateway::Publishing { key, send_id } => self.publish_send(key, send_id, luck),
            Gateway::Answering { key, send_id } => {
                if luck == Luck::Done {
                    self.confirm(key, send_id);
                }
                Gateway::Idle
            }
            Gateway::Changing(change) => self.publish_change(change, luck),
            Gateway::Awaiting(change, until) => {
                let is_shown = self.store.checkpoints[change.partition as usize] >= change.seq;
                if !is_shown && self.now < until {
                    self.gateways[number] = Gateway::Awaiting(change, until);
                    return false;
                }
                if is_shown {
                    self.keep(change);
                }
                Gateway::Idle
            }
        };
        self.gateways[number] = after;
        true
    }

    fn next_request(&mut self, dice: &mut Dice) -> Option<Gateway> {
        let asking = self.clients.asking(self.now);
        if let Some(&key) = dice.of(&asking) {
            self.clients.orders[key].stage = Stage::Waits(self.now);
            return Some(Gateway::Reserving { key, send_id: self.fresh_send() });
        }
        let salt = self.clients.commands.pop()?;
        // What cannot be made is answered 404, which is an answer too.
        Some(self.find_change(&mut Dice::new(salt)).map_or(Gateway::Idle, Gateway::Changing))
    }

    fn reserve(&mut self, key: usize, send_id: SendId, luck: Luck) -> Gateway {
        if luck != Luck::Failed {
            self.store.keys.entry(key).or_insert(send_id);
        }
        if luck != Luck::Done {
            self.refuse(key);
            return Gateway::Idle;
        }
        let send_id = if self.is(Mutant::KeyForgotten) { send_id } else { self.store.keys[&key] };
        if self.is(Mutant::AnswerBeforeLog) {
            self.confirm(key, send_id);
        }
        Gateway::Publishing { key, send_id }
    }

    fn publish_send(&mut self, key: usize, send_id: SendId, luck: Luck) -> Gateway {
        if luck != Luck::Failed {
            let send = Rc::clone(&self.clients.orders[key].send);
            let accepted = Message::Accepted { send_id, send, at: self.now };
            self.log.publish(Queue::Sends, Name::Send(send_id), accepted, self.now);
        }
        if luck == Luck::Done {
            return Gateway::Answering { key, send_id };
        }
        self.refuse(key);
        Gateway::Idle
    }

    /// Validates a change against what the inbox shows.
    fn find_change(&self, dice: &mut Dice) -> Option<Kept> {
        let user = number(dice.below(PEOPLE));
        if self.is_erased(user) {
            return None;
        }
        let from = (APP, user, ItemId(0))..=(APP, user, ItemId(i64::MAX));
        let items = self.store.inbox.items.range(from);
        let shown = items.filter(|(_, item)| item.state.deleted_at.is_none()).map(|(key, _)| key.2);
        let shown: Vec<ItemId> = shown.collect();
        let one = *dice.of(&shown)?;
        let last = *shown.iter().max()?;
        let changes = [
            Change::Item(ItemChange::Read, one),
            Change::Item(ItemChange::Seen, one),
            Change::Item(ItemChange::Unread, one),
            Change::Item(ItemChange::Unseen, one),
            Change::Item(ItemChange::Deleted, one),
            Change::All(AllChange::Read, last),
            Change::All(AllChange::Deleted, last),
        ];
        let change = changes[dice.below(changes.len())];
        Some(Kept { user, change, partition: partition(APP, user, PARTITIONS), seq: 0 })
    }

    fn publish_change(&mut self, change: Kept, luck: Luck) -> Gateway {
        if luck == Luck::Failed {
            return Gateway::Idle;
        }
        let Kept { user, partition, .. } = change;
        let event = match change.change {
            Change::Item(what, item) => {
                Event::InboxItemsChanged(what, ItemsChanged { user, items: vec![item] })
            }
            Change::All(what, up_to) => Event::InboxAllChanged(what, AllChanged { user, up_to }),
        };
        let id = Uuid::from_u128(self.fresh().into());
        let at = self.now;
        let event = Envelope { id, app: APP, at, send_id: None, caused_by: None, trace: None, event };
        let seq = self.log.append(partition, event);
        let change = Kept { seq, ..change };
        self.note(|| format!("    {change:?}"));
        if self.is(Mutant::AnswerBeforeInbox) {
            self.keep(change);
            return Gateway::Idle;
        }
        match luck {
            Luck::Done => Gateway::Awaiting(change, self.now + VISIBLE_WITHIN),
            _ => Gateway::Idle,
        }
    }

    /// A change is answered 200: from now on no list denies it.
    fn keep(&mut self, change: Kept) {
        self.kept.push(change);
        self.check_kept();
    }
}
