//! Injects the faults of a schedule.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use sabotage::{CRASH_AT, CrashPoint};
use serde_json::Value;
use suite::Name;
use suite::sessions::{self, Crowd};
use testkit::eventually;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::crashes::{Crashes, Death};
use super::disturbance::Disturbance;
use super::injection::{Injection, Server};
use super::now;
use super::schedule::Schedule;
use super::tally::Tally;
use crate::scene::Fault;
use crate::system::System;

/// Interval between two checks of all processes.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
const REPORTED_EVERY: Duration = Duration::from_secs(10);
const BACK_WITHIN: Duration = Duration::from_secs(90);

/// Injects faults, ends them, and restarts processes that died of one.
pub(super) struct Injector<'s> {
    system: &'s mut System,
    crashes: Crashes,
    tally: Tally,
    /// Crash points at which each process must still die, one per start of the process.
    armed: BTreeMap<Name, VecDeque<(CrashPoint, u64)>>,
    /// Faults that have begun and not ended.
    open: Vec<OpenFault>,
    /// Faults of PostgreSQL's sessions that could not begin, because PostgreSQL was unavailable or had no session left.
    delayed: Vec<Injection>,
    /// Sessions with transactions that hold snapshots, the oldest first.
    readers: VecDeque<JoinSet<()>>,
    crowd: Option<Crowd>,
    /// Time of the last check of all processes, in milliseconds since 1970.
    checked_at: i64,
}

