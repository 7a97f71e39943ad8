//! Schedule of the faults of a run. A seed always gives the same schedule.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use sabotage::CrashPoint;
use suite::{Name, Role};

use super::disturbance::disturbances;
use super::injection::{Injection, ScheduledFault};
use crate::dice::Dice;

/// Size of a schedule, and what must happen for the run to count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Time before the first fault.
    pub(crate) calm: Duration,
    /// Time from one kill to the next.
    pub(crate) pace: Duration,
    /// Time from one disturbance to the next.
    pub(crate) pace_of_disturbances: Duration,
    /// Number of scheduled kills, including those after which the restarted process must die at a crash point.
    pub(crate) kills: usize,
    /// Required number of kills.
    pub(crate) least_kills: usize,
    /// Minimum number of times that each of these must occur: every crash point, a stop of either server, every kind of
    /// disturbance, and every class of answer.
    pub(crate) least_of_each: usize,
    /// Number of processes that are started with each crash point.
    pub(crate) each_point: usize,
    /// Number of immediate stops of PostgreSQL; also the number of kills of nats-server.
    pub(crate) each_server: usize,
}

impl Size {
    pub(crate) const CI: Size = Size {
        calm: Duration::from_secs(6),
        pace: Duration::from_secs(3),
        pace_of_disturbances: Duration::from_millis(3_300),
        kills: 44,
        least_kills: 40,
        least_of_each: 3,
        each_point: 4,
        each_server: 4,
    };
    pub(crate) const LONG: Size = Size {
        calm: Duration::from_secs(30),
        pace: Duration::from_millis(500),
        pace_of_disturbances: Duration::from_millis(1_900),
        kills: 1_800,
        least_kills: 300,
        least_of_each: 20,
        each_point: 30,
        each_server: 30,
    };
}

/// Scheduled faults, earliest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule(pub(crate) Vec<ScheduledFault>);

impl Schedule {
    pub(crate) fn new(seed: u64, size: &Size) -> Schedule {
        let dice = Dice(seed);
        let mut all: Vec<ScheduledFault> = kills(dice, size);
        let end = all.last().map_or(size.calm, |last| last.at);
        all.extend(disturbances(dice, size, end));
        all.extend(kills_at_bad_moments(dice, &all));
        all.sort_by_key(|planned| planned.at);
        Schedule(all)
    }

    /// The same faults, spread over a longer time for a slow machine. Their own times grow too: a pause must outlast the lease, which
    /// is longer on a slow machine.
    #[must_use]
    pub(crate) fn stretched(&self, factor: f64) -> Schedule {
        Schedule(self.0.iter().map(|planned| planned.stretched(factor)).collect())
    }

    pub(crate) fn length(&self) -> Duration {
        self.0.last().map_or(Duration::ZERO, |last| last.at)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|planned| writeln!(f, "{:8.1} s  {}", planned.at.as_secs_f64(), planned.injection))
    }
}

/// Kills and stops of servers at equal intervals. If the restarted process must die at a crash point, the kill comes early enough
/// for the process to reach this point.
fn kills(dice: Dice, size: &Size) -> Vec<ScheduledFault> {
    let mut early: Vec<Injection> = Vec::new();
    for round in 0..size.each_point {
        early.extend(CrashPoint::ALL.iter().map(|point| crash(dice, *point, round)));
    }
    for number in 0..size.each_server {
        let away = |what| between(dice, 500, 3_000, (what, number));
        early.extend([Injection::StopPostgres(away("postgres")), Injection::KillNats(away("nats"))]);
    }
    let late = size.kills.saturating_sub(early.len());
    // Two thirds of the plain kills are mixed with the other faults; the last third comes at the end.
    let plain: Vec<Injection> = (0..late).map(|number| Injection::Kill(victim(dice, number))).collect();
    let (spread, last) = plain.split_at(late * 2 / 3);
    early.extend(spread);
    shuffle(dice, "kills", &mut early);
    let at = |number: usize| size.calm + size.pace * u32::try_from(number).unwrap();
    let all = early.into_iter().chain(last.iter().copied());
    all.enumerate().map(|(number, injection)| ScheduledFault { at: at(number), injection }).collect()
}

fn crash(dice: Dice, point: CrashPoint, round: usize) -> Injection {
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
            // Each round uses the worker of the next channel for this crash point.
            let first = dice.below(Role::WORKERS.len(), (point.as_str(), "first"));
            Role::WORKERS[(first + round) % Role::WORKERS.len()]
        }
    };
    let number = 1 + dice.below(2, (about, "number"));
    // Every process passes its crash point twelve times within a few seconds, even if it handles several sends together.
    let passage = 1 + dice.below(12, (about, "passage")) as u64;
    Injection::Crash { at: Name { role, number }, point, passage }
}

