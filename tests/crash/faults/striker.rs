//! Carries out the schedule.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use sabotage::{CRASH_AT, CrashPoint};
use serde_json::Value;
use testkit::eventually;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::crashes::Crashes;
use super::now;
use super::others::Other;
use super::schedule::Schedule;
use super::strike::{Server, Strike};
use super::struck::Struck;
use crate::scene::Fault;
use crate::system::System;
use crate::system::part::Name;

/// How often it is looked after everybody.
const GLANCE: Duration = Duration::from_millis(50);
const REPORTED_EVERY: Duration = Duration::from_secs(10);
const BACK_WITHIN: Duration = Duration::from_secs(90);

/// Strikes, and looks after who was struck.
pub(super) struct Striker<'s> {
    system: &'s mut System,
    crashes: Crashes,
    struck: Struck,
    /// What processes are to die at, one life after the other.
    armed: BTreeMap<Name, VecDeque<(CrashPoint, u64)>>,
    /// What is to be undone, and when.
    open: Vec<Open>,
    /// When everybody was last looked after, in milliseconds since 1970.
    glanced: i64,
}

/// A fault that goes on.
struct Open {
    /// What is told of it.
    what: String,
    from: i64,
    undo: Undo,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Undo {
    /// When the process says that it serves.
    Ready(Name),
    /// The process of this id, unless it was killed meanwhile.
    Resume(Name, u32, Instant),
    LetGo {
        name: Name,
        at: Instant,
        is_lost: bool,
    },
    StartPostgres(Instant),
    StartNats(Instant),
}

impl<'s> Striker<'s> {
    pub(super) fn new(system: &'s mut System) -> Striker<'s> {
        let crashes = Crashes::of(system.files.path("crashes"));
        Striker {
            system,
            crashes,
            struck: Struck::default(),
            armed: BTreeMap::new(),
            open: Vec::new(),
            glanced: now(),
        }
    }

    /// Strikes until the schedule is at its end, everybody has died who was to, and nothing is open, or until the workload
    /// is over; then undoes what is open, and returns when everybody serves again.
    pub(super) async fn run(mut self, schedule: &Schedule, over: &CancellationToken) -> Struck {
        let began = Instant::now();
        let mut left = schedule.0.iter().peekable();
        let mut told = began;
        let mut glances = tokio::time::interval(GLANCE);
        glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !over.is_cancelled()
            && (left.peek().is_some()
                || !self.open.is_empty()
                || self.armed.values().any(|asked| !asked.is_empty()))
        {
            glances.tick().await;
            self.look_after_everybody().await;
            while let Some(planned) = left.next_if(|planned| planned.at <= began.elapsed()) {
                self.strike(planned.strike).await;
            }
            if told.elapsed() >= REPORTED_EVERY {
                told = Instant::now();
                self.report(began.elapsed(), left.len());
            }
        }
        self.end().await;
        self.struck
    }

    async fn look_after_everybody(&mut self) {
        let since = self.glanced;
        self.glanced = now();
        self.system.assert_providers_running();
        for place in 0..self.system.parts.len() {
            let name = self.system.parts[place].name;
            self.mourn(name, since);
        }
        for open in std::mem::take(&mut self.open) {
            if self.is_undone(open.undo).await {
                self.struck.faults.push(Fault { what: open.what, from: open.from, until: now() });
            } else {
                self.open.push(open);
            }
        }
    }

    /// Starts a part again that killed itself, as it was asked to.
    ///
    /// # Panics
    /// It ended by itself.
    fn mourn(&mut self, name: Name, since: i64) {
        let part = self.system.part(name);
        let Some(ended) = part.ended() else { return };
        match self.crashes.take(part.service.id()) {
            Some(point) => {
                *self.struck.crashes.entry(point).or_default() += 1;
                if let Some(asked) = self.armed.get_mut(&name) {
                    asked.pop_front();
                }
                self.start(name, format!("{} {name}", point.as_str()), since);
            }
            None => {
                let (words, last_words) = (part.service.words(), part.service.last_words());
                let gave_up = gave_up(&words) && self.is_open(|undo| undo == Undo::Ready(name));
                assert!(gave_up, "{name} ended by itself ({ended}); {last_words}");
                self.struck.gave_up.push(name.to_string());
                self.start(name, format!("gave up {name}"), since);
            }
        }
    }

    /// Kills a part that runs, and starts it; it dies at what it is asked for next.
    fn start(&mut self, name: Name, what: String, from: i64) {
        let asked = self.armed.get(&name).and_then(VecDeque::front);
        let crash_at = asked.map(|(point, passage)| format!("{}:{passage}", point.as_str()));
        let environment: Vec<_> = crash_at.iter().map(|at| (CRASH_AT, at.as_str())).collect();
        self.system.part(name).restart(&environment);
        self.open.push(Open { what, from, undo: Undo::Ready(name) });
    }

    async fn is_undone(&mut self, undo: Undo) -> bool {
        match undo {
            Undo::Ready(name) => {
                let client = self.system.client.clone();
                self.system.part(name).is_ready(&client).await
            }
            Undo::Resume(name, process, at) if at <= Instant::now() => {
                let service = &mut self.system.part(name).service;
                service.resume().unwrap();
                // One that was killed while it stood still never came back to what it held.
                if service.id() == process {
                    self.struck.note(Other::Pause);
                }
                true
            }
            Undo::LetGo { name, at, is_lost } if at <= Instant::now() => {
                let broker = &self.system.part(name).broker;
                if is_lost {
                    broker.cut();
                }
                broker.withhold(false);
                true
            }
            Undo::StartPostgres(at) if at <= Instant::now() => {
                self.system.postgres.restart().await.unwrap();
                true
            }
            Undo::StartNats(at) if at <= Instant::now() => {
                self.system.nats.restart().await.unwrap();
                true
            }
            _ => false,
        }
    }

    async fn strike(&mut self, strike: Strike) {
        let from = now();
        let later = |wait: Duration| Instant::now() + wait;
        match strike {
            Strike::Kill(name) => self.kill(name),
            Strike::Crash { at, point, passage } => {
                self.armed.entry(at).or_default().push_back((point, passage));
                self.kill(at);
            }
            // Who stands still or hears nothing already, and a server that is away, is not struck again.
            Strike::Pause(name, _)
                if self.is_open(|undo| matches!(undo, Undo::Resume(who, ..) if who == name)) => {}
            Strike::Withhold { from, .. }
                if self.is_open(|undo| matches!(undo, Undo::LetGo { name, .. } if name == from)) => {}
            Strike::StopPostgres(_) if self.is_open(|undo| matches!(undo, Undo::StartPostgres(_))) => {}
            Strike::KillNats(_) if self.is_open(|undo| matches!(undo, Undo::StartNats(_))) => {}
            Strike::Pause(name, for_) => {
                let service = &mut self.system.part(name).service;
                service.pause().unwrap();
                let undo = Undo::Resume(name, service.id(), later(for_));
                self.open(format!("pause {name}"), from, undo);
            }
            Strike::Cut(name, server) => {
                let part = self.system.part(name);
                match server {
                    Server::Database => part.database.cut(),
                    Server::Broker => part.broker.cut(),
                }
                strike.other().into_iter().for_each(|other| self.struck.note(other));
                self.struck.faults.push(Fault { what: strike.to_string(), from, until: now() });
            }
            Strike::Withhold { from: name, for_, is_lost } => {
                self.system.part(name).broker.withhold(true);
                strike.other().into_iter().for_each(|other| self.struck.note(other));
                self.open(
                    format!("withhold acks {name}"),
                    from,
                    Undo::LetGo { name, at: later(for_), is_lost },
                );
            }
            Strike::StopPostgres(away) => {
                self.system.postgres.stop_immediately().await.unwrap();
                *self.struck.kills.entry("postgres").or_default() += 1;
                self.open("stop postgres".to_owned(), from, Undo::StartPostgres(later(away)));
            }
            Strike::KillNats(away) => {
                self.system.nats.kill();
                *self.struck.kills.entry("nats").or_default() += 1;
                self.open("kill nats".to_owned(), from, Undo::StartNats(later(away)));
            }
        }
    }

    fn is_open(&self, is_it: impl Fn(Undo) -> bool) -> bool {
        self.open.iter().any(|open| is_it(open.undo))
    }

    fn open(&mut self, what: String, from: i64, undo: Undo) {
        self.open.push(Open { what, from, undo });
    }

    fn kill(&mut self, name: Name) {
        // It may just have killed itself.
        self.mourn(name, self.glanced);
        let from = now();
        *self.struck.kills.entry(name.role.as_str()).or_default() += 1;
        self.start(name, format!("kill {name}"), from);
    }

    fn report(&self, passed: Duration, left: usize) {
        let crashes: usize = self.struck.crashes.values().sum();
        let others: usize = self.struck.others.values().sum();
        println!(
            "{:4} s: {} kills, {crashes} at crash points, {others} other blows; {left} blows to come",
            passed.as_secs(),
            self.struck.number_of_kills(),
        );
    }

    /// Nobody is to die from now on, and everybody is to serve.
    async fn end(&mut self) {
        let due = Instant::now();
        for open in &mut self.open {
            match &mut open.undo {
                Undo::Ready(_) => {}
                Undo::Resume(_, _, at)
                | Undo::LetGo { at, .. }
                | Undo::StartPostgres(at)
                | Undo::StartNats(at) => *at = due,
            }
        }
        let armed = std::mem::take(&mut self.armed);
        for (name, _) in armed.into_iter().filter(|(_, asked)| !asked.is_empty()) {
            self.kill(name);
        }
        let ended = async || {
            self.look_after_everybody().await;
            self.open.is_empty().then_some(())
        };
        eventually(BACK_WITHIN, "everybody is back", ended).await;
    }
}

/// Whether these are the words of a service that gave up waiting for a server when it started: its last line says so.
fn gave_up(words: &str) -> bool {
    let last = words.trim_end().lines().next_back().unwrap_or_default();
    let line: Value = serde_json::from_str(last).unwrap_or_default();
    line["level"] == "ERROR"
        && line["message"] == "a failure stopped the service"
        && line["error"].as_str().is_some_and(|error| error.starts_with("no connection to "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::gave_up;

    fn failed(error: &str) -> String {
        let waits = json!({"level": "INFO", "message": "cannot reach a server yet; retrying"});
        let failed = json!({"level": "ERROR", "message": "a failure stopped the service", "error": error});
        format!("{waits}\n{failed}\n")
    }

    #[test]
    fn only_who_says_last_that_no_server_was_there_gave_up_waiting() {
        let gone = failed("no connection to NATS at 127.0.0.1:4222 within 60s: no answer");
        assert!(gave_up(&gone));
        let (waits, _) = gone.split_once('\n').unwrap();
        assert!(!gave_up(waits) && !gave_up(""));
        assert!(!gave_up(&failed("the service ended before the process was stopped")));
        assert!(!gave_up(&(gone + "thread 'main' panicked at src/main.rs:1:1\n")));
    }
}