/// A fault that has begun and not ended.
struct OpenFault {
    /// Name in the record.
    what: String,
    from: i64,
    undo: Undo,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Undo {
    /// Ends when the process is ready.
    Ready(Name),
    /// Resumes the process with this id, unless it was killed during the pause.
    Resume(Name, u32, Instant),
    LetGo {
        name: Name,
        at: Instant,
        is_lost: bool,
    },
    /// Ends the oldest of the sessions that hold snapshots.
    EndReader(Instant),
    /// Closes the sessions this long after PostgreSQL has refused one.
    Disperse(Duration),
    StartPostgres(Instant),
    StartNats(Instant),
}

impl<'s> Injector<'s> {
    pub(super) fn new(system: &'s mut System) -> Injector<'s> {
        let crashes = Crashes::of(system.files.path("crashes"));
        Injector {
            system,
            crashes,
            tally: Tally::default(),
            armed: BTreeMap::new(),
            open: Vec::new(),
            delayed: Vec::new(),
            readers: VecDeque::new(),
            crowd: None,
            checked_at: now(),
        }
    }

    /// Injects faults until the schedule is finished, every requested crash has happened and no fault is open. Stops earlier if
    /// the workload is over. Then ends the open faults, and returns when every process is ready.
    pub(super) async fn run(mut self, schedule: &Schedule, over: &CancellationToken) -> Tally {
        let began = Instant::now();
        let mut left = schedule.0.iter().peekable();
        let mut reported = began;
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !over.is_cancelled()
            && (left.peek().is_some()
                || !self.open.is_empty()
                || !self.delayed.is_empty()
                || self.armed.values().any(|asked| !asked.is_empty()))
        {
            checks.tick().await;
            self.check_processes().await;
            for delayed in std::mem::take(&mut self.delayed) {
                self.inject(delayed).await;
            }
            while let Some(planned) = left.next_if(|planned| planned.at <= began.elapsed()) {
                self.inject(planned.injection).await;
            }
            if reported.elapsed() >= REPORTED_EVERY {
                reported = Instant::now();
                self.report(began.elapsed(), left.len());
            }
        }
        self.end().await;
        self.tally
    }

    async fn check_processes(&mut self) {
        let since = self.checked_at;
        self.checked_at = now();
        self.system.assert_providers_running();
        for place in 0..self.system.processes.len() {
            let name = self.system.processes[place].name;
            self.restart_crashed(name, since);
        }
        for open in std::mem::take(&mut self.open) {
            if self.is_undone(open.undo).await {
                self.tally.faults.push(Fault { what: open.what, from: open.from, until: now() });
            } else {
                self.open.push(open);
            }
        }
    }

    /// Restarts a process that died at its crash point, or of the poison.
    ///
    /// # Panics
    /// The process ended for another reason.
    fn restart_crashed(&mut self, name: Name, since: i64) {
        let process = self.system.process_mut(name);
        let Some(ended) = process.ended() else { return };
        match self.crashes.take(process.service.id()) {
            Some(Death::OfPoison) => {
                self.tally.poisoned += 1;
                self.start(name, format!("{} {name}", sabotage::POISONED), since);
            }
            Some(Death::AtPoint(point)) => {
                *self.tally.crashes.entry(point).or_default() += 1;
                if let Some(asked) = self.armed.get_mut(&name) {
                    asked.pop_front();
                }
                self.start(name, format!("{} {name}", point.as_str()), since);
            }
            None => {
                let (words, last_words) = (process.service.words(), process.service.last_words());
                let gave_up = gave_up(&words) && self.is_open(|undo| undo == Undo::Ready(name));
                assert!(gave_up, "{name} ended unexpectedly ({ended}); {last_words}");
                self.tally.gave_up.push(name.to_string());
                self.start(name, format!("gave up {name}"), since);
            }
        }
    }

    /// Kills the process if it runs, and starts it with its next crash point.
    fn start(&mut self, name: Name, what: String, from: i64) {
        let asked = self.armed.get(&name).and_then(VecDeque::front);
        let crash_at = asked.map(|(point, passage)| format!("{}:{passage}", point.as_str()));
        let environment: Vec<_> = crash_at.iter().map(|at| (CRASH_AT, at.as_str())).collect();
        self.system.process_mut(name).restart(&environment);
        self.open.push(OpenFault { what, from, undo: Undo::Ready(name) });
    }

    async fn is_undone(&mut self, undo: Undo) -> bool {
        match undo {
            Undo::Ready(name) => self.system.process(name).is_ready(&self.system.client).await,
            Undo::Resume(name, process, at) if at <= Instant::now() => {
                let service = &mut self.system.process_mut(name).service;
                service.resume().unwrap();
                // Count the pause only if the process was not killed during it: the test needs processes that resume with expired
                // claims.
                if service.id() == process {
                    self.tally.add(Disturbance::Pause);
                }
                true
            }
            Undo::LetGo { name, at, is_lost } if at <= Instant::now() => {
                let broker = &self.system.links[&name].broker;
                if is_lost {
                    broker.cut();
                }
                broker.withhold(false);
                true
            }
            Undo::EndReader(at) if at <= Instant::now() => {
                self.readers.pop_front();
                true
            }
            Undo::Disperse(after) => match self.crowd.as_mut().and_then(Crowd::full_for) {
                Some(full) if full < after => false,
                Some(_) => {
                    self.crowd = None;
                    self.tally.add(Disturbance::ExhaustSessions);
                    true
                }
                None if self.crowd.as_ref().is_some_and(Crowd::is_gathering) => false,
                None => {
                    // PostgreSQL was stopped meanwhile.
                    self.crowd = None;
                    self.delayed.push(Injection::ExhaustSessions(after));
                    true
                }
            },
            Undo::StartPostgres(at) if at <= Instant::now() => {
                self.system.postgres.restart().await.unwrap();
                true
            }
            Undo::StartNats(at) if at <= Instant::now() => {
                self.system.servers.nats.restart().await.unwrap();
                true
            }
            _ => false,
        }
    }

    async fn inject(&mut self, injection: Injection) {
        let from = now();
        let later = |wait: Duration| Instant::now() + wait;
        match injection {
            Injection::Kill(name) => self.kill(name),
            Injection::Crash { at, point, passage } => {
                self.armed.entry(at).or_default().push_back((point, passage));
                self.kill(at);
            }
            // Skip the fault if an earlier one of the same kind, on the same process or server, has not ended yet.
            Injection::Pause(name, _)
                if self.is_open(|undo| matches!(undo, Undo::Resume(who, ..) if who == name)) => {}
            Injection::Withhold { from, .. }
                if self.is_open(|undo| matches!(undo, Undo::LetGo { name, .. } if name == from)) => {}
            Injection::StopPostgres(_) if self.is_open(|undo| matches!(undo, Undo::StartPostgres(_))) => {}
            Injection::KillNats(_) if self.is_open(|undo| matches!(undo, Undo::StartNats(_))) => {}
            Injection::Pause(name, for_) => {
                let service = &mut self.system.process_mut(name).service;
                service.pause().unwrap();
                let undo = Undo::Resume(name, service.id(), later(for_));
                self.open(format!("pause {name}"), from, undo);
            }
            Injection::Cut(name, server) => {
                let links = &self.system.links[&name];
                match server {
                    Server::Database => links.database.cut(),
                    Server::Broker => links.broker.cut(),
                }
                injection.disturbance().into_iter().for_each(|disturbance| self.tally.add(disturbance));
                self.tally.faults.push(Fault { what: injection.to_string(), from, until: now() });
            }
            Injection::Withhold { from: name, for_, is_lost } => {
                self.system.links[&name].broker.withhold(true);
                injection.disturbance().into_iter().for_each(|disturbance| self.tally.add(disturbance));
                self.open(
                    format!("withhold acks {name}"),
                    from,
                    Undo::LetGo { name, at: later(for_), is_lost },
                );
            }
            Injection::HoldSnapshot(_) | Injection::EndSessions | Injection::ExhaustSessions(_) => {
                self.disturb_sessions(injection, from).await;
            }
            Injection::StopPostgres(away) => {
                self.system.postgres.stop_immediately().await.unwrap();
                *self.tally.kills.entry("postgres").or_default() += 1;
                self.open("stop postgres".to_owned(), from, Undo::StartPostgres(later(away)));
            }
            Injection::KillNats(away) => {
                self.system.servers.nats.kill();
                *self.tally.kills.entry("nats").or_default() += 1;
                self.open("kill nats".to_owned(), from, Undo::StartNats(later(away)));
            }
        }
    }

    /// Injects a fault into the sessions of PostgreSQL, or delays it if that is not possible now.
    async fn disturb_sessions(&mut self, injection: Injection, from: i64) {
        let url = self.system.scene.database_url.clone();
        match injection {
            Injection::HoldSnapshot(for_) => match sessions::readers(&url).await {
                Some(readers) => {
                    self.readers.push_back(readers);
                    self.tally.add(Disturbance::HoldSnapshot);
                    self.open("hold a snapshot".to_owned(), from, Undo::EndReader(Instant::now() + for_));
                }
                None => self.delayed.push(injection),
            },
            Injection::EndSessions if sessions::end_a_third(&url).await => {
                self.tally.add(Disturbance::EndSessions);
                self.tally.faults.push(Fault { what: injection.to_string(), from, until: now() });
            }
            Injection::ExhaustSessions(for_) if self.crowd.is_none() => {
                self.crowd = Some(Crowd::gather(url));
                self.open("exhaust the sessions of postgres".to_owned(), from, Undo::Disperse(for_));
            }
            _ => self.delayed.push(injection),
        }
    }

    fn is_open(&self, is_it: impl Fn(Undo) -> bool) -> bool {
        self.open.iter().any(|open| is_it(open.undo))
    }

    fn open(&mut self, what: String, from: i64, undo: Undo) {
        self.open.push(OpenFault { what, from, undo });
    }

    fn kill(&mut self, name: Name) {
        // The process may have died at its crash point since the last check.
        self.restart_crashed(name, self.checked_at);
        let from = now();
        *self.tally.kills.entry(name.role.as_str()).or_default() += 1;
        self.start(name, format!("kill {name}"), from);
    }

    fn report(&self, passed: Duration, left: usize) {
        let crashes: usize = self.tally.crashes.values().sum();
        let disturbances: usize = self.tally.disturbances.values().sum();
        println!(
            "{:4} s: {} kills, {crashes} of them at crash points, {disturbances} other faults; {left} faults left",
            passed.as_secs(),
            self.tally.number_of_kills(),
        );
    }

    /// Ends every fault, and waits until every process is ready.
    async fn end(&mut self) {
        let due = Instant::now();
        self.delayed.clear();
        for open in &mut self.open {
            match &mut open.undo {
                Undo::Ready(_) => {}
                Undo::Disperse(after) => *after = Duration::ZERO,
                Undo::Resume(_, _, at)
                | Undo::LetGo { at, .. }
                | Undo::EndReader(at)
                | Undo::StartPostgres(at)
                | Undo::StartNats(at) => *at = due,
            }
        }
        let armed = std::mem::take(&mut self.armed);
        for (name, _) in armed.into_iter().filter(|(_, asked)| !asked.is_empty()) {
            self.kill(name);
        }
        let ended = async || {
            self.check_processes().await;
            self.open.is_empty().then_some(())
        };
        eventually(BACK_WITHIN, "every process is ready", ended).await;
    }
}

/// Returns true if the last line of a service's log says that it gave up waiting for a server when it started.
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
    fn a_service_gave_up_waiting_only_if_its_last_line_says_so() {
        let gone = failed("no connection to NATS at 127.0.0.1:4222 within 60s: no answer");
        assert!(gave_up(&gone));
        let (waits, _) = gone.split_once('\n').unwrap();
        assert!(!gave_up(waits) && !gave_up(""));
        assert!(!gave_up(&failed("the service ended before the process was stopped")));
        assert!(!gave_up(&(gone + "thread 'main' panicked at src/main.rs:1:1\n")));
    }
}
