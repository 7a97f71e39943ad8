//! Checks every interleaving of two workers with crashes, pauses, redeliveries, renewals, postponements and a cancellation, up to
//! a maximum number of faults.

mod phase;

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::ledger_model::{ClaimResult, Lease, Ledger, NextStep, Token};
use domain::{Reason, Status};
use phase::{Answer, Message, Phase};

/// Number of attempts that the retry schedule allows.
const ATTEMPTS: u32 = 2;
/// Maximum number of crashes, pauses and redeliveries in one history.
const FAULTS: u8 = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// True if a message with an unknown outcome may be sent again.
    repeatable: bool,
    ledger: Ledger,
    workers: [Phase; 2],
    messages: Vec<Message>,
    /// Attempts of the jobs that wait for a timer.
    timers: Vec<u32>,
    /// True if a job was postponed. This happens only once in a history.
    is_postponed: bool,
    /// Number of provider calls per attempt.
    calls: [u8; ATTEMPTS as usize],
    /// True if the provider may have accepted the message: a call was made that it did not definitely refuse.
    perhaps_taken: bool,
    settled: BTreeSet<u32>,
    /// All outcomes in the log, each under its own id.
    published: BTreeSet<(u32, Status)>,
    tokens: Token,
    faults: u8,
    /// True if a worker crashed or was paused beyond its lease. Only this justifies a second call.
    excused: bool,
    cancelled: bool,
}

impl World {
    fn start(repeatable: bool) -> World {
        World {
            repeatable,
            ledger: Ledger::default(),
            workers: [Phase::Idle; 2],
            messages: vec![Message { attempt: 1, waits: true }],
            timers: Vec::new(),
            is_postponed: false,
            calls: [0; ATTEMPTS as usize],
            perhaps_taken: false,
            settled: BTreeSet::new(),
            published: BTreeSet::new(),
            tokens: 0,
            faults: 0,
            excused: false,
            cancelled: false,
        }
    }

    fn is_over(&self) -> bool {
        self.messages.is_empty() && self.timers.is_empty() && self.workers == [Phase::Idle; 2]
    }

    /// Returns the states that can follow without a fault.
    fn steps(&self) -> Vec<World> {
        let mut next = Vec::new();
        for worker in 0..2 {
            self.work(worker, &mut next);
        }
        let holder = |phase: &Phase| {
            matches!(phase, Phase::Claimed { token, .. } | Phase::Ready { token, .. } | Phase::Calling { token, .. }
                | Phase::Answered { token, .. } if Some(*token) == self.ledger.token)
        };
        if self.ledger.lease == Lease::Live && !self.workers.iter().any(holder) {
            next.push(self.with(|world| world.ledger.lease_ends()));
        }
        // A renewal of the latest claim is carried out, possibly late: its worker may have ended the call or crashed since.
        if let Some(token) = self.ledger.token {
            let mut world = self.clone();
            if world.ledger.renew(token) {
                next.push(world);
            }
        }
        // The log redelivers an unacknowledged message.
        for (place, message) in self.messages.iter().enumerate() {
            let is_held = self.workers.iter().any(|phase| phase.attempt() == Some(message.attempt));
            if !message.waits && !is_held {
                next.push(self.with(|world| world.messages[place].waits = true));
            }
        }
        for place in 0..self.timers.len() {
            next.push(self.with(|world| {
                let attempt = world.timers.remove(place);
                world.add_message(attempt);
            }));
        }
        if !self.cancelled {
            next.push(self.with(|world| {
                world.cancelled = true;
                world.ledger.cancel();
            }));
        }
        next
    }

    /// Adds the states to which a step of this worker can lead. A call leads to one state for each possible answer.
    fn work(&self, worker: usize, next: &mut Vec<World>) {
        let to = |phase: Phase| self.with(|world| world.workers[worker] = phase);
        match self.workers[worker] {
            Phase::Idle => {
                for (place, message) in self.messages.iter().enumerate().filter(|(_, message)| message.waits)
                {
                    let mut world = to(Phase::Has { attempt: message.attempt });
                    world.messages[place].waits = false;
                    next.push(world);
                }
            }
            Phase::Has { attempt } => {
                let mut world = self.clone();
                let token = world.tokens;
                let takes_over = world.repeatable && world.ledger.status == Status::Sending;
                world.workers[worker] = match world.ledger.claim(attempt, token) {
                    ClaimResult::Granted => {
                        world.tokens += 1;
                        Phase::Claimed { attempt, token, takes_over }
                    }
                    ClaimResult::NotDue => {
                        Phase::ToPublish { attempt, status: world.ledger.published_status(attempt) }
                    }
                    ClaimResult::Leased | ClaimResult::Missing => Phase::Idle,
                };
                next.push(world);
            }
            Phase::Claimed { attempt, token, takes_over } => {
                next.push(self.begin_call(worker, attempt, token));
                if !self.is_postponed {
                    // The worker finds no free call.
                    let release = |ledger: &mut Ledger| ledger.release(token, takes_over);
                    next.push(self.if_held(worker, attempt, Phase::ToPostpone { attempt }, release));
                }
            }
            Phase::Ready { attempt, token } => next.push(self.call(worker, attempt, token)),
            Phase::Calling { attempt, token } => {
                for answer in [Answer::Yes, Answer::No, Answer::Silence] {
                    let mut world = to(Phase::Answered { attempt, token, answer });
                    // No other call is in flight, so after a refusal the provider has certainly not accepted the message.
                    world.perhaps_taken = answer != Answer::No;
                    next.push(world);
                }
            }
            Phase::Answered { attempt, token, answer } => {
                next.push(self.settle(worker, attempt, token, answer));
            }
            Phase::ToPostpone { .. } | Phase::ToPublish { .. } | Phase::ToAcknowledge { .. } => {
                next.push(self.end_job(worker));
            }
        }
    }

