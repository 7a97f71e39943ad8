//! Faults other than kills.

use std::time::Duration;

use suite::{Name, Role};

use super::injection::{Injection, ScheduledFault, Server};
use super::schedule::{Size, between, shuffle};
use crate::dice::Dice;

/// Number of random tries to find a process without an overlapping fault.
const TRIES: usize = 100;

/// A kind of fault other than a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Disturbance {
    Pause,
    CutFromDatabase,
    CutFromBroker,
    /// Data from the broker arrives late.
    WithholdAndDeliver,
    /// Data from the broker is lost.
    WithholdAndLose,
    /// A transaction stays open, so PostgreSQL keeps old row versions.
    HoldSnapshot,
    /// PostgreSQL ends a third of the processes' sessions.
    EndSessions,
    /// PostgreSQL accepts no more sessions.
    ExhaustSessions,
}

impl Disturbance {
    pub(crate) const ALL: [Disturbance; 8] = [
        Disturbance::Pause,
        Disturbance::CutFromDatabase,
        Disturbance::CutFromBroker,
        Disturbance::WithholdAndDeliver,
        Disturbance::WithholdAndLose,
        Disturbance::HoldSnapshot,
        Disturbance::EndSessions,
        Disturbance::ExhaustSessions,
    ];
    /// All kinds; pauses are twice as frequent as the others. The whole deck is used before it is shuffled again.
    const DECK: [Disturbance; 9] = [
        Disturbance::Pause,
        Disturbance::Pause,
        Disturbance::CutFromDatabase,
        Disturbance::CutFromBroker,
        Disturbance::WithholdAndDeliver,
        Disturbance::WithholdAndLose,
        Disturbance::HoldSnapshot,
        Disturbance::EndSessions,
        Disturbance::ExhaustSessions,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Disturbance::Pause => "paused",
            Disturbance::CutFromDatabase => "cut from the database",
            Disturbance::CutFromBroker => "cut from the broker",
            Disturbance::WithholdAndDeliver => "acks withheld, then delivered",
            Disturbance::WithholdAndLose => "acks withheld, then lost",
            Disturbance::HoldSnapshot => "old snapshot held",
            Disturbance::EndSessions => "sessions of the database ended",
            Disturbance::ExhaustSessions => "sessions of the database exhausted",
        }
    }
}

/// Disturbances until `end`, drawn from shuffled decks. They have their own interval, so that some coincide with a kill and most
/// do not.
pub(super) fn disturbances(dice: Dice, size: &Size, end: Duration) -> Vec<ScheduledFault> {
    let (mut all, mut deck, mut at) = (Vec::new(), Vec::new(), size.calm + size.pace / 2);
    while at < end {
        if deck.is_empty() {
            deck = Disturbance::DECK.to_vec();
            shuffle(dice, ("others", all.len()), &mut deck);
        }
        all.extend(deck.pop().and_then(|other| scheduled(dice, other, at, &all)));
        at += size.pace_of_disturbances;
    }
    all
}

/// Schedules a disturbance of a random process without an overlapping fault. Returns None if the tries find no such process.
fn scheduled(dice: Dice, other: Disturbance, at: Duration, all: &[ScheduledFault]) -> Option<ScheduledFault> {
    let mut tries =
        (0..TRIES).map(|try_| ScheduledFault { at, injection: injection(dice, other, (all.len(), try_)) });
    tries.find(|planned| !all.iter().any(|earlier| planned.overlaps(earlier)))
}

fn injection(dice: Dice, other: Disturbance, about: (usize, usize)) -> Injection {
    let name = Name {
        role: Role::ALL[dice.below(Role::ALL.len(), ("role", about))],
        number: 1 + dice.below(2, ("number", about)),
    };
    let withhold = |is_lost| Injection::Withhold {
        from: name,
        for_: between(dice, 500, 7_000, ("withhold", about)),
        is_lost,
    };
    match other {
        // Longer than the lease of 3 s.
        Disturbance::Pause => Injection::Pause(name, between(dice, 4_000, 9_000, ("pause", about))),
        Disturbance::CutFromDatabase => Injection::Cut(name, Server::Database),
        Disturbance::CutFromBroker => Injection::Cut(name, Server::Broker),
        Disturbance::WithholdAndDeliver => withhold(false),
        Disturbance::WithholdAndLose => withhold(true),
        Disturbance::HoldSnapshot => {
            Injection::HoldSnapshot(between(dice, 8_000, 20_000, ("snapshot", about)))
        }
        Disturbance::EndSessions => Injection::EndSessions,
        Disturbance::ExhaustSessions => {
            Injection::ExhaustSessions(between(dice, 1_000, 5_000, ("sessions", about)))
        }
    }
}
