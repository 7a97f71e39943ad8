//! A worker's first half of a job: which provider may be asked, and the claim. It has two jobs in hand at a time.

use std::time::Duration;

use domain::breaker::Breaker;
use domain::event::DeliveryJob;
use domain::pace::Pace;
use domain::protocol::{Claimed, Token};
use domain::route::{Candidate, Choice};
use domain::{Channel, Outcome, Reason, SendId, Status, Timestamp};

use crate::call::Settlement;
use crate::choice::Luck;
use crate::dice::Dice;
use crate::dispatcher::queue_of;
use crate::ledger::LEASE;
use crate::log::{AGAIN, Message, Queue, Seq};
use crate::mutant::Mutant;
use crate::providers::{PROVIDERS, index_of};
use crate::rule::Rule;
use crate::store::Timer;
use crate::watch::BreakerWatch;
use crate::world::{World, short};

/// A worker: its jobs, and what it knows of providers.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) slots: [Slot; 2],
    pub(crate) gates: [Gate; PROVIDERS.len()],
}

/// What keeps calls of a provider within bounds.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) breaker: Breaker,
    pub(crate) watch: BreakerWatch,
    pace: Option<Pace>,
}

impl Default for Worker {
    fn default() -> Worker {
        let gate = |place: usize| Gate {
            breaker: Breaker::default(),
            watch: BreakerWatch::default(),
            pace: PROVIDERS[place].limit.map(Pace::new),
        };
        Worker { slots: Default::default(), gates: std::array::from_fn(gate) }
    }
}

/// A job in hand.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) seq: Seq,
    pub(crate) send_id: SendId,
    pub(crate) job: Box<DeliveryJob>,
    /// When its attempt was to be made, at the earliest.
    pub(crate) not_before: Timestamp,
}

/// A claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) token: Token,
    /// Past this moment, by our own clock, it may be another's.
    pub(crate) until: Timestamp,
    /// When it was made, counted in moves.
    pub(crate) made_in: u64,
    /// The provider that the ledger names.
    pub(crate) claimed: Option<&'static str>,
    /// The provider whose breaker let the call through.
    pub(crate) entered: Option<usize>,
}

/// How far a job is.
#[derive(Debug, Default)]
pub(crate) enum Slot {
    #[default]
    Idle,
    Admitting(Held),
    Postponing(Held, Timestamp),
    /// The provider whose breaker let it through; None where an answer stands for a call that cannot be made.
    Claiming(Held, Option<usize>),
    Marking(Held, Claim, usize),
    /// Its claim is to be looked at once more.
    Ready(Held, Claim, usize),
    /// The call is on its way, whatever happens to the claim meanwhile.
    Dialling(Held, Claim, usize),
    /// The provider has answered so; the call began then.
    Calling(Held, Claim, usize, Outcome, Timestamp),
    Settling(Held, Settlement),
    /// The claim was another's.
    Losing(Held),
    Telling(Held, Status, Option<Reason>),
    Acknowledging(Held),
}

impl Slot {
    fn held(&self) -> Option<&Held> {
        match self {
            Slot::Idle => None,
            Slot::Admitting(held)
            | Slot::Postponing(held, _)
            | Slot::Claiming(held, _)
            | Slot::Marking(held, ..)
            | Slot::Ready(held, ..)
            | Slot::Dialling(held, ..)
            | Slot::Calling(held, ..)
            | Slot::Settling(held, _)
            | Slot::Losing(held)
            | Slot::Telling(held, ..)
            | Slot::Acknowledging(held) => Some(held),
        }
    }
}

impl Slot {
    fn described(&self) -> String {
        let doing = match self {
            Slot::Idle => "nothing",
            Slot::Admitting(_) => "chooses a provider for",
            Slot::Postponing(..) => "puts off",
            Slot::Claiming(..) => "claims",
            Slot::Marking(..) => "marks",
            Slot::Ready(..) => "looks at its claim of",
            Slot::Dialling(..) => "calls for",
            Slot::Calling(..) => "hears of",
            Slot::Settling(..) => "settles",
            Slot::Losing(_) => "looks what became of",
            Slot::Telling(..) => "tells of",
            Slot::Acknowledging(_) => "acknowledges",
        };
        format!("{doing} {}", self.held().map(described).unwrap_or_default())
    }
}

impl Worker {
    /// The messages that it is at work on.
    pub(crate) fn in_hand(&self) -> impl Iterator<Item = Seq> {
        self.slots.iter().filter_map(Slot::held).map(|held| held.seq)
    }
}

