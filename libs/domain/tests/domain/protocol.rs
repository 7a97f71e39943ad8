//! Every interleaving of two workers with crashes, pauses, redeliveries and a cancellation, up to a number of faults.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::ledger_model::{After, Claimed, Lease, Ledger, Token};
use domain::{Reason, Status};

/// Attempts that the schedule allows.
const ATTEMPTS: u32 = 2;
/// Crashes, pauses and redeliveries of one history.
const FAULTS: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Message {
    attempt: u32,
    /// Whether the log would hand it out now.
    waits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Yes,
    No,
    Silence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Has {
        attempt: u32,
    },
    Claimed {
        attempt: u32,
        token: Token,
    },
    /// The claim was found to hold long enough.
    Ready {
        attempt: u32,
        token: Token,
    },
    Calling {
        attempt: u32,
        token: Token,
    },
    Answered {
        attempt: u32,
        token: Token,
        answer: Answer,
    },
    /// What it has read or written is not told yet; the ledger may go on meanwhile.
    ToTell {
        attempt: u32,
        status: Status,
    },
    ToAcknowledge {
        attempt: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// Whether a message may be sent again when nobody knows what became of it.
    repeatable: bool,
    ledger: Ledger,
    workers: [Phase; 2],
    messages: Vec<Message>,
    /// Calls of each attempt.
    calls: [u8; ATTEMPTS as usize],
    /// Whether a call was made that did not get a certain no.
    perhaps_taken: bool,
    settled: BTreeSet<u32>,
    /// Every outcome in the log, each under an id of its own.
    told: BTreeSet<(u32, Status)>,
    tokens: Token,
    faults: u8,
    /// Whether a worker crashed, or was away for longer than its lease: what alone excuses a second call.
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
            calls: [0; ATTEMPTS as usize],
            perhaps_taken: false,
            settled: BTreeSet::new(),
            told: BTreeSet::new(),
            tokens: 0,
            faults: 0,
            excused: false,
            cancelled: false,
        }
    }

    fn is_over(&self) -> bool {
        self.messages.is_empty() && self.workers == [Phase::Idle; 2]
    }

    /// What can happen next without a fault.
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
        // A message that nobody answers comes again.
        for (place, message) in self.messages.iter().enumerate() {
            let is_held = self.workers.iter().any(|phase| phase.attempt() == Some(message.attempt));
            if !message.waits && !is_held {
                next.push(self.with(|world| world.messages[place].waits = true));
            }
        }
        if !self.cancelled {
            next.push(self.with(|world| {
                world.cancelled = true;
                world.ledger.cancel();
            }));
        }
        next
    }

    /// The next step of a worker; of a call, one for each answer.
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
                world.workers[worker] = match world.ledger.claim(attempt, token) {
                    Claimed::Ours => {
                        world.tokens += 1;
                        Phase::Claimed { attempt, token }
                    }
                    Claimed::Done => {
                        Phase::ToTell { attempt, status: world.ledger.published_status(attempt) }
                    }
                    Claimed::Leased | Claimed::Missing => Phase::Idle,
                };
                next.push(world);
            }
            Phase::Claimed { attempt, token } => next.push(match self.ledger.lease {
                // By its own clock the worker sees that its time is over.
                Lease::Over if self.ledger.token == Some(token) => to(Phase::Idle),
                _ if self.repeatable => to(Phase::Ready { attempt, token }),
                _ => {
                    let mut world = self.clone();
                    world.workers[worker] = if world.ledger.mark(token) {
                        Phase::Ready { attempt, token }
                    } else {
                        world.after_losing(attempt)
                    };
                    world
                }
            }),
            Phase::Ready { attempt, token } => next.push(self.call(worker, attempt, token)),
            Phase::Calling { attempt, token } => {
                for answer in [Answer::Yes, Answer::No, Answer::Silence] {
                    let mut world = to(Phase::Answered { attempt, token, answer });
                    // Nothing else can be on its way: a certain no is one.
                    world.perhaps_taken = answer != Answer::No;
                    next.push(world);
                }
            }
            Phase::Answered { attempt, token, answer } => {
                next.push(self.settle(worker, attempt, token, answer));
            }
            Phase::ToTell { attempt, status } => {
                let mut world = to(Phase::ToAcknowledge { attempt });
                // What was told before is swallowed.
                world.told.insert((attempt, status));
                next.push(world);
            }
            Phase::ToAcknowledge { attempt } => {
                let mut world = to(Phase::Idle);
                world.messages.retain(|message| message.attempt != attempt);
                next.push(world);
            }
        }
    }

    fn call(&self, worker: usize, attempt: u32, token: Token) -> World {
        let mut world = self.clone();
        world.calls[attempt as usize - 1] += 1;
        assert!(self.repeatable || !self.perhaps_taken, "a second message: {self:#?}");
        let repeated = world.calls[attempt as usize - 1] > 1;
        assert!(!repeated || self.excused, "a second call without a cause: {self:#?}");
        world.perhaps_taken = true;
        world.workers[worker] = Phase::Calling { attempt, token };
        world
    }

    fn settle(&self, worker: usize, attempt: u32, token: Token, answer: Answer) -> World {
        let again = if attempt < ATTEMPTS { After::Retry } else { After::Park };
        let after = match answer {
            Answer::Yes => After::End(Status::Sent, None),
            Answer::Silence if !self.repeatable => After::End(Status::Unknown, Some(Reason::OutcomeUnknown)),
            Answer::No | Answer::Silence => again,
        };
        let mut world = self.clone();
        let held = world.ledger.settle(token, attempt, after);
        if !held {
            world.workers[worker] = world.after_losing(attempt);
            return world;
        }
        assert_eq!(self.ledger.token, Some(token), "settled without the token: {self:#?}");
        assert!(!self.settled.contains(&attempt), "settled twice: {self:#?}");
        world.settled.insert(attempt);
        if world.ledger.status == Status::Retrying {
            world.messages.push(Message { attempt: attempt + 1, waits: true });
            world.messages.sort_unstable();
        }
        world.workers[worker] = Phase::ToTell { attempt, status: world.ledger.status };
        world
    }

    /// Whoever lost a claim tells what another has settled, or leaves the message to its holder.
    fn after_losing(&self, attempt: u32) -> Phase {
        match self.ledger.status {
            Status::Sending => Phase::Idle,
            _ => Phase::ToTell { attempt, status: self.ledger.published_status(attempt) },
        }
    }

    /// What can go wrong next.
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
                // A crash. The message comes again later.
                fault(&|world| {
                    world.excused = true;
                    world.workers[worker] = Phase::Idle;
                });
            }
            if let Phase::Answered { attempt, token, answer } = self.workers[worker] {
                // It is written, and the database's word of it lost.
                let written = self.settle(worker, attempt, token, answer);
                fault(&|world| {
                    let faults = world.faults;
                    *world = World { faults, ..written.clone() };
                    world.workers[worker] = self.workers[worker];
                });
            }
        }
        if self.ledger.lease == Lease::Live {
            // Its holder is paused beyond it, or cannot reach the database.
            fault(&|world| {
                world.excused = true;
                world.ledger.lease_ends();
            });
        }
        for place in (0..self.messages.len()).filter(|place| !self.messages[*place].waits) {
            // Signs of life are lost, or the server forgets that it had handed it out.
            fault(&|world| world.messages[place].waits = true);
        }
        // An acknowledgement is lost in a crash of the server.
        for attempt in 1..=self.ledger.attempt.min(ATTEMPTS) {
            if self.messages.iter().all(|message| message.attempt != attempt) {
                fault(&|world| {
                    world.messages.push(Message { attempt, waits: true });
                    world.messages.sort_unstable();
                });
            }
        }
        next
    }

    fn with(&self, change: impl FnOnce(&mut World)) -> World {
        let mut world = self.clone();
        change(&mut world);
        world
    }

    /// What holds after every step, whatever went wrong.
    fn check(&self, before: &World) {
        if before.ledger.status.is_terminal() && before.ledger.made {
            assert_eq!(self.ledger.status, before.ledger.status, "two ends: {before:#?}");
        }
        if self.ledger.status == Status::Unknown {
            assert!(!self.repeatable, "nobody can say: {self:#?}");
        }
        if self.is_over() {
            assert!(self.ledger.status.is_terminal(), "forgotten: {self:#?}");
            let is_told = |attempt: &u32| self.told.iter().any(|(told, _)| told == attempt);
            assert!(self.settled.iter().all(is_told), "not told: {self:#?}");
            let was_last = self.ledger.attempt - u32::from(self.ledger.status == Status::Parked);
            // Whoever told of an end without an answer may have been slower than the answer: the end need not be last.
            let end = (was_last, self.ledger.status);
            assert!(self.told.contains(&end), "the end is not told: {self:#?}");
        }
    }
}

impl Phase {
    fn attempt(self) -> Option<u32> {
        match self {
            Phase::Idle => None,
            Phase::Has { attempt }
            | Phase::Claimed { attempt, .. }
            | Phase::Ready { attempt, .. }
            | Phase::Calling { attempt, .. }
            | Phase::Answered { attempt, .. }
            | Phase::ToTell { attempt, .. }
            | Phase::ToAcknowledge { attempt } => Some(attempt),
        }
    }
}

/// Walks through every state that can be reached, and from each back to where everything has ended.
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
        panic!("no way to an end: {stuck:#?}");
    }
    known.len()
}

#[test]
fn no_interleaving_of_two_workers_breaks_the_promise_of_a_message_that_may_be_repeated() {
    assert!(search(true) > 10_000);
}

#[test]
fn no_interleaving_of_two_workers_sends_twice_what_must_not_be_repeated() {
    assert!(search(false) > 10_000);
}
