//! A worker's second half of a job: the mark, the call, the settlement, the outcome.

use std::time::Duration;

use domain::attempt::{AttemptEnd, Next};
use domain::event::DeliveryJob;
use domain::protocol::{After, Token};
use domain::retry::RetryPolicy;
use domain::{DeliveryId, Outcome, Reason, Route, Status, Timestamp};
use uuid::Uuid;

use crate::choice::Luck;
use crate::dice::Dice;
use crate::ledger::LEASE;
use crate::log::Told;
use crate::mutant::Mutant;
use crate::providers::{Accept, PROVIDERS};
use crate::worker::{Claim, Held, Slot, serving};
use crate::world::World;

/// Delays before each attempt, in seconds.
pub(crate) const SCHEDULE: [u64; 4] = [0, 5, 30, 120];

/// How long a call may take. Its lease outlasts it.
fn call_limit() -> Duration {
    LEASE * 3 / 5
}

/// What is to be written of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct Settlement {
    token: Token,
    outcome: Outcome,
    ended_at: Timestamp,
    following: Next,
}

impl World {
    /// Whether a call can end before the claim does.
    pub(crate) fn holds_long_enough(&self, claim: &Claim) -> bool {
        self.now + call_limit() <= claim.until
    }

    pub(crate) fn mark(
        &mut self,
        number: usize,
        held: Held,
        claim: Claim,
        provider: usize,
        luck: Luck,
        dice: &mut Dice,
    ) -> Slot {
        let (now, mutant) = (self.now, self.mutant);
        let is_marked = luck != Luck::Failed
            && self
                .store
                .delivery(held.job.delivery_id, now, mutant)
                .is_some_and(|row| row.mark(claim.token, mutant));
        match luck {
            Luck::Done if is_marked => Slot::Ready(held, claim, provider),
            Luck::Done => {
                self.leave(number, claim.entered);
                Slot::Losing(held)
            }
            _ if self.holds_long_enough(&claim) => Slot::Marking(held, claim, provider),
            _ => self.settle_instead(number, held, &claim, Some(provider), dice),
        }
    }

    /// The call is made: the provider takes the message, or does not.
    pub(crate) fn call(
        &mut self,
        held: Held,
        claim: Claim,
        provider: usize,
        luck: Luck,
        dice: &mut Dice,
    ) -> Slot {
        self.check_call(&held, &claim);
        let identity = match self.is(Mutant::RandomIds) {
            true => DeliveryId(Uuid::from_u128(self.fresh().into())),
            false => held.job.delivery_id,
        };
        let (is_taken, outcome) = self.providers.answer(provider, identity, luck, dice);
        let name = PROVIDERS[provider].name;
        self.note(|| {
            format!("    {name} says {outcome:?}{}", if is_taken { " and has taken it" } else { "" })
        });
        if is_taken {
            self.accept(&held, &claim, provider, identity, outcome == Outcome::Unknown);
        }
        let now = self.now;
        Slot::Calling(held, claim, provider, outcome, now)
    }

    fn accept(&mut self, held: &Held, claim: &Claim, provider: usize, identity: DeliveryId, excused: bool) {
        let delivery = held.job.delivery_id;
        let Some(row) = self.store.deliveries.get(&delivery) else { return };
        let recipient = (row.send_id, row.recipient);
        // Who was away for longer than its lease may come with a call that others have made since.
        let is_late = row.ledger.token != Some(claim.token);
        let channel = held.job.channel;
        let accept = Accept {
            identity,
            delivery,
            recipient,
            channel,
            provider,
            token: claim.token,
            excused: excused || is_late,
        };
        self.check_accept(&accept, is_late);
        self.providers.accepts.push(accept);
    }

    /// The answer reaches the worker, if it is still listening.
    #[expect(clippy::too_many_arguments, reason = "what a call in flight is")]
    pub(crate) fn hear(
        &mut self,
        number: usize,
        held: Held,
        claim: &Claim,
        provider: usize,
        outcome: Outcome,
        began: Timestamp,
        dice: &mut Dice,
    ) -> Slot {
        let is_in_time = self.now.since(began) <= call_limit();
        let outcome = if is_in_time { outcome } else { Outcome::Unknown };
        if outcome == Outcome::Unknown {
            self.providers.excuse(held.job.delivery_id, claim.token);
        }
        if let Some(entered) = claim.entered {
            let gate = &mut self.workers[number].gates[entered];
            gate.breaker.report(&outcome, self.now);
            gate.watch.hear(&outcome, self.now);
        }
        if self.is(Mutant::AckBeforeSettling) {
            self.log.acknowledge(held.seq);
        }
        self.settlement(held, claim, Some(provider), outcome, dice)
    }

