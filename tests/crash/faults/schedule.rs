//! What is done to the system, and when: all of it from the seed.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use sabotage::CrashPoint;

use super::others::others;
use super::strike::{Planned, Strike};
use crate::dice::Dice;
use crate::system::part::{Name, Role};

/// How much is done to the system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Before the first blow.
    pub(crate) calm: Duration,
    /// From one kill to the next.
    pub(crate) pace: Duration,
    /// From one of the other blows to the next.
    pub(crate) pace_of_others: Duration,
    /// Kills that are planned, those of processes that then kill themselves among them.
    pub(crate) kills: usize,
    /// Kills without which the run does not count.
    pub(crate) least_kills: usize,
    /// How often everything has to happen without which the run does not count: a death at each crash point, a stop of each
    /// server, each of the other blows, an answer of each class.
    pub(crate) least_of_each: usize,
    /// How often a process is asked to kill itself at each crash point.
    pub(crate) each_point: usize,
    /// Immediate stops of PostgreSQL, and as many kills of nats-server.
    pub(crate) each_server: usize,
}

impl Size {
    pub(crate) const CI: Size = Size {
        calm: Duration::from_secs(6),
        pace: Duration::from_secs(3),
        pace_of_others: Duration::from_secs(5),
        kills: 44,
        least_kills: 40,
        least_of_each: 3,
        each_point: 4,
        each_server: 4,
    };
    pub(crate) const LONG: Size = Size {
        calm: Duration::from_secs(30),
        pace: Duration::from_millis(500),
        pace_of_others: Duration::from_millis(1_900),
        kills: 1_800,
        least_kills: 300,
        least_of_each: 20,
        each_point: 30,
        each_server: 30,
    };
}

/// Blows in the order in which they fall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule(pub(crate) Vec<Planned>);

impl Schedule {
    pub(crate) fn new(seed: u64, size: &Size) -> Schedule {
        let dice = Dice(seed);
        let mut all: Vec<Planned> = kills(dice, size);
        let end = all.last().map_or(size.calm, |last| last.at);
        all.extend(others(dice, size, end));
        all.extend(companions(dice, &all));
        all.sort_by_key(|planned| planned.at);
        Schedule(all)
    }

    /// When the last blow falls.
    pub(crate) fn length(&self) -> Duration {
        self.0.last().map_or(Duration::ZERO, |last| last.at)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|planned| writeln!(f, "{:8.1} s  {}", planned.at.as_secs_f64(), planned.strike))
    }
}

/// The kills, one at a time. Those who are to kill themselves come early enough to have something to do.
fn kills(dice: Dice, size: &Size) -> Vec<Planned> {
    let mut early: Vec<Strike> = Vec::new();
    for round in 0..size.each_point {
        early.extend(CrashPoint::ALL.iter().map(|point| crash(dice, *point, round)));
    }
    for number in 0..size.each_server {
        let away = |what| between(dice, 500, 3_000, (what, number));
        early.extend([Strike::StopPostgres(away("postgres")), Strike::KillNats(away("nats"))]);
    }
    let late = size.kills.saturating_sub(early.len());
    // Of the plain kills two thirds are spread over the run, a third end it.
    let plain: Vec<Strike> = (0..late).map(|number| Strike::Kill(victim(dice, number))).collect();
    let (spread, last) = plain.split_at(late * 2 / 3);
    early.extend(spread);
    shuffle(dice, "kills", &mut early);
    let at = |number: usize| size.calm + size.pace * u32::try_from(number).unwrap();
    let all = early.into_iter().chain(last.iter().copied());
    all.enumerate().map(|(number, strike)| Planned { at: at(number), strike }).collect()
}

fn crash(dice: Dice, point: CrashPoint, round: usize) -> Strike {
    let about = (point.as_str(), round);
    let role = match point {
        CrashPoint::AfterPublish => Role::Gateway,
        CrashPoint::AfterFreeze => Role::Dispatcher,
        CrashPoint::InCommit => Role::Inbox,
        CrashPoint::AfterClaim
        | CrashPoint::AfterYes
        | CrashPoint::BeforeSettle
        | CrashPoint::AfterSettle
        | CrashPoint::BeforeAck => {
            // Every channel in turn.
            let first = dice.below(Role::WORKERS.len(), (point.as_str(), "first"));
            Role::WORKERS[(first + round) % Role::WORKERS.len()]
        }
    };
    let number = 1 + dice.below(2, (about, "number"));
    // Small enough for everybody to get there within a few seconds, also where sends are planned by the batch.
    let passage = 1 + dice.below(12, (about, "passage")) as u64;
    Strike::Crash { at: Name { role, number }, point, passage }
}

