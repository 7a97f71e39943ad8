//! Blows.

use std::fmt;
use std::time::Duration;

use sabotage::CrashPoint;

use super::others::Other;
use crate::system::part::Name;

/// How much later than planned a blow falls at most while a server is brought back.
const LATE: Duration = Duration::from_secs(3);

/// One blow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    /// kill -9, and a new start.
    Kill(Name),
    /// kill -9, and a new start of a process that kills itself at this passage of the point.
    Crash { at: Name, point: CrashPoint, passage: u64 },
    /// SIGSTOP, and SIGCONT after this long.
    Pause(Name, Duration),
    /// The part's connections to the server are closed.
    Cut(Name, Server),
    /// The part hears nothing from the broker for this long, and then all of it, or nothing of it at all.
    Withhold { from: Name, for_: Duration, is_lost: bool },
    /// An immediate shutdown of PostgreSQL, and a new start after this long.
    StopPostgres(Duration),
    /// kill -9 of nats-server, and a new start after this long.
    KillNats(Duration),
}

/// One of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Database,
    Broker,
}

/// A blow, and when it falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Since the first send.
    pub(crate) at: Duration,
    pub(crate) strike: Strike,
}

impl Planned {
    /// Whether both hold the same part in the same way at the same time.
    pub(super) fn overlaps(&self, earlier: &Planned) -> bool {
        let until = match (earlier.strike, self.strike) {
            (Strike::Pause(whom, for_), Strike::Pause(name, _)) if whom == name => for_,
            (Strike::Withhold { from, for_, .. }, Strike::Withhold { from: name, .. }) if from == name => {
                for_
            }
            _ => return false,
        };
        self.at <= earlier.at + until + LATE
    }
}

impl Strike {
    /// What it is where it is no kill.
    pub(super) fn other(self) -> Option<Other> {
        Some(match self {
            Strike::Pause(..) => Other::Pause,
            Strike::Cut(_, Server::Database) => Other::CutFromDatabase,
            Strike::Cut(_, Server::Broker) => Other::CutFromBroker,
            Strike::Withhold { is_lost: false, .. } => Other::WithholdAndDeliver,
            Strike::Withhold { is_lost: true, .. } => Other::WithholdAndLose,
            Strike::Kill(_) | Strike::Crash { .. } | Strike::StopPostgres(_) | Strike::KillNats(_) => {
                return None;
            }
        })
    }
}

impl fmt::Display for Strike {
    /// As a [`crate::scene::Fault`] names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strike::Kill(name) => write!(f, "kill {name}"),
            Strike::Crash { at, point, passage } => {
                write!(f, "kill {at}, and it dies {} at passage {passage}", point.as_str())
            }
            Strike::Pause(name, for_) => write!(f, "pause {name} for {for_:?}"),
            Strike::Cut(name, Server::Database) => write!(f, "cut {name} from the database"),
            Strike::Cut(name, Server::Broker) => write!(f, "cut {name} from the broker"),
            Strike::Withhold { from, for_, is_lost } => {
                let then = if *is_lost { "lose" } else { "deliver" };
                write!(f, "withhold acks from {from} for {for_:?}, then {then} them")
            }
            Strike::StopPostgres(away) => write!(f, "stop postgres for {away:?}"),
            Strike::KillNats(away) => write!(f, "kill nats for {away:?}"),
        }
    }
}
