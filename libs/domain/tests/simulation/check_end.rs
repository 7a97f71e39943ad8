//! What is held against the rules once everything has come to rest.

use domain::plan::Decision;
use domain::{Channel, SendId, Status};

use crate::log::{APP, PARTITIONS, Told};
use crate::read_model::ReadModel;
use crate::rule::Rule;
use crate::store::TURN;
use crate::world::{World, short};

impl World {
    /// Holds all that is left against the rules.
    pub(crate) fn check_end(&mut self) {
        self.check_sends();
        self.check_erased();
        self.check_inboxes();
        self.check_told();
        self.check_kept();
    }

    /// Every confirmed send has an end for every recipient and channel.
    fn check_sends(&mut self) {
        let confirmed: Vec<(SendId, usize, Option<Vec<Channel>>)> = self
            .clients
            .orders
            .iter()
            .filter_map(|order| {
                let send = &order.send;
                Some((order.confirmed?, send.recipients.len(), send.channels.clone()))
            })
            .collect();
        for (send_id, recipients, selected) in confirmed {
            let lost = (0..recipients).find_map(|place| self.lost(send_id, place, selected.as_deref()));
            if let Some(lost) = lost {
                self.violate(Rule::NothingLost, || format!("{}: {lost}", short(send_id)));
            }
        }
    }

    /// What of a recipient has no end.
    fn lost(&self, send_id: SendId, place: usize, selected: Option<&[Channel]>) -> Option<String> {
        let chunk = u32::try_from(place / TURN).unwrap();
        let decision = self.store.plans.get(&(send_id, chunk)).and_then(|chunk| chunk.get(place % TURN));
        let Some(decision) = decision else { return Some(format!("recipient {place} is not planned")) };
        let channels = Channel::DELIVERED.into_iter().chain(selected.into_iter().flatten().copied());
        for channel in channels {
            let is_skipped = decision.skips.iter().any(|(skipped, _)| *skipped == channel);
            let has_end = match channel {
                _ if is_skipped => true,
                Channel::InApp if decision.user.is_some_and(|user| self.is_erased(user)) => true,
                Channel::InApp => decision.in_app && self.has_item(send_id, decision),
                _ => self.has_ended(channel, decision),
            };
            if !has_end {
                return Some(format!("recipient {place} has no end over {channel}"));
            }
        }
        None
    }

    fn has_item(&self, send_id: SendId, decision: &Decision) -> bool {
        let items = self.store.inbox.items.iter();
        let mut mine = items.filter(|(key, _)| Some(key.1) == decision.user);
        mine.any(|(_, item)| item.send_id == send_id)
    }

    fn has_ended(&self, channel: Channel, decision: &Decision) -> bool {
        let mut over = decision.deliveries.iter().filter(|delivery| delivery.channel == channel).peekable();
        over.peek().is_some()
            && over.all(|delivery| {
                let row = self.store.deliveries.get(&delivery.id);
                row.is_some_and(|row| row.ledger.status.is_terminal())
            })
    }

    /// Inboxes have what was planned for them, once; counters are right; a replay says the same.
    fn check_inboxes(&mut self) {
        let inbox = &self.store.inbox;
        let mut seen = std::collections::BTreeSet::new();
        let mut wrong = None;
        for (key, item) in &inbox.items {
            let chunks = self.store.plans.range((item.send_id, 0)..=(item.send_id, u32::MAX));
            let planned = chunks.flat_map(|(_, decisions)| decisions);
            let is_meant = planned.clone().any(|decision| decision.user == Some(key.1) && decision.in_app);
            if !is_meant || !seen.insert((key.1, item.send_id)) {
                wrong = Some(format!("user {} has {} twice, or in vain", key.1, short(item.send_id)));
            }
        }
        let (recount, counters) = (inbox.recount(), inbox.counters.clone());
        let replayed = self.replay();
        let is_equal = replayed == self.store.inbox;
        if let Some(wrong) = wrong {
            self.violate(Rule::InboxOnce, || wrong);
        }
        self.require(recount == counters, Rule::CountersRight, || {
            format!("counters are {counters:?}, a recount says {recount:?}")
        });
        self.require(is_equal, Rule::ReplayEqual, || "a replay comes to something else".to_owned());
        for partition in 0..PARTITIONS as usize {
            let (at, last) = (self.store.checkpoints[partition], self.log.inbox[partition].len() as u64);
            self.require(at == last, Rule::ComesToRest, || {
                format!("partition {partition} is at {at} of {last}")
            });
        }
    }

    /// The whole log, folded at once into an empty inbox.
    fn replay(&self) -> ReadModel {
        let mut fresh = ReadModel::default();
        for partition in 0..PARTITIONS as usize {
            let fold = self.fold(partition, 0, self.log.inbox[partition].len() as u64, &mut self.erased());
            fresh.write(&fold, self.now, None);
        }
        fresh
    }

    /// The inbox has nothing of an erased person.
    fn check_erased(&mut self) {
        let inbox = &self.store.inbox;
        let kept = self.store.erased.iter().map(|erasure| erasure.user).find(|user| {
            inbox.items.keys().any(|key| key.1 == *user) || inbox.counters.contains_key(&(APP, *user))
        });
        if let Some(user) = kept {
            self.violate(Rule::ErasureKept, || format!("the inbox still has something of user {user}"));
        }
    }

    /// Every end is told.
    fn check_told(&mut self) {
        let untold = self.store.deliveries.iter().find(|(id, row)| {
            let ledger = &row.ledger;
            let was_last = ledger.attempt - u32::from(ledger.status == Status::Parked);
            let told = Told { delivery: **id, attempt: was_last, status: ledger.status };
            // What would tell of an erased person goes with the erasure.
            !row.user.is_some_and(|user| self.is_erased(user)) && !self.log.told.contains(&told)
        });
        let untold = untold.map(|(_, row)| (row.send_id, row.recipient, row.ledger.status));
        if let Some((send_id, recipient, status)) = untold {
            self.violate(Rule::EndTold, || {
                format!("{} to recipient {recipient}: nobody is told that it is {status}", short(send_id))
            });
        }
    }
}