/// Who is killed: first those whom no crash point kills.
fn victim(dice: Dice, number: usize) -> Name {
    match number {
        0 | 1 => Name { role: Role::Webhooks, number: number + 1 },
        _ => anybody(dice, ("kill", number)),
    }
}

/// Kills at bad moments: of one that has only begun to start, and while the server that it needs is away.
fn companions(dice: Dice, all: &[Planned]) -> Vec<Planned> {
    let mut companions = Vec::new();
    for (number, planned) in all.iter().enumerate() {
        let (delay, name) = match planned.strike {
            Strike::Kill(name) if dice.percent(30, ("twice", number)) => {
                (between(dice, 20, 400, ("twice at", number)), name)
            }
            Strike::StopPostgres(away) | Strike::KillNats(away) => {
                (away / 2, anybody(dice, ("away", number)))
            }
            _ => continue,
        };
        companions.push(Planned { at: planned.at + delay, strike: Strike::Kill(name) });
    }
    companions
}

/// Workers most.
fn anybody(dice: Dice, about: (&str, usize)) -> Name {
    let roles = if dice.percent(60, (about, "worker")) { &Role::WORKERS[..] } else { &Role::ALL[..] };
    Name {
        role: roles[dice.below(roles.len(), (about, "role"))],
        number: 1 + dice.below(2, (about, "number")),
    }
}

pub(super) fn between(dice: Dice, from: usize, to: usize, about: impl Hash) -> Duration {
    Duration::from_millis((from + dice.below(to - from, about)) as u64)
}

pub(super) fn shuffle<T>(dice: Dice, about: impl Hash + Copy, cards: &mut [T]) {
    for place in (1..cards.len()).rev() {
        cards.swap(place, dice.below(place + 1, ("shuffle", about, place)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::faults::others::Other;

    fn is_kill(planned: &&Planned) -> bool {
        use Strike::{Crash, Kill, KillNats, StopPostgres};
        matches!(planned.strike, Kill(_) | Crash { .. } | StopPostgres(_) | KillNats(_))
    }

    #[test]
    fn a_seed_replays_and_another_one_differs() {
        for size in [Size::CI, Size::LONG] {
            assert_eq!(Schedule::new(7, &size), Schedule::new(7, &size));
            assert_ne!(Schedule::new(7, &size), Schedule::new(8, &size));
        }
    }

    fn times<K: Ord>(of: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
        let mut times = BTreeMap::new();
        of.for_each(|one| *times.entry(one).or_default() += 1);
        times
    }

    #[test]
    fn every_seed_plans_enough_of_everything_and_in_time() {
        for (size, limit, seeds) in [(Size::CI, 145, 500), (Size::LONG, 1_000, 50)] {
            for seed in 0..seeds {
                let Schedule(all) = Schedule::new(seed, &size);
                assert!(all.iter().filter(is_kill).count() >= size.kills, "{seed}");
                assert!(all.is_sorted_by_key(|planned| planned.at) && all[0].at >= size.calm, "{seed}");
                assert!(all.last().unwrap().at < Duration::from_secs(limit), "{seed}");
                let points = times(all.iter().filter_map(|planned| match planned.strike {
                    Strike::Crash { point, .. } => Some(point),
                    _ => None,
                }));
                assert!(CrashPoint::ALL.iter().all(|point| points[point] > size.least_of_each), "{seed}");
                let others = times(all.iter().filter_map(|planned| planned.strike.other()));
                let planned = |other: &Other| others.get(other).copied().unwrap_or_default();
                assert!(
                    Other::ALL.iter().all(|other| planned(other) > size.least_of_each),
                    "{seed}: {others:?}"
                );
                let killed = times(all.iter().filter_map(|planned| match planned.strike {
                    Strike::Kill(name) | Strike::Crash { at: name, .. } => Some(name.role),
                    _ => None,
                }));
                assert!(Role::ALL.iter().all(|role| killed.contains_key(role)), "{seed}: {killed:?}");
            }
        }
    }

    #[test]
    fn nobody_is_struck_in_the_same_way_while_it_lasts() {
        for seed in 0..500 {
            let Schedule(all) = Schedule::new(seed, &Size::CI);
            for (number, later) in all.iter().enumerate() {
                let earlier = all[..number].iter().find(|earlier| later.overlaps(earlier));
                assert_eq!(earlier, None, "{seed}: {later:?}");
            }
        }
    }

    #[test]
    fn pauses_outlast_the_lease() {
        for seed in 0..500 {
            let Schedule(all) = Schedule::new(seed, &Size::CI);
            let is_short = |planned: &&Planned| match planned.strike {
                Strike::Pause(_, for_) => for_ <= Duration::from_secs(3),
                _ => false,
            };
            assert_eq!(all.iter().find(is_short), None, "{seed}");
        }
    }
}