impl World {
    pub(crate) fn step_worker(&mut self, number: usize, luck: Luck, dice: &mut Dice) -> bool {
        let first = dice.below(2);
        for place in [first, 1 - first] {
            match std::mem::take(&mut self.workers[number].slots[place]) {
                Slot::Idle => {
                    let Some(held) = self.fetch_job(dice) else { continue };
                    self.note(|| format!("    it has {}", described(&held)));
                    self.workers[number].slots[place] = Slot::Admitting(held);
                }
                busy => {
                    self.note(|| format!("    {}", busy.described()));
                    let after = self.step_job(number, busy, luck, dice);
                    self.workers[number].slots[place] = after;
                }
            }
            return true;
        }
        false
    }

    fn fetch_job(&mut self, dice: &mut Dice) -> Option<Held> {
        let seq = self.log.fetch(&[Queue::Emails, Queue::Texts], self.now, dice)?;
        match self.log.message(seq).clone() {
            Message::Job { send_id, job, not_before } => Some(Held { seq, send_id, job, not_before }),
            _ => None,
        }
    }

    fn step_job(&mut self, number: usize, slot: Slot, luck: Luck, dice: &mut Dice) -> Slot {
        match slot {
            Slot::Idle => Slot::Idle,
            Slot::Admitting(held) => self.admit(number, held, dice),
            Slot::Postponing(held, at) => self.postpone(held, at, luck),
            Slot::Claiming(held, entered) => self.claim(number, held, entered, luck, dice),
            Slot::Marking(held, claim, provider) => self.mark(number, held, claim, provider, luck, dice),
            Slot::Ready(held, claim, provider) => match self.holds_long_enough(&claim) {
                true => Slot::Dialling(held, claim, provider),
                false => self.settle_instead(number, held, &claim, Some(provider), dice),
            },
            Slot::Dialling(held, claim, provider) => self.call(held, claim, provider, luck, dice),
            Slot::Calling(held, claim, provider, outcome, began) => {
                self.hear(number, held, &claim, provider, outcome, began, dice)
            }
            Slot::Settling(held, settlement) => self.settle(held, settlement, luck),
            Slot::Losing(held) => self.after_losing(held, luck),
            Slot::Telling(held, status, reason) => self.tell(held, status, reason, luck),
            Slot::Acknowledging(held) => {
                if luck != Luck::Failed {
                    self.log.acknowledge(held.seq);
                }
                Slot::Idle
            }
        }
    }

    /// Hands the job back, to come again in a moment.
    pub(crate) fn again(&mut self, held: &Held) -> Slot {
        self.log.again(held.seq, self.now + AGAIN);
        Slot::Idle
    }

    /// Chooses among the providers that serve the target.
    fn admit(&mut self, number: usize, held: Held, dice: &mut Dice) -> Slot {
        let now = self.now;
        let is_ignored = self.is(Mutant::BreakerIgnored);
        let serving = serving(&held);
        let candidates: Vec<Candidate<'_>> = serving
            .iter()
            .map(|&place| Candidate {
                identifier: PROVIDERS[place].name,
                closed_until: self.workers[number].gates[place]
                    .breaker
                    .closed_until(now)
                    .filter(|_| !is_ignored),
            })
            .collect();
        match held.job.route.choose(&candidates) {
            Choice::Call(place) => self.enter(number, held, serving[place]),
            Choice::Wait(until) => {
                let spread = (until.since(now) / 10 + Duration::from_secs(1)).mul_f64(dice.fraction());
                self.later(held, until + spread)
            }
            Choice::Nobody | Choice::Gone => Slot::Claiming(held, None),
        }
    }

    fn enter(&mut self, number: usize, held: Held, provider: usize) -> Slot {
        let now = self.now;
        let gate = &mut self.workers[number].gates[provider];
        gate.breaker.enter(now);
        let watched = gate.watch.enter(now);
        let paid = gate.pace.as_mut().map_or(Ok(()), |pace| pace.take(now));
        let promised = gate.pace.as_mut().filter(|_| paid.is_err()).map(|pace| pace.promise(now));
        if let Err(what) = watched {
            let name = PROVIDERS[provider].name;
            self.violate(Rule::BreakerKept, || format!("{name}: {what}"));
        }
        match promised {
            Some(at) => {
                self.leave(number, Some(provider));
                self.later(held, at)
            }
            None => Slot::Claiming(held, Some(provider)),
        }
    }

    /// The call that a breaker let through is not made, or told nothing.
    pub(crate) fn leave(&mut self, number: usize, entered: Option<usize>) {
        if let Some(provider) = entered {
            let gate = &mut self.workers[number].gates[provider];
            gate.breaker.leave(self.now);
            gate.watch.leave();
        }
    }

