//! Every process crashed, paused, unlucky or unheard at every step of some short histories.

use crate::choice::{Actor, Choice, Luck, Move};
use crate::dice::Dice;
use crate::history::{play, run, tell};
use crate::providers::Weather;
use crate::shrink::shrunk;
use crate::world::World;

/// A short history without faults.
struct Calm {
    name: &'static str,
    /// What happens before anybody works.
    before: &'static [Move],
    /// What happens once all of that is done.
    then: &'static [Move],
}

const CALM: [Calm; 7] = [
    Calm { name: "everything is taken", before: &[Move::Send], then: &[] },
    Calm { name: "the same is asked for again", before: &[Move::Send, Move::Send], then: &[Move::Repeat] },
    Calm { name: "an inbox changes", before: &[Move::Send], then: &[Move::Command, Move::Command] },
    Calm { name: "a provider is busy", before: &[email(Weather::Busy), Move::Send], then: &[] },
    Calm {
        name: "targets are dead",
        before: &[email(Weather::Gone), texts(Weather::Gone), keyed_texts(Weather::Gone), Move::Send],
        then: &[Move::Send],
    },
    Calm { name: "the account is locked", before: &[email(Weather::Locked), Move::Send], then: &[] },
    Calm {
        name: "answers are lost",
        before: &[email(Weather::Silent), texts(Weather::Silent), keyed_texts(Weather::Silent), Move::Send],
        then: &[],
    },
];

const fn email(weather: Weather) -> Move {
    Move::Weather(0, weather)
}

const fn texts(weather: Weather) -> Move {
    Move::Weather(2, weather)
}

const fn keyed_texts(weather: Weather) -> Move {
    Move::Weather(3, weather)
}

impl Calm {
    /// Its choices: processes take turns until nothing is left to do, or so many moves were made.
    fn choices(&self, salt: u64) -> Vec<Choice> {
        const LONGEST: usize = 150;
        let mut world = World::new(None);
        let mut dice = Dice::new(salt);
        let mut choices: Vec<Choice> = Vec::new();
        let mut choose = |what: Move| {
            let choice = Choice { what, salt: dice.next() };
            let is_done = choices.len() < LONGEST && world.play(choice);
            if is_done {
                choices.push(choice);
            }
            is_done
        };
        for what in self.before {
            choose(*what);
        }
        let mut then = self.then.iter();
        loop {
            let mut is_anything_done = false;
            for actor in Actor::ALL {
                is_anything_done |= choose(Move::Step(actor, Luck::Done));
            }
            if is_anything_done || choose(Move::WaitForNext) {
                continue;
            }
            match then.next() {
                Some(next) => choose(*next),
                None => return choices,
            };
        }
    }
}

/// The choices with others in between.
fn with(choices: &[Choice], place: usize, others: &[Move]) -> Vec<Choice> {
    let others = others.iter().map(|what| Choice { what: *what, salt: 7 });
    choices[..place].iter().copied().chain(others).chain(choices[place..].iter().copied()).collect()
}

fn assert_kept(choices: &[Choice], what: &str) {
    if let Some(broken) = play(choices, None) {
        let short = shrunk(choices, broken.rule, None);
        let story = tell(&short, None).join("\n");
        panic!("{what}: {:?}: {}\n{story}", broken.rule, broken.what);
    }
}

#[test]
fn short_histories_come_to_an_end_by_themselves() {
    for calm in CALM {
        for salt in 0..4 {
            let choices = calm.choices(salt);
            let mut world = World::new(None);
            run(&mut world, &choices);
            assert!(world.broken().is_none(), "{}: {:?}", calm.name, world.broken());
            assert!(world.clients.orders.iter().all(|order| order.confirmed.is_some()), "{}", calm.name);
            assert!(choices.len() > 15, "{}: {} choices", calm.name, choices.len());
        }
    }
}

#[test]
fn no_crash_at_any_step_breaks_a_rule() {
    for calm in CALM {
        let choices = calm.choices(1);
        for place in 0..=choices.len() {
            for actor in Actor::ALL {
                let crashed = with(&choices, place, &[Move::Crash(actor)]);
                assert_kept(&crashed, &format!("{}; {actor:?} crashes at {place}", calm.name));
            }
        }
    }
}

#[test]
fn no_pause_beyond_the_lease_at_any_step_breaks_a_rule() {
    for calm in CALM {
        let choices = calm.choices(2);
        for place in 0..=choices.len() {
            for actor in Actor::ALL {
                // Long enough for lease and acknowledgement; the others go on, and it comes back in between.
                let paused = with(&choices, place, &[Move::Pause(actor), Move::Wait(100_000)]);
                for back in [place + 2, (place + choices.len()) / 2 + 2, paused.len()] {
                    let resumed = with(&paused, back.min(paused.len()), &[Move::Resume(actor)]);
                    assert_kept(
                        &resumed,
                        &format!("{}; {actor:?} is paused from {place} to {back}", calm.name),
                    );
                }
            }
        }
    }
}

#[test]
fn no_write_that_fails_or_whose_answer_is_lost_breaks_a_rule() {
    for calm in CALM {
        let choices = calm.choices(3);
        for place in 0..choices.len() {
            let Move::Step(actor, _) = choices[place].what else { continue };
            for luck in [Luck::Unheard, Luck::Failed] {
                let mut unlucky = choices.clone();
                unlucky[place].what = Move::Step(actor, luck);
                assert_kept(&unlucky, &format!("{}; {actor:?} is {luck:?} at {place}", calm.name));
            }
        }
    }
}

#[test]
fn no_two_crashes_of_those_who_are_at_work_break_a_rule() {
    let calm = &CALM[6];
    let choices = calm.choices(4);
    let actor_at = |place: usize| match choices[place].what {
        Move::Step(actor, _) => Some(actor),
        _ => None,
    };
    for first in 0..choices.len() {
        let Some(one) = actor_at(first) else { continue };
        for second in (first..choices.len()).step_by(2) {
            let Some(other) = actor_at(second) else { continue };
            let once = with(&choices, second + 1, &[Move::Crash(other), Move::Wait(100_000)]);
            let twice = with(&once, first + 1, &[Move::Crash(one)]);
            assert_kept(&twice, &format!("{}; crashes after {first} and {second}", calm.name));
        }
    }
}