    /// Returns the state after the worker has made sure that it may call the provider.
    fn begin_call(&self, worker: usize, attempt: u32, token: Token) -> World {
        let ready = Phase::Ready { attempt, token };
        match self.ledger.lease {
            // The worker sees by its own clock that its lease is over.
            Lease::Over if self.ledger.token == Some(token) => {
                self.with(|world| world.workers[worker] = Phase::Idle)
            }
            _ if self.repeatable => self.with(|world| world.workers[worker] = ready),
            _ => self.if_held(worker, attempt, ready, |ledger| ledger.mark(token)),
        }
    }

    /// Returns the state after the next step of a worker that has no claim any more.
    fn end_job(&self, worker: usize) -> World {
        let mut world = self.clone();
        world.workers[worker] = match self.workers[worker] {
            Phase::ToPostpone { attempt } => {
                world.is_postponed = true;
                world.timers.push(attempt);
                world.timers.sort_unstable();
                Phase::ToAcknowledge { attempt }
            }
            Phase::ToPublish { attempt, status } => {
                // The log drops duplicates.
                world.published.insert((attempt, status));
                Phase::ToAcknowledge { attempt }
            }
            Phase::ToAcknowledge { attempt } => {
                world.remove_message(attempt);
                Phase::Idle
            }
            phase => phase,
        };
        world
    }

    /// Returns the state after a statement that succeeds only with a valid claim: the worker continues with `phase`, or has lost
    /// the claim.
    fn if_held(
        &self,
        worker: usize,
        attempt: u32,
        phase: Phase,
        statement: impl FnOnce(&mut Ledger) -> bool,
    ) -> World {
        let mut world = self.clone();
        let is_held = statement(&mut world.ledger);
        world.workers[worker] = if is_held { phase } else { world.after_losing(attempt) };
        world
    }

    fn add_message(&mut self, attempt: u32) {
        self.messages.push(Message { attempt, waits: true });
        self.messages.sort_unstable();
    }

    /// Removes a message of this attempt. Such messages differ only in `waits`; the one in hand does not wait unless it is
    /// redelivered.
    fn remove_message(&mut self, attempt: u32) {
        let is_of_attempt = |message: &Message| message.attempt == attempt;
        let held = self.messages.iter().position(|message| is_of_attempt(message) && !message.waits);
        if let Some(place) = held.or_else(|| self.messages.iter().position(is_of_attempt)) {
            self.messages.remove(place);
        }
    }

    fn call(&self, worker: usize, attempt: u32, token: Token) -> World {
        let mut world = self.clone();
        world.calls[attempt as usize - 1] += 1;
        assert!(self.repeatable || !self.perhaps_taken, "the recipient may get a second message: {self:#?}");
        let repeated = world.calls[attempt as usize - 1] > 1;
        assert!(!repeated || self.excused, "a second call without a fault that justifies it: {self:#?}");
        world.perhaps_taken = true;
        world.workers[worker] = Phase::Calling { attempt, token };
        world
    }

    fn settle(&self, worker: usize, attempt: u32, token: Token, answer: Answer) -> World {
        let again = if attempt < ATTEMPTS { NextStep::Retry } else { NextStep::Park };
        let after = match answer {
            Answer::Yes => NextStep::End(Status::Sent, None),
            Answer::Silence if !self.repeatable => {
                NextStep::End(Status::Unknown, Some(Reason::OutcomeUnknown))
            }
            Answer::No | Answer::Silence => again,
        };
        let mut world = self.clone();
        let is_settled = world.ledger.settle(token, attempt, after);
        if !is_settled {
            world.workers[worker] = world.after_losing(attempt);
            return world;
        }
        assert_eq!(self.ledger.token, Some(token), "settled without the token: {self:#?}");
        assert!(!self.settled.contains(&attempt), "settled twice: {self:#?}");
        world.settled.insert(attempt);
        if world.ledger.status == Status::Retrying {
            world.add_message(attempt + 1);
        }
        world.workers[worker] = Phase::ToPublish { attempt, status: world.ledger.status };
        world
    }

