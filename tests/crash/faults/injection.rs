//! Faults that can be injected.

use std::fmt;
use std::time::Duration;

use sabotage::CrashPoint;
use suite::Name;

use super::disturbance::Disturbance;

/// Maximum delay of an injection. Injections wait while a server restarts.
const LATE: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    /// kill -9 and a restart.
    Kill(Name),
    /// kill -9 and a restart. The new process kills itself the n-th time that it passes the crash point; `passage` is n.
    Crash { at: Name, point: CrashPoint, passage: u64 },
    /// SIGSTOP, and SIGCONT after this time.
    Pause(Name, Duration),
    /// The process's connections to the server are closed.
    Cut(Name, Server),
    /// Data from the broker is withheld from the process for this time, and then delivered or lost.
    Withhold { from: Name, for_: Duration, is_lost: bool },
    /// Overlapping transactions read snapshots for this time, and one of them stays open.
    HoldSnapshot(Duration),
    /// PostgreSQL ends a third of the processes' sessions.
    EndSessions,
    /// The test opens sessions until PostgreSQL refuses more, and closes them after this time.
    ExhaustSessions(Duration),
    /// Immediate shutdown of PostgreSQL, and a restart after this time.
    StopPostgres(Duration),
    /// kill -9 of nats-server, and a restart after this time.
    KillNats(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Database,
    Broker,
}

/// A fault with the time at which it is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScheduledFault {
    /// Time since the first send.
    pub(crate) at: Duration,
    pub(crate) injection: Injection,
}

impl ScheduledFault {
    /// The same fault at a later time and with longer times, for a slow machine.
    pub(super) fn stretched(self, factor: f64) -> ScheduledFault {
        ScheduledFault { at: self.at.mul_f64(factor), injection: self.injection.stretched(factor) }
    }

    /// Returns true if both faults are pauses, or both withhold data, and they may affect the same process at the same time.
    pub(super) fn overlaps(&self, earlier: &ScheduledFault) -> bool {
        let until = match (earlier.injection, self.injection) {
            (Injection::Pause(whom, for_), Injection::Pause(name, _)) if whom == name => for_,
            (Injection::Withhold { from, for_, .. }, Injection::Withhold { from: name, .. })
                if from == name =>
            {
                for_
            }
            _ => return false,
        };
        self.at <= earlier.at + until + LATE
    }
}

impl Injection {
    /// The same fault with longer times, for a slow machine.
    fn stretched(self, factor: f64) -> Injection {
        match self {
            Injection::Pause(name, for_) => Injection::Pause(name, for_.mul_f64(factor)),
            Injection::Withhold { from, for_, is_lost } => {
                Injection::Withhold { from, for_: for_.mul_f64(factor), is_lost }
            }
            Injection::HoldSnapshot(for_) => Injection::HoldSnapshot(for_.mul_f64(factor)),
            Injection::ExhaustSessions(for_) => Injection::ExhaustSessions(for_.mul_f64(factor)),
            Injection::StopPostgres(away) => Injection::StopPostgres(away.mul_f64(factor)),
            Injection::KillNats(away) => Injection::KillNats(away.mul_f64(factor)),
            Injection::Kill(_) | Injection::Crash { .. } | Injection::Cut(..) | Injection::EndSessions => {
                self
            }
        }
    }

    /// The kind of disturbance. None for a kill.
    pub(super) fn disturbance(self) -> Option<Disturbance> {
        Some(match self {
            Injection::Pause(..) => Disturbance::Pause,
            Injection::Cut(_, Server::Database) => Disturbance::CutFromDatabase,
            Injection::Cut(_, Server::Broker) => Disturbance::CutFromBroker,
            Injection::Withhold { is_lost: false, .. } => Disturbance::WithholdAndDeliver,
            Injection::Withhold { is_lost: true, .. } => Disturbance::WithholdAndLose,
            Injection::HoldSnapshot(_) => Disturbance::HoldSnapshot,
            Injection::EndSessions => Disturbance::EndSessions,
            Injection::ExhaustSessions(_) => Disturbance::ExhaustSessions,
            Injection::Kill(_)
            | Injection::Crash { .. }
            | Injection::StopPostgres(_)
            | Injection::KillNats(_) => {
                return None;
            }
        })
    }
}

impl fmt::Display for Injection {
    /// Writes the text of [`crate::scene::Fault::what`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Injection::Kill(name) => write!(f, "kill {name}"),
            Injection::Crash { at, point, passage } => {
                write!(f, "kill {at}, and it dies {} at passage {passage}", point.as_str())
            }
            Injection::Pause(name, for_) => write!(f, "pause {name} for {for_:?}"),
            Injection::Cut(name, Server::Database) => write!(f, "cut {name} from the database"),
            Injection::Cut(name, Server::Broker) => write!(f, "cut {name} from the broker"),
            Injection::Withhold { from, for_, is_lost } => {
                let then = if *is_lost { "lose" } else { "deliver" };
                write!(f, "withhold acks from {from} for {for_:?}, then {then} them")
            }
            Injection::HoldSnapshot(for_) => write!(f, "hold a snapshot for {for_:?}"),
            Injection::EndSessions => write!(f, "end sessions of postgres"),
            Injection::ExhaustSessions(for_) => write!(f, "exhaust the sessions of postgres for {for_:?}"),
            Injection::StopPostgres(away) => write!(f, "stop postgres for {away:?}"),
            Injection::KillNats(away) => write!(f, "kill nats for {away:?}"),
        }
    }
}
