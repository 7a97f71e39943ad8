//! The system: processes, log, database, providers and people, and what a choice does to them.

use std::time::Duration;

use domain::{SendId, Timestamp};
use uuid::Uuid;

use crate::choice::{Actor, Choice, Luck, Move};
use crate::client::{Clients, Kept};
use crate::dice::Dice;
use crate::dispatcher::Dispatcher;
use crate::gateway::Gateway;
use crate::log::Log;
use crate::mutant::Mutant;
use crate::projection::Projection;
use crate::providers::{PROVIDERS, Providers, Weather};
use crate::rule::{Rule, Violation};
use crate::store::Store;
use crate::timers::Timers;
use crate::worker::Worker;

/// Rounds of all processes within which everything must come to rest.
const ROUNDS: usize = 2_000;

/// Everything.
pub(crate) struct World {
    pub(crate) now: Timestamp,
    /// Moves made so far.
    pub(crate) moves: u64,
    pub(crate) mutant: Option<Mutant>,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) providers: Providers,
    pub(crate) clients: Clients,
    pub(crate) kept: Vec<Kept>,
    pub(crate) gateways: [Gateway; 2],
    pub(crate) dispatchers: [Dispatcher; 2],
    pub(crate) workers: [Worker; 2],
    pub(crate) timers: [Timers; 2],
    pub(crate) projections: [Projection; 2],
    paused: [bool; Actor::ALL.len()],
    ids: u64,
    broken: Option<Violation>,
    /// What happened, where somebody wants to read it.
    story: Option<Vec<String>>,
}

impl World {
    pub(crate) fn new(mutant: Option<Mutant>) -> World {
        World {
            now: Timestamp::from_millis(1_700_000_000_000),
            moves: 0,
            mutant,
            log: Log::default(),
            store: Store::new(),
            providers: Providers::new(),
            clients: Clients::default(),
            kept: Vec::new(),
            gateways: Default::default(),
            dispatchers: Default::default(),
            workers: Default::default(),
            timers: Default::default(),
            projections: Default::default(),
            paused: Default::default(),
            ids: 0,
            broken: None,
            story: None,
        }
    }

    /// The same, told.
    pub(crate) fn told(mutant: Option<Mutant>) -> World {
        World { story: Some(Vec::new()), ..World::new(mutant) }
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// A number that was never given out before.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(crate) fn fresh_send(&mut self) -> SendId {
        SendId(Uuid::from_u128(self.fresh().into()))
    }

