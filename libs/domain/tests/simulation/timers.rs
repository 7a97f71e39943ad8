//! Publishing what has come due: taken under a lock, published under the timer's own id, removed when the log has it.

use std::time::Duration;

use domain::event::UserErased;
use domain::id::partition;
use domain::{Envelope, Event};
use uuid::Uuid;

use crate::choice::{Actor, Luck};
use crate::log::{APP, Message, Name, PARTITIONS};
use crate::mutant::Mutant;
use crate::world::World;

/// Timers of one round at most.
const ROUND: usize = 3;
/// How long a timer that could not be published waits for its next chunk.
const PUT_OFF: Duration = Duration::from_secs(1);

/// How far a round is.
#[derive(Debug, Default)]
pub(crate) enum Timers {
    #[default]
    Idle,
    /// These are held; so many were tried, and these of them published.
    Publishing(Vec<u64>, usize, Vec<u64>),
}

impl World {
    pub(crate) fn step_timers(&mut self, number: usize, luck: Luck) -> bool {
        let actor = Actor::Timers(number);
        let after = match std::mem::take(&mut self.timers[number]) {
            Timers::Idle => match self.take_due(actor) {
                due if due.is_empty() => return false,
                due => Timers::Publishing(due, 0, Vec::new()),
            },
            Timers::Publishing(due, tried, mut published) => match due.get(tried) {
                Some(&id) => {
                    if luck != Luck::Failed {
                        self.publish_timer(id);
                    }
                    if luck == Luck::Done {
                        published.push(id);
                    }
                    Timers::Publishing(due, tried + 1, published)
                }
                None => {
                    if luck != Luck::Failed {
                        self.finish_round(actor, &published);
                    }
                    self.release_timers(actor);
                    Timers::Idle
                }
            },
        };
        self.timers[number] = after;
        true
    }

    fn take_due(&mut self, actor: Actor) -> Vec<u64> {
        let (now, is_early) = (self.now, self.is(Mutant::TimerTooEarly));
        let timers = self.store.timers.iter_mut();
        let due = timers.filter(|(_, timer)| timer.held_by.is_none() && (timer.due_at <= now || is_early));
        due.take(ROUND)
            .map(|(id, timer)| {
                timer.held_by = Some(actor);
                *id
            })
            .collect()
    }

    fn publish_timer(&mut self, id: u64) {
        let Some(timer) = self.store.timers.get(&id).cloned() else { return };
        if let Message::Erased { user } = timer.message {
            let id = Uuid::from_u128(self.fresh().into());
            let event = Event::UserErased(UserErased { user, digest: None });
            let at = self.now;
            let event = Envelope { id, app: APP, at, send_id: None, caused_by: None, trace: None, event };
            self.log.append(partition(APP, user, PARTITIONS), event);
            return;
        }
        let name = match &timer.message {
            Message::Job { job, .. } if self.is(Mutant::TimerUnderOldId) => Name::FirstJob(job.delivery_id),
            _ => Name::Timer(id),
        };
        self.log.publish(timer.queue, name, timer.message, self.now);
    }

    fn finish_round(&mut self, actor: Actor, published: &[u64]) {
        let (now, is_kept) = (self.now, self.is(Mutant::TimerKept));
        self.store.timers.retain(|id, timer| {
            if timer.held_by != Some(actor) {
                return true;
            }
            timer.due_at = now + PUT_OFF;
            is_kept || !published.contains(id)
        });
    }

    /// The transaction has ended: others may take what it held.
    pub(crate) fn release_timers(&mut self, actor: Actor) {
        for timer in self.store.timers.values_mut().filter(|timer| timer.held_by == Some(actor)) {
            timer.held_by = None;
        }
    }
}