    /// Returns the next phase of a worker that lost its claim. If another worker has settled the attempt, this worker publishes
    /// the status. Otherwise it leaves the message to the other worker, which has the claim or must postpone the job.
    fn after_losing(&self, attempt: u32) -> Phase {
        match self.ledger.status.is_terminal() || self.ledger.attempt > attempt {
            true => Phase::ToPublish { attempt, status: self.ledger.published_status(attempt) },
            false => Phase::Idle,
        }
    }

    /// Returns the states that can follow if one more fault happens.
    fn faults(&self) -> Vec<World> {
        if self.faults == FAULTS {
            return Vec::new();
        }
        let mut next = Vec::new();
        let mut fault = |change: &dyn Fn(&mut World)| {
            next.push(self.with(|world| {
                world.faults += 1;
                change(world);
            }));
        };
        for worker in 0..2 {
            if self.workers[worker] != Phase::Idle {
                // The worker crashes. The log redelivers the message later.
                fault(&|world| {
                    world.excused = true;
                    world.workers[worker] = Phase::Idle;
                });
            }
            if let Phase::Answered { attempt, token, answer } = self.workers[worker] {
                // The settlement is written, but the database's confirmation is lost.
                let written = self.settle(worker, attempt, token, answer);
                fault(&|world| {
                    let faults = world.faults;
                    *world = World { faults, ..written.clone() };
                    world.workers[worker] = self.workers[worker];
                });
            }
        }
        if self.ledger.lease == Lease::Live {
            // The holder is paused beyond its lease, or cannot reach the database.
            fault(&|world| {
                world.excused = true;
                world.ledger.lease_ends();
            });
        }
        for place in (0..self.messages.len()).filter(|place| !self.messages[*place].waits) {
            // Progress reports are lost, or the server forgets that it delivered the message.
            fault(&|world| world.messages[place].waits = true);
        }
        // An acknowledgement is lost in a crash of the server.
        for attempt in 1..=self.ledger.attempt.min(ATTEMPTS) {
            if self.messages.iter().all(|message| message.attempt != attempt) {
                fault(&|world| world.add_message(attempt));
            }
        }
        next
    }

    fn with(&self, change: impl FnOnce(&mut World)) -> World {
        let mut world = self.clone();
        change(&mut world);
        world
    }

    /// Checks the invariants that hold after every step, regardless of faults.
    fn check(&self, before: &World) {
        if before.ledger.status.is_terminal() && before.ledger.made {
            assert_eq!(self.ledger.status, before.ledger.status, "the final status changed: {before:#?}");
        }
        if self.ledger.status == Status::Unknown {
            assert!(!self.repeatable, "a repeatable message ended as unknown: {self:#?}");
        }
        if self.is_over() {
            assert!(
                self.ledger.status.is_terminal(),
                "no message is left for an unfinished delivery: {self:#?}"
            );
            let is_published = |attempt: &u32| self.published.iter().any(|(known, _)| known == attempt);
            assert!(self.settled.iter().all(is_published), "a settled attempt is not published: {self:#?}");
            let was_last = self.ledger.attempt - u32::from(self.ledger.status == Status::Parked);
            // The delivery may end without an answer before a worker records a late answer. The earlier status may then be
            // published after the final one, so check only that the final status is published.
            let end = (was_last, self.ledger.status);
            assert!(self.published.contains(&end), "the final status is not published: {self:#?}");
        }
    }
}

/// Visits every reachable state, and checks that each can reach an end without further faults.
fn search(repeatable: bool) -> usize {
    let start = World::start(repeatable);
    let mut known: HashMap<World, usize> = HashMap::from([(start.clone(), 0)]);
    let mut waiting = VecDeque::from([start]);
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut ended: Vec<usize> = Vec::new();
    while let Some(world) = waiting.pop_front() {
        let place = known[&world];
        if world.is_over() {
            ended.push(place);
        }
        let steps = world.steps().into_iter().map(|next| (next, true));
        for (next, by_itself) in steps.chain(world.faults().into_iter().map(|next| (next, false))) {
            next.check(&world);
            let number = known.len();
            let found = *known.entry(next.clone()).or_insert(number);
            if found == number {
                before.push(Vec::new());
                waiting.push_back(next);
            }
            if by_itself {
                before[found].push(place);
            }
        }
    }
    let mut ends = vec![false; known.len()];
    while let Some(place) = ended.pop() {
        if !std::mem::replace(&mut ends[place], true) {
            ended.extend(&before[place]);
        }
    }
    if let Some((stuck, _)) = known.iter().find(|(_, place)| !ends[**place]) {
        panic!("the delivery cannot end: {stuck:#?}");
    }
    known.len()
}

#[test]
fn no_interleaving_of_two_workers_breaks_the_guarantees_of_a_repeatable_message() {
    assert!(search(true) > 100_000);
}

#[test]
fn no_interleaving_of_two_workers_sends_an_unrepeatable_message_twice() {
    assert!(search(false) > 100_000);
}