/// Victim of a kill. The first two kills hit the webhooks processes, which have no crash point.
fn victim(dice: Dice, number: usize) -> Name {
    match number {
        0 | 1 => Name { role: Role::Webhooks, number: number + 1 },
        _ => any_process(dice, ("kill", number)),
    }
}

/// Additional kills at bad moments: of a process that was just restarted, or of a process while a server is stopped.
fn kills_at_bad_moments(dice: Dice, all: &[ScheduledFault]) -> Vec<ScheduledFault> {
    let mut kills = Vec::new();
    for (number, planned) in all.iter().enumerate() {
        let (delay, name) = match planned.injection {
            Injection::Kill(name) if dice.percent(30, ("twice", number)) => {
                (between(dice, 20, 400, ("twice at", number)), name)
            }
            Injection::StopPostgres(away) | Injection::KillNats(away) => {
                (away / 2, any_process(dice, ("away", number)))
            }
            _ => continue,
        };
        kills.push(ScheduledFault { at: planned.at + delay, injection: Injection::Kill(name) });
    }
    kills
}

/// A random process, in most cases a worker.
fn any_process(dice: Dice, about: (&str, usize)) -> Name {
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
    use crate::faults::disturbance::Disturbance;

    fn is_kill(planned: &&ScheduledFault) -> bool {
        use Injection::{Crash, Kill, KillNats, StopPostgres};
        matches!(planned.injection, Kill(_) | Crash { .. } | StopPostgres(_) | KillNats(_))
    }

    #[test]
    fn a_seed_gives_the_same_schedule_and_another_seed_a_different_one() {
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
    fn every_seed_schedules_enough_faults_of_every_kind_in_time() {
        for (size, limit, seeds) in [(Size::CI, 145, 500), (Size::LONG, 1_000, 50)] {
            for seed in 0..seeds {
                let Schedule(all) = Schedule::new(seed, &size);
                assert!(all.iter().filter(is_kill).count() >= size.kills, "{seed}");
                assert!(all.is_sorted_by_key(|planned| planned.at) && all[0].at >= size.calm, "{seed}");
                assert!(all.last().unwrap().at < Duration::from_secs(limit), "{seed}");
                let points = times(all.iter().filter_map(|planned| match planned.injection {
                    Injection::Crash { point, .. } => Some(point),
                    _ => None,
                }));
                assert!(CrashPoint::ALL.iter().all(|point| points[point] > size.least_of_each), "{seed}");
                let disturbances = times(all.iter().filter_map(|planned| planned.injection.disturbance()));
                let planned = |other: &Disturbance| disturbances.get(other).copied().unwrap_or_default();
                assert!(
                    Disturbance::ALL.iter().all(|other| planned(other) > size.least_of_each),
                    "{seed}: {disturbances:?}"
                );
                let killed = times(all.iter().filter_map(|planned| match planned.injection {
                    Injection::Kill(name) | Injection::Crash { at: name, .. } => Some(name.role),
                    _ => None,
                }));
                assert!(Role::ALL.iter().all(|role| killed.contains_key(role)), "{seed}: {killed:?}");
            }
        }
    }

    #[test]
    fn no_process_has_two_overlapping_faults_of_one_kind() {
        for seed in 0..500 {
            let Schedule(all) = Schedule::new(seed, &Size::CI);
            for (number, later) in all.iter().enumerate() {
                let earlier = all[..number].iter().find(|earlier| later.overlaps(earlier));
                assert_eq!(earlier, None, "{seed}: {later:?}");
            }
        }
    }

    #[test]
    fn a_stretched_schedule_has_the_same_faults_later_and_longer() {
        let schedule = Schedule::new(7, &Size::CI);
        let stretched = schedule.stretched(2.0);
        assert_eq!(stretched.length(), schedule.length() * 2);
        for (planned, later) in schedule.0.iter().zip(&stretched.0) {
            assert_eq!(later.at, planned.at * 2);
            match (planned.injection, later.injection) {
                (Injection::Pause(name, for_), Injection::Pause(same, longer)) => {
                    assert_eq!((same, longer), (name, for_ * 2));
                }
                (Injection::StopPostgres(away), Injection::StopPostgres(longer)) => {
                    assert_eq!(longer, away * 2);
                }
                (injection, same) => {
                    assert_eq!(std::mem::discriminant(&injection), std::mem::discriminant(&same));
                }
            }
        }
        assert_eq!(schedule.stretched(1.0), schedule);
    }

    #[test]
    fn pauses_outlast_the_lease() {
        for seed in 0..500 {
            let Schedule(all) = Schedule::new(seed, &Size::CI);
            let is_short = |planned: &&ScheduledFault| match planned.injection {
                Injection::Pause(_, for_) => for_ <= Duration::from_secs(3),
                _ => false,
            };
            assert_eq!(all.iter().find(is_short), None, "{seed}");
        }
    }
}
