//! Histories: lists of choices, drawn from a seed, and what comes of playing them.

use std::collections::VecDeque;

use crate::choice::{Actor, Choice, Luck, Move};
use crate::dice::Dice;
use crate::mutant::Mutant;
use crate::providers::{PROVIDERS, Weather};
use crate::rule::Violation;
use crate::world::World;

/// Moves that are drawn for a history before the faults end.
const LENGTH: usize = 160;
/// Milliseconds: longer than an acknowledgement is waited for, than a lease, than a stream knows the ids of its messages.
const LONG: [u64; 3] = [70_000, 100_000, 700_000];

/// A history that was played to its end.
pub(crate) struct Played {
    pub(crate) choices: Vec<Choice>,
    pub(crate) broken: Option<Violation>,
}

/// Plays the history that a seed stands for. Only what was possible is part of it.
pub(crate) fn played(seed: u64, mutant: Option<Mutant>) -> Played {
    let mut dice = Dice::new(seed);
    let mut world = World::new(mutant);
    // Some histories are calm, some are stormy.
    let trouble = [0, 2, 5, 10, 20][dice.below(5)];
    let mut choices = Vec::with_capacity(LENGTH);
    let mut drawn = VecDeque::from([Move::Send]);
    for _ in 0..LENGTH {
        let what = drawn.pop_front().unwrap_or(Move::WaitForNext);
        for next in 0..Actor::ALL.len() {
            let choice = Choice { what: passed_on(what, next), salt: dice.next() };
            if world.play(choice) {
                choices.push(choice);
                break;
            }
        }
        if world.broken().is_some() {
            break;
        }
        if drawn.is_empty() {
            draw(&mut dice, trouble, &mut drawn);
        }
    }
    if world.broken().is_none() {
        world.rest();
    }
    Played { choices, broken: world.broken().cloned() }
}

/// Where one has nothing to do, the next one may have.
fn passed_on(what: Move, next: usize) -> Move {
    match what {
        Move::Step(actor, luck) => Move::Step(Actor::ALL[(actor.index() + next) % Actor::ALL.len()], luck),
        other => other,
    }
}

/// Draws what happens next: mostly one move. What takes several misfortunes in a row would be too rare by itself, and is
/// drawn whole.
fn draw(dice: &mut Dice, trouble: u64, drawn: &mut VecDeque<Move>) {
    let actor = Actor::ALL[dice.below(Actor::ALL.len())];
    if !dice.percent(trouble) {
        drawn.push_back(any_move(dice, actor));
    } else if dice.percent(40) {
        overtaking(dice, actor, drawn);
    } else if dice.percent(15) {
        changing_weather(dice, drawn);
    } else {
        drawn.push_back(fault(dice, actor));
    }
}

/// A process stands still in the middle of its work until its twin has taken over, which may not come to its end; then it
/// goes on, and may not come to its end either. Mostly it is one whose work has many steps.
fn overtaking(dice: &mut Dice, any: Actor, drawn: &mut VecDeque<Move>) {
    let number = dice.below(2);
    let actor = match dice.below(10) {
        0..=3 => Actor::Worker(number),
        4..=7 => Actor::Dispatcher(number),
        _ => any,
    };
    if matches!(actor, Actor::Dispatcher(_)) {
        drawn.push_back(Move::Send);
        go_on(drawn, Actor::Gateway(number), 4);
    }
    go_on(drawn, actor, 1 + dice.below(4));
    drawn.extend([Move::Pause(actor), Move::Wait(LONG[dice.below(LONG.len())])]);
    if dice.percent(20) {
        drawn.push_back(Move::Erase);
        go_on(drawn, Actor::Timers(number), 2);
    }
    go_on(drawn, actor.twin(), 1 + dice.below(10));
    if dice.percent(60) {
        drawn.push_back(Move::Crash(actor.twin()));
    }
    drawn.push_back(Move::Resume(actor));
    go_on(drawn, actor, 1 + dice.below(4));
    if dice.percent(60) {
        drawn.push_back(Move::Crash(actor));
    }
}

/// A provider takes what it gets without a word, and says something else when it is asked again.
fn changing_weather(dice: &mut Dice, drawn: &mut VecDeque<Move>) {
    let (provider, gateway) = (dice.below(PROVIDERS.len()), Actor::Gateway(dice.below(2)));
    drawn.extend([Move::Weather(provider, Weather::Silent), Move::Send]);
    go_on(drawn, gateway, 30);
    drawn.push_back(Move::Weather(provider, Weather::ALL[dice.below(Weather::ALL.len())]));
    for _ in 0..2 {
        drawn.push_back(Move::WaitForNext);
        go_on(drawn, gateway, 10);
    }
}

fn go_on(drawn: &mut VecDeque<Move>, actor: Actor, steps: usize) {
    drawn.extend(std::iter::repeat_n(Move::Step(actor, Luck::Done), steps));
}

fn any_move(dice: &mut Dice, actor: Actor) -> Move {
    match dice.below(100) {
        0..=2 => Move::Send,
        3 => Move::Repeat,
        4..=6 => Move::Command,
        7 if dice.percent(40) => Move::Cancel,
        8 if dice.percent(40) => {
            if dice.percent(30) {
                Move::Erase
            } else {
                Move::Directory
            }
        }
        9..=10 => Move::Wait(1 + dice.below(2_000) as u64),
        11 => Move::WaitForNext,
        _ => Move::Step(actor, Luck::Done),
    }
}

fn fault(dice: &mut Dice, actor: Actor) -> Move {
    match dice.below(16) {
        0..=2 => Move::Crash(actor),
        3..=4 => Move::Pause(actor),
        5..=6 => Move::Resume(actor),
        7..=8 => Move::Step(actor, Luck::Unheard),
        9 => Move::Step(actor, Luck::Failed),
        10 => Move::Redeliver,
        11 => Move::Wait(LONG[dice.below(LONG.len())]),
        _ => {
            let weather = Weather::ALL[dice.below(Weather::ALL.len())];
            Move::Weather(dice.below(PROVIDERS.len()), weather)
        }
    }
}

/// Plays a history, lets everything come to rest, and holds it against the rules.
pub(crate) fn play(choices: &[Choice], mutant: Option<Mutant>) -> Option<Violation> {
    let mut world = World::new(mutant);
    run(&mut world, choices);
    world.broken().cloned()
}

/// The same, told line by line.
pub(crate) fn tell(choices: &[Choice], mutant: Option<Mutant>) -> Vec<String> {
    let mut world = World::told(mutant);
    run(&mut world, choices);
    world.story().to_vec()
}

pub(crate) fn run(world: &mut World, choices: &[Choice]) {
    for choice in choices {
        world.play(*choice);
        if world.broken().is_some() {
            return;
        }
    }
    world.rest();
}