    /// Adds a line to the story.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(line());
        }
    }

    /// Notes that a rule is broken; the first that is counts.
    pub(crate) fn violate(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            let what = what();
            self.note(|| format!("    !! {rule:?}: {what}"));
            self.broken = Some(Violation { rule, what });
        }
    }

    pub(crate) fn require(&mut self, holds: bool, rule: Rule, what: impl FnOnce() -> String) {
        if !holds {
            self.violate(rule, what);
        }
    }

    pub(crate) fn broken(&self) -> Option<&Violation> {
        self.broken.as_ref()
    }

    pub(crate) fn story(&self) -> &[String] {
        self.story.as_deref().unwrap_or_default()
    }

    /// Does what was chosen; false where that was not possible.
    pub(crate) fn play(&mut self, choice: Choice) -> bool {
        let before = self.story().len();
        let dice = &mut Dice::new(choice.salt);
        self.moves += 1;
        let is_done = match choice.what {
            Move::Step(actor, luck) => self.step(actor, luck, dice),
            Move::Crash(actor) => self.crash(actor),
            Move::Pause(actor) => !std::mem::replace(&mut self.paused[actor.index()], true),
            Move::Resume(actor) => std::mem::replace(&mut self.paused[actor.index()], false),
            Move::Wait(millis) => {
                self.pass(self.now + Duration::from_millis(millis));
                true
            }
            Move::WaitForNext => self.pass_until_due(),
            Move::Send => self.begin_send(dice),
            Move::Repeat => self.ask_again(dice),
            Move::Command => {
                self.clients.commands.push(choice.salt);
                true
            }
            Move::Cancel => self.cancel(dice),
            Move::Directory => {
                let what = self.store.directory.change(dice);
                self.note(|| format!("    {what}"));
                true
            }
            Move::Erase => self.erase(dice),
            Move::Weather(provider, weather) => {
                std::mem::replace(&mut self.providers.weather[provider], weather) != weather
            }
            Move::Redeliver => self.redeliver(dice),
        };
        let at = self.now.since(Timestamp::from_millis(1_700_000_000_000));
        if let Some(story) = self.story.as_mut().filter(|_| is_done) {
            story.insert(before, format!("[{:>10.3} s] {choice}", at.as_secs_f64()));
        }
        is_done
    }

    fn step(&mut self, actor: Actor, luck: Luck, dice: &mut Dice) -> bool {
        if self.paused[actor.index()] {
            return false;
        }
        match actor {
            Actor::Gateway(number) => self.step_gateway(number, luck, dice),
            Actor::Dispatcher(number) => self.step_dispatcher(number, luck, dice),
            Actor::Worker(number) => self.step_worker(number, luck, dice),
            Actor::Timers(number) => self.step_timers(number, luck),
            Actor::Projection(number) => self.step_projection(number, luck, dice),
        }
    }

    /// A process dies: what it knew is gone, and the database ends its transaction.
    fn crash(&mut self, actor: Actor) -> bool {
        self.paused[actor.index()] = false;
        match actor {
            Actor::Gateway(number) => self.gateways[number] = Gateway::default(),
            Actor::Dispatcher(number) => self.dispatchers[number] = Dispatcher::default(),
            Actor::Worker(number) => self.workers[number] = Worker::default(),
            Actor::Timers(number) => {
                self.timers[number] = Timers::default();
                self.release_timers(actor);
            }
            Actor::Projection(number) => self.projections[number] = Projection::default(),
        }
        true
    }

    /// Time passes. Workers that are not paused give signs of life of what they have.
    pub(crate) fn pass(&mut self, to: Timestamp) {
        self.now = self.now.max(to);
        for (number, worker) in self.workers.iter().enumerate() {
            if !self.paused[Actor::Worker(number).index()] {
                for seq in worker.in_hand() {
                    self.log.in_progress(seq, self.now);
                }
            }
        }
    }

    /// Time passes until something is due; false where nothing ever is.
    fn pass_until_due(&mut self) -> bool {
        let timers = self.store.timers.values().map(|timer| timer.due_at);
        let gateways = self.gateways.iter().filter_map(Gateway::due_at);
        let due = self.log.due().chain(timers).chain(gateways).chain(self.clients.due());
        let Some(next) = due.filter(|at| *at > self.now).min() else { return false };
        self.pass(next);
        true
    }

    fn cancel(&mut self, dice: &mut Dice) -> bool {
        let known: Vec<SendId> = self.store.requests.keys().copied().collect();
        let Some(&send_id) = dice.of(&known) else { return false };
        self.store.cancel(send_id, self.now, self.moves, self.mutant);
        let deliveries: Vec<_> = self.store.of_send(send_id).collect();
        for delivery in deliveries {
            self.check_ended(delivery);
        }
        self.note(|| format!("    {} is cancelled", short(send_id)));
        true
    }

    fn erase(&mut self, dice: &mut Dice) -> bool {
        let timer = self.fresh();
        let Some(user) = self.store.erase(dice, self.now, self.moves, timer) else { return false };
        self.note(|| format!("    user {user} is erased"));
        true
    }

    fn redeliver(&mut self, dice: &mut Dice) -> bool {
        let Some(seq) = self.log.forget(self.now, dice) else { return false };
        self.note(|| format!("    {seq:?} comes again"));
        true
    }

    /// Without faults from now on: everybody goes on until nothing is left to do.
    pub(crate) fn rest(&mut self) {
        self.note(|| "-- no faults from here on --".to_owned());
        self.paused = Default::default();
        self.providers.weather = [Weather::Fine; PROVIDERS.len()];
        let dice = &mut Dice::new(0);
        for _ in 0..ROUNDS {
            self.moves += 1;
            let mut is_anything_done = false;
            for actor in Actor::ALL {
                let before = self.story().len();
                if self.step(actor, Luck::Done, dice) {
                    is_anything_done = true;
                    let at = self.now.since(Timestamp::from_millis(1_700_000_000_000));
                    if let Some(story) = &mut self.story {
                        story.insert(before, format!("[{:>10.3} s] {actor:?} goes on", at.as_secs_f64()));
                    }
                }
                if self.broken.is_some() {
                    return;
                }
            }
            if !is_anything_done && !self.pass_until_due() {
                return self.check_end();
            }
        }
        self.violate(Rule::ComesToRest, || "there is still something to do".to_owned());
    }
}

/// The number that a send's id is.
pub(crate) fn short(send_id: SendId) -> String {
    format!("send {}", send_id.0.as_u128())
}
