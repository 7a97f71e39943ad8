//! The phases and their lengths.

use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

/// Load of a phase, or its share of the offered rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Load {
    /// Jobs per second.
    Rate(f64),
    /// Jobs of the backlog.
    Depth(u64),
}

/// Kind of a phase, under the name that the original gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Offered load that is not reported
    #[default]
    Warmup,
    /// Offered load
    Clean,
    /// One and a half times the offered load
    HighLoad,
    /// One session holds a transaction with an id
    IdleInTx,
    /// Four REPEATABLE READ transactions scan the deliveries
    ActiveReaders,
    /// Offered load after the pressure
    Recovery,
    /// kill -9 of one of two workers, after a fifth of the phase
    KillWorker,
    /// The killed worker runs again
    StartWorker,
    /// After a fifth of the phase, PostgreSQL is stopped for half of it
    PostgresRestart,
    /// kill -9 and restart of a worker, six times
    RepeatedKill,
    /// Twice a second, PostgreSQL ends all sessions that are in a transaction
    PgBackendKill,
    /// The test holds every session that PostgreSQL still allows
    PoolExhaustion,
    /// The provider refuses as many RCPT commands as jobs are offered in half of the phase
    RetryStorm,
    /// A backlog of constant depth, of which a tenth is in the bulk lane
    PriorityStarvation,
    /// A backlog of constant depth
    Saturated,
}

/// A phase to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) kind: Kind,
    pub(crate) length: Duration,
}

/// A phase as the command line names it: `clean`, or `clean=60s`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named(pub(crate) Kind, pub(crate) Option<Duration>);

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Named, String> {
        let (name, length) = match text.split_once('=') {
            Some((name, length)) => {
                (name, Some(humantime::parse_duration(length).map_err(|error| error.to_string())?))
            }
            None => (text, None),
        };
        let names = || Kind::value_variants().iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        let kind = Kind::from_str(name, false).map_err(|_| format!("not one of {}", names()))?;
        match length {
            Some(length) if length < Duration::from_secs(1) => Err("a phase takes at least 1s".to_owned()),
            length => Ok(Named(kind, length)),
        }
    }
}

impl Kind {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Default length, so that all phases take less than ten minutes.
    pub(crate) fn short(self) -> Duration {
        Duration::from_secs(match self {
            Kind::Warmup => 10,
            Kind::KillWorker => 15,
            Kind::Clean | Kind::HighLoad => 30,
            Kind::IdleInTx | Kind::ActiveReaders | Kind::RepeatedKill | Kind::Saturated => 40,
            _ => 20,
        })
    }

    /// Length in the scenarios of the original. The retry storm has no length there.
    pub(crate) fn full(self) -> Duration {
        let minute = 60;
        Duration::from_secs(match self {
            Kind::Warmup => 10 * minute,
            Kind::Clean | Kind::Recovery => 30 * minute,
            Kind::HighLoad => 120 * minute,
            Kind::IdleInTx | Kind::ActiveReaders | Kind::PriorityStarvation => 60 * minute,
            Kind::RepeatedKill => 2 * minute,
            Kind::Saturated => 3 * minute,
            _ => minute,
        })
    }

    /// The share of the offered rate, or a backlog, whose depth is an option.
    pub(crate) fn load(self) -> Load {
        match self {
            Kind::HighLoad => Load::Rate(1.5),
            Kind::PriorityStarvation | Kind::Saturated => Load::Depth(0),
            _ => Load::Rate(1.0),
        }
    }

    /// The share of sends in the bulk lane.
    pub(crate) fn bulk_share(self) -> f64 {
        if self == Kind::PriorityStarvation { 0.1 } else { 0.0 }
    }

    /// Returns true if the next phase begins only when no job is left. The phases of pressure follow each other at once, so that
    /// recovery shows what they left behind.
    pub(crate) fn is_emptied(self) -> bool {
        use Kind::{ActiveReaders, Clean, HighLoad, IdleInTx, KillWorker, Warmup};
        !matches!(self, Warmup | Clean | HighLoad | IdleInTx | ActiveReaders | KillWorker)
    }

    /// Returns true if the phase kills processes or takes PostgreSQL from them. From then on, workers may repeat calls.
    pub(crate) fn is_fault(self) -> bool {
        use Kind::{KillWorker, PgBackendKill, PoolExhaustion, PostgresRestart, RepeatedKill};
        matches!(self, KillWorker | PostgresRestart | RepeatedKill | PgBackendKill | PoolExhaustion)
    }

    /// Returns true if the gateway may be unable to reach PostgreSQL, and so may refuse sends.
    pub(crate) fn may_refuse(self) -> bool {
        matches!(self, Kind::PostgresRestart | Kind::PgBackendKill | Kind::PoolExhaustion)
    }
}

// The benchmark has no tests, so that an import here would be unused in it.
#[cfg(test)]
mod tests {
    #[test]
    fn a_phase_is_a_name_and_perhaps_a_length() {
        let super::Named(kind, length) = "idle-in-tx=2m".parse().unwrap();
        assert_eq!((kind, length), (super::Kind::IdleInTx, Some(std::time::Duration::from_secs(120))));
        let super::Named(kind, length) = "saturated".parse().unwrap();
        assert_eq!((kind, length), (super::Kind::Saturated, None));
        for wrong in ["", "idle", "clean=", "clean=0s", "clean=x"] {
            assert!(wrong.parse::<super::Named>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn default_phases_fit_in_ten_minutes() {
        let kinds = <super::Kind as clap::ValueEnum>::value_variants();
        let seconds: u64 = kinds.iter().map(|kind| kind.short().as_secs()).sum();
        assert!(seconds < 480, "{seconds} s, and after each fault the run waits until no job is left");
    }
}