    /// Nobody has to be asked for the end of what has expired: the claim finds it.
    fn later(&self, held: Held, at: Timestamp) -> Slot {
        match held.job.expires_at.is_some_and(|end| end <= self.now) {
            true => Slot::Claiming(held, None),
            false => Slot::Postponing(held, at),
        }
    }

    /// Chunks the job into a timer at the same attempt.
    fn postpone(&mut self, held: Held, at: Timestamp, luck: Luck) -> Slot {
        if luck != Luck::Failed {
            let due_at = held.job.expires_at.map_or(at, |expires_at| at.min(expires_at));
            self.set_timer(&held, due_at, held.not_before, held.job.clone());
        }
        if luck == Luck::Done { Slot::Acknowledging(held) } else { self.again(&held) }
    }

    pub(crate) fn set_timer(
        &mut self,
        held: &Held,
        due_at: Timestamp,
        not_before: Timestamp,
        job: Box<DeliveryJob>,
    ) {
        let (id, queue) = (self.fresh(), queue_of(job.channel));
        let message = Message::Job { send_id: held.send_id, job, not_before };
        self.store.timers.insert(id, Timer { due_at, queue, message, held_by: None });
    }

    fn claim(
        &mut self,
        number: usize,
        held: Held,
        entered: Option<usize>,
        luck: Luck,
        dice: &mut Dice,
    ) -> Slot {
        let offered = entered.map(|place| PROVIDERS[place].name);
        let claimed = match luck {
            Luck::Failed => None,
            _ => self.write_claim(&held, offered),
        };
        let Some((claimed, token)) = claimed.filter(|_| luck == Luck::Done) else {
            self.leave(number, entered);
            return self.again(&held);
        };
        if claimed != Claimed::Ours {
            self.leave(number, entered);
        }
        let (now, id) = (self.now, held.job.delivery_id);
        let row = &self.store.deliveries[&id];
        match claimed {
            Claimed::Ours => {
                let (claimed, made_in) = (row.provider, row.claimed_in);
                let claim = Claim { token, until: now + LEASE, made_in, claimed, entered };
                self.begin(number, held, claim, dice)
            }
            Claimed::Done => {
                let status = row.ledger.told_of(held.job.attempt);
                let reason = row.ledger.reason.filter(|_| status == row.ledger.status);
                Slot::Telling(held, status, reason)
            }
            Claimed::Leased => {
                self.log.again(held.seq, row.leased_until().max(now));
                Slot::Idle
            }
            Claimed::Missing => Slot::Idle,
        }
    }

    /// Whom to call: the provider that the ledger names, which is the admitted one unless an attempt began elsewhere.
    fn begin(&mut self, number: usize, held: Held, claim: Claim, dice: &mut Dice) -> Slot {
        let named = claim.claimed.and_then(index_of);
        let entered = claim.entered.filter(|_| claim.entered == named);
        if entered.is_none() {
            self.leave(number, claim.entered);
        }
        let claim = Claim { entered, ..claim };
        match named {
            None => self.settle_instead(number, held, &claim, None, dice),
            Some(_) if !self.holds_long_enough(&claim) => {
                self.leave(number, entered);
                self.again(&held)
            }
            Some(place) if held.job.channel.is_repeatable() => Slot::Ready(held, claim, place),
            Some(place) => Slot::Marking(held, claim, place),
        }
    }

    fn write_claim(&mut self, held: &Held, offered: Option<&'static str>) -> Option<(Claimed, Token)> {
        let (now, moves, mutant) = (self.now, self.moves, self.mutant);
        let (id, attempt) = (held.job.delivery_id, held.job.attempt);
        let fresh = Token::try_from(self.fresh()).unwrap();
        let row = self.store.delivery(id, now, mutant)?;
        let (claimed, before) = row.claim(attempt, fresh, offered, now);
        if claimed == Claimed::Ours {
            row.claimed_in = moves;
        }
        // Whoever had it died, or stood still for longer than it had.
        if let Some(before) = before {
            self.providers.excuse(id, before);
        }
        self.note(|| format!("    the claim says {claimed:?}"));
        self.check_ended(id);
        Some((claimed, fresh))
    }
}

/// The providers that reach the target of a job. For every other text the second one is tried first, as in another app.
pub(crate) fn serving(held: &Held) -> Vec<usize> {
    let is_served = |place: &usize| PROVIDERS[*place].channel == held.job.channel;
    let mut serving: Vec<usize> = (0..PROVIDERS.len()).filter(is_served).collect();
    if held.job.channel == Channel::Sms && held.job.delivery_id.0.as_u128() % 2 == 1 {
        serving.reverse();
    }
    serving
}

fn described(held: &Held) -> String {
    let DeliveryJob { attempt, target, user, .. } = &*held.job;
    format!("attempt {attempt} of {} for user {user} at {target}", short(held.send_id))
}
