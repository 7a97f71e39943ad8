//! Blows that are no kills.

use std::time::Duration;

use super::schedule::{Size, between, shuffle};
use super::strike::{Planned, Server, Strike};
use crate::dice::Dice;
use crate::system::part::{Name, Role};

/// How often another victim is looked for.
const TRIES: usize = 100;

/// Blows beside the kills, by what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Other {
    Pause,
    CutFromDatabase,
    CutFromBroker,
    /// What the broker said meanwhile comes late.
    WithholdAndDeliver,
    /// It never comes.
    WithholdAndLose,
}

impl Other {
    pub(crate) const ALL: [Other; 5] = [
        Other::Pause,
        Other::CutFromDatabase,
        Other::CutFromBroker,
        Other::WithholdAndDeliver,
        Other::WithholdAndLose,
    ];
    /// What is dealt before all of it is dealt again.
    const DECK: [Other; 6] = [
        Other::Pause,
        Other::Pause,
        Other::CutFromDatabase,
        Other::CutFromBroker,
        Other::WithholdAndDeliver,
        Other::WithholdAndLose,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Other::Pause => "paused",
            Other::CutFromDatabase => "cut from the database",
            Other::CutFromBroker => "cut from the broker",
            Other::WithholdAndDeliver => "acks withheld, then delivered",
            Other::WithholdAndLose => "acks withheld, then lost",
        }
    }
}

/// The blows until `end`, dealt from a deck. A little apart from the kills, and now and then together with one.
pub(super) fn others(dice: Dice, size: &Size, end: Duration) -> Vec<Planned> {
    let (mut all, mut deck, mut at) = (Vec::new(), Vec::new(), size.calm + size.pace / 2);
    while at < end {
        if deck.is_empty() {
            deck = Other::DECK.to_vec();
            shuffle(dice, ("others", all.len()), &mut deck);
        }
        all.extend(deck.pop().and_then(|other| planned(dice, other, at, &all)));
        at += size.pace_of_others;
    }
    all
}

/// Of whoever is not struck so already; None where that is nobody.
fn planned(dice: Dice, other: Other, at: Duration, all: &[Planned]) -> Option<Planned> {
    let mut tries = (0..TRIES).map(|try_| Planned { at, strike: strike(dice, other, (all.len(), try_)) });
    tries.find(|planned| !all.iter().any(|earlier| planned.overlaps(earlier)))
}

fn strike(dice: Dice, other: Other, about: (usize, usize)) -> Strike {
    let name = Name {
        role: Role::ALL[dice.below(Role::ALL.len(), ("role", about))],
        number: 1 + dice.below(2, ("number", about)),
    };
    let withhold = |is_lost| Strike::Withhold {
        from: name,
        for_: between(dice, 500, 7_000, ("withhold", about)),
        is_lost,
    };
    match other {
        // The lease is 3 s.
        Other::Pause => Strike::Pause(name, between(dice, 4_000, 9_000, ("pause", about))),
        Other::CutFromDatabase => Strike::Cut(name, Server::Database),
        Other::CutFromBroker => Strike::Cut(name, Server::Broker),
        Other::WithholdAndDeliver => withhold(false),
        Other::WithholdAndLose => withhold(true),
    }
}