    /// Settles with an answer that stands for a call which was not made.
    pub(crate) fn settle_instead(
        &mut self,
        number: usize,
        held: Held,
        claim: &Claim,
        called: Option<usize>,
        dice: &mut Dice,
    ) -> Slot {
        self.leave(number, claim.entered);
        self.settlement(held, claim, called, Outcome::RETRY, dice)
    }

    fn settlement(
        &self,
        held: Held,
        claim: &Claim,
        called: Option<usize>,
        outcome: Outcome,
        dice: &mut Dice,
    ) -> Slot {
        let serving: Vec<&str> = serving(&held).into_iter().map(|place| PROVIDERS[place].name).collect();
        let policy = RetryPolicy { schedule: SCHEDULE.map(Duration::from_secs).to_vec() };
        let ended = AttemptEnd {
            channel: held.job.channel,
            job: &held.job,
            outcome: &outcome,
            called: called.map(|place| PROVIDERS[place].name),
            claimed: claim.claimed,
            serving: &serving,
            now: self.now,
            random: dice.fraction(),
        };
        let following = match policy.following(ended) {
            Next::Retry(_, again) if self.is(Mutant::RetryAtOnce) => Next::Retry(self.now, again),
            Next::Retry(at, again) if self.is(Mutant::RepeatedAnywhere) => {
                let route = Route { only: None, ..again.route.clone() };
                Next::Retry(at, Box::new(DeliveryJob { route, ..*again }))
            }
            following => following,
        };
        let settlement = Settlement { token: claim.token, outcome, ended_at: self.now, following };
        Slot::Settling(held, settlement)
    }

    /// Writes the answer, again and again until the database says that it has it, or that it is another's affair.
    pub(crate) fn settle(&mut self, held: Held, settlement: Settlement, luck: Luck) -> Slot {
        if luck == Luck::Failed {
            return Slot::Settling(held, settlement);
        }
        let settled = self.write_settlement(&held, &settlement);
        if luck == Luck::Unheard {
            return Slot::Settling(held, settlement);
        }
        let Some((status, reason)) = settled else { return Slot::Losing(held) };
        if self.is(Mutant::AckBeforeTelling) {
            self.log.acknowledge(held.seq);
        }
        Slot::Telling(held, status, reason)
    }

    /// One transaction: the state, the next timer or the parking, the suppression.
    fn write_settlement(&mut self, held: &Held, settlement: &Settlement) -> Option<(Status, Option<Reason>)> {
        let (now, moves, mutant) = (self.now, self.moves, self.mutant);
        let (id, attempt) = (held.job.delivery_id, held.job.attempt);
        let after = match &settlement.following {
            Next::End(status, reason) => After::End(*status, *reason),
            Next::Retry(..) => After::Retry,
            Next::Park(_) => After::Park,
        };
        let row = self.store.delivery(id, now, mutant)?;
        let had_ended = row.ledger.status.is_terminal();
        if !row.settle(settlement.token, attempt, after, mutant) {
            self.note(|| "    the claim is another's".to_owned());
            return None;
        }
        let (status, reason) = (row.ledger.status, row.ledger.reason);
        self.note(|| format!("    it is {status}"));
        self.check_schedule(held, &settlement.outcome, settlement.ended_at, &settlement.following);
        match &settlement.following {
            Next::Retry(due_at, again) if status == Status::Retrying => {
                self.set_timer(held, *due_at, *due_at, again.clone());
            }
            Next::End(..) if matches!(settlement.outcome, Outcome::TargetGone(_)) => {
                self.store.suppress(id, moves);
            }
            _ => {}
        }
        if had_ended && !self.is(Mutant::LateAnswerToldOnce) {
            // Whoever found it ended may tell of that, and acknowledge the job: another one tells of this.
            self.set_timer(held, now, held.not_before, held.job.clone());
        }
        self.check_ended(id);
        Some((status, reason))
    }

    /// Somebody else settled, or holds the delivery now.
    pub(crate) fn after_losing(&mut self, held: Held, luck: Luck) -> Slot {
        let ledger = self.store.deliveries.get(&held.job.delivery_id).map(|row| &row.ledger);
        match ledger {
            Some(ledger) if luck == Luck::Done && ledger.status != Status::Sending => {
                let status = ledger.told_of(held.job.attempt);
                Slot::Telling(held, status, ledger.reason)
            }
            // An acknowledgement counts for the message, whoever sends it; its holder will.
            _ => Slot::Idle,
        }
    }

    pub(crate) fn tell(&mut self, held: Held, status: Status, reason: Option<Reason>, luck: Luck) -> Slot {
        if luck != Luck::Failed {
            let DeliveryJob { delivery_id: delivery, attempt, .. } = *held.job;
            self.log.told.insert(Told { delivery, attempt, status });
            self.note(|| {
                format!("    told: attempt {attempt} is {status} {}", reason.map_or("", Reason::as_str))
            });
        }
        if luck == Luck::Done { Slot::Acknowledging(held) } else { self.again(&held) }
    }
}
