//! What is held against the rules while a history goes on.

use std::time::Duration;

use domain::attempt::Next;
use domain::inbox::ItemChange;
use domain::{Channel, DeliveryId, Event, Outcome, Timestamp, UserNumber};

use crate::call::SCHEDULE;
use crate::client::{Change, Kept};
use crate::log::APP;
use crate::providers::Accept;
use crate::read_model::{Item, single};
use crate::rule::Rule;
use crate::worker::{Claim, Held};
use crate::world::{World, short};

impl World {
    /// Before a call: its time has come, and nothing that its claim should have seen forbids it.
    pub(crate) fn check_call(&mut self, held: &Held, claim: &Claim) {
        let (now, made_in) = (self.now, claim.made_in);
        let Some(row) = self.store.deliveries.get(&held.job.delivery_id) else { return };
        let dead_in = self.store.suppressed_in.get(&(row.channel, row.target.clone())).copied();
        let cancelled_in = self.store.requests.get(&row.send_id).and_then(|row| row.cancelled_in);
        let erased_in = self.store.erased.iter().find(|erasure| Some(erasure.user) == row.user);
        let erased_in = erased_in.map(|erasure| erasure.made_in);
        let target = held.job.target.clone();
        self.require(erased_in.is_none_or(|at| made_in <= at), Rule::ErasureKept, || {
            format!("{target} is called, by a claim that was made after the erasure")
        });
        self.require(dead_in.is_none_or(|at| made_in <= at), Rule::SuppressionKept, || {
            format!("{target} is called, by a claim that was made after its suppression")
        });
        let send_id = held.send_id;
        self.require(cancelled_in.is_none_or(|at| made_in <= at), Rule::CancellationKept, || {
            format!("{} is called for, by a claim that was made after it was cancelled", short(send_id))
        });
        self.require(held.not_before <= now, Rule::ScheduleKept, || {
            format!("attempt {} was not to be made before {}", held.job.attempt, held.not_before)
        });
    }

    /// Before a message counts as taken: it is the same as any that was taken before, and there is an excuse for it.
    pub(crate) fn check_accept(&mut self, accept: &Accept, is_late: bool) {
        let same =
            |before: &&Accept| (before.recipient, before.channel) == (accept.recipient, accept.channel);
        let before: Vec<&Accept> = self.providers.accepts.iter().filter(same).collect();
        let is_same = before.iter().all(|before| before.identity == accept.identity);
        let is_excused = is_late || before.iter().all(|before| before.excused);
        let is_second = !before.is_empty();
        let what = || format!("{} to recipient {}", short(accept.recipient.0), accept.recipient.1);
        self.require(is_same, Rule::SameIdentity, || format!("{}: another id than before", what()));
        let is_text = accept.channel == Channel::Sms;
        self.require(!is_text || !is_second, Rule::TextOnce, || format!("{}: a second message", what()));
        self.require(is_excused, Rule::SecondAcceptExcused, || format!("{}: taken twice", what()));
    }

    /// When an answer is written: what follows is what the schedule says.
    pub(crate) fn check_schedule(&mut self, held: &Held, outcome: &Outcome, at: Timestamp, following: &Next) {
        let attempt = held.job.attempt as usize;
        match following {
            Next::End(..) => {}
            Next::Park(_) => self.require(attempt >= SCHEDULE.len(), Rule::ScheduleKept, || {
                format!("parked after attempt {attempt}")
            }),
            Next::Retry(due_at, _) => {
                let (earliest, latest) = bounds(attempt, outcome);
                let delay = due_at.since(at);
                self.require(delay >= earliest && delay <= latest, Rule::ScheduleKept, || {
                    format!("attempt {attempt} is followed after {delay:?}, not {earliest:?} to {latest:?}")
                });
            }
        }
    }

    /// What has ended by an answer ends no other way.
    pub(crate) fn check_ended(&mut self, id: DeliveryId) {
        let Some(row) = self.store.deliveries.get_mut(&id) else { return };
        if !row.ledger.made && row.ended_as.is_none() {
            return;
        }
        let status = row.ledger.status;
        let before = *row.ended_as.get_or_insert(status);
        self.require(before == status, Rule::EndKept, || format!("it was {before} and is {status}"));
    }

    /// What was answered 200, the inbox shows.
    pub(crate) fn check_kept(&mut self) {
        let denied = self.kept.iter().find(|kept| self.denies(kept)).copied();
        if let Some(denied) = denied {
            self.violate(Rule::CommandKept, || format!("the inbox denies {denied:?}"));
        }
    }

    fn denies(&self, kept: &Kept) -> bool {
        if self.is_erased(kept.user) {
            return false;
        }
        let (change, item) = match kept.change {
            Change::Item(change, item) => (change, item),
            Change::All(change, up_to) => {
                let (from, to) = ((APP, kept.user, domain::ItemId(0)), (APP, kept.user, up_to));
                let change = single(change);
                let mut meant = self.store.inbox.items.range(from..=to);
                return meant.any(|(_, item)| !shows(item, change)) && !self.is_changed_since(kept);
            }
        };
        let item = self.store.inbox.items.get(&(APP, kept.user, item));
        item.is_none_or(|item| !shows(item, change)) && !self.is_changed_since(kept)
    }

    pub(crate) fn is_erased(&self, user: UserNumber) -> bool {
        self.store.erased.iter().any(|erasure| erasure.user == user)
    }

    /// Whether the same person has changed something since, which may be the contrary. What is deleted stays so.
    fn is_changed_since(&self, kept: &Kept) -> bool {
        let deletes = match kept.change {
            Change::Item(change, _) => change == ItemChange::Deleted,
            Change::All(change, _) => single(change) == ItemChange::Deleted,
        };
        let since = &self.log.inbox[kept.partition as usize][usize::try_from(kept.seq).unwrap()..];
        !deletes
            && since.iter().any(|event| match &event.event {
                Event::InboxItemsChanged(_, changed) => changed.user == kept.user,
                Event::InboxAllChanged(_, changed) => changed.user == kept.user,
                _ => false,
            })
    }
}

/// Whether an item shows a change.
fn shows(item: &Item, change: ItemChange) -> bool {
    let state = &item.state;
    match change {
        _ if state.deleted_at.is_some() => true,
        ItemChange::Seen => state.seen_at.is_some(),
        ItemChange::Unseen => state.seen_at.is_none(),
        ItemChange::Read => state.clicked_at.is_some(),
        ItemChange::Unread => state.clicked_at.is_none(),
        ItemChange::Deleted => false,
    }
}

/// How long the pause after an attempt is, at least and at most.
fn bounds(attempt: usize, outcome: &Outcome) -> (Duration, Duration) {
    match outcome {
        Outcome::Retry { limit: Some(limit), after } => {
            let step = (limit.over / limit.retries).max(after.unwrap_or_default());
            (step, step)
        }
        // Another provider may be asked at once.
        Outcome::PauseProvider | Outcome::TargetGone(_) => (Duration::ZERO, usual(attempt, 1.2)),
        Outcome::Retry { after, .. } | Outcome::Repeat { after } => {
            let asked = after.unwrap_or_default();
            (usual(attempt, 0.8).max(asked), usual(attempt, 1.2).max(asked))
        }
        _ => (usual(attempt, 0.8), usual(attempt, 1.2)),
    }
}

fn usual(attempt: usize, part: f64) -> Duration {
    let seconds = SCHEDULE.get(attempt).copied().unwrap_or_default() as f64;
    // Milliseconds are cut off.
    Duration::from_secs_f64(seconds * part).saturating_sub(Duration::from_millis(if part < 1.0 {
        1
    } else {
        0
    }))
}
