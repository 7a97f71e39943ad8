//! Every rule can be broken: each way to build it wrong is found among the histories that are played by default, by the
//! rule that is about it, and comes down to a few choices.

use crate::choice::Choice;
use crate::history::{Played, play, played, tell};
use crate::mutant::Mutant;
use crate::random::HISTORIES;
use crate::rule::Rule;
use crate::shrink::shrunk;

/// A mutant, the rule that finds it, and how many choices are left at most of the shortest of the first histories that
/// break it.
type Row = (Mutant, Rule, usize);

const TABLE: [Row; 28] = [
    (Mutant::AnswerBeforeLog, Rule::NothingLost, 5),
    (Mutant::KeyForgotten, Rule::SameAnswer, 5),
    (Mutant::PlanNotFrozen, Rule::SameIdentity, 24),
    (Mutant::BegunSendAcknowledged, Rule::NothingLost, 15),
    (Mutant::AckBeforeActing, Rule::NothingLost, 15),
    (Mutant::CancelledNotOrdered, Rule::EndTold, 24),
    (Mutant::AckBeforeSettling, Rule::NothingLost, 24),
    (Mutant::AckBeforeTelling, Rule::EndTold, 24),
    (Mutant::LateAnswerToldOnce, Rule::EndTold, 24),
    (Mutant::SettleWithoutToken, Rule::SecondAcceptExcused, 24),
    (Mutant::CallNotMarked, Rule::TextOnce, 24),
    (Mutant::RepeatedAnywhere, Rule::TextOnce, 30),
    (Mutant::RandomIds, Rule::SameIdentity, 24),
    (Mutant::TimerUnderOldId, Rule::NothingLost, 5),
    (Mutant::TimerKept, Rule::ComesToRest, 5),
    (Mutant::TimerTooEarly, Rule::ScheduleKept, 24),
    (Mutant::RetryAtOnce, Rule::ScheduleKept, 24),
    (Mutant::BreakerIgnored, Rule::BreakerKept, 24),
    (Mutant::SuppressionIgnored, Rule::SuppressionKept, 24),
    (Mutant::CancellationIgnored, Rule::CancellationKept, 24),
    (Mutant::ErasureIgnored, Rule::ErasureKept, 24),
    (Mutant::ErasedNotLoaded, Rule::ErasureKept, 24),
    (Mutant::CancelEnded, Rule::EndKept, 24),
    (Mutant::CheckpointNotCompared, Rule::CheckpointGrows, 24),
    (Mutant::ItemNotUnique, Rule::InboxOnce, 15),
    (Mutant::CountersByEvents, Rule::CountersRight, 15),
    (Mutant::ClockInProjection, Rule::ReplayEqual, 24),
    (Mutant::AnswerBeforeInbox, Rule::CommandKept, 24),
];

/// Histories that are shortened: what else happened in one of them may keep it from becoming any shorter.
const SHORTENED: usize = 3;

/// The histories that break the rule, by their seeds.
fn found(mutant: Mutant, rule: Rule) -> impl Iterator<Item = (u64, Vec<Choice>)> {
    (0..HISTORIES).filter_map(move |seed| {
        let Played { choices, broken } = played(seed, Some(mutant));
        broken.is_some_and(|broken| broken.rule == rule).then_some((seed, choices))
    })
}

#[test]
fn each_mutant_is_found_by_its_rule_and_shrinks() {
    let mut problems = Vec::new();
    for (mutant, rule, most) in TABLE {
        let shortened = found(mutant, rule).take(SHORTENED).map(|(seed, choices)| {
            let short = shrunk(&choices, rule, Some(mutant));
            println!("{mutant:?}: {rule:?} by seed {seed}, {} choices of {}", short.len(), choices.len());
            short
        });
        let Some(short) = shortened.min_by_key(Vec::len) else {
            problems.push(format!("{mutant:?}: not found by {rule:?}"));
            continue;
        };
        if short.len() > most {
            let story = tell(&short, Some(mutant)).join("\n");
            problems.push(format!("{mutant:?}: {} choices are left, not {most}:\n{story}", short.len()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

#[test]
fn a_history_that_is_played_again_comes_to_the_same() {
    let (seed, choices) = found(Mutant::AckBeforeSettling, Rule::NothingLost).next().unwrap();
    let first = play(&choices, Some(Mutant::AckBeforeSettling)).unwrap();
    let again = played(seed, Some(Mutant::AckBeforeSettling)).broken.unwrap();
    assert_eq!((first.rule, first.what), (again.rule, again.what));
    assert!(play(&choices, None).is_none(), "without the mutant nothing is wrong");
}
