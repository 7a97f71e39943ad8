//! Taking out of a history what its failure does not need.

use crate::choice::Choice;
use crate::history::play;
use crate::mutant::Mutant;
use crate::rule::Rule;

/// Choices of a history whose pairs are looked at.
const FEW: usize = 80;
/// Numbers that are tried in the place of what a choice drew.
const PLAIN: u64 = 4;

/// The shortest history that this finds which still breaks the rule. Chunks of choices are left out, ever smaller ones, until
/// none can be; then choices draw plainer numbers, so that fewer of them are there for the sake of others; then pairs are
/// left out.
pub(crate) fn shrunk(choices: &[Choice], rule: Rule, mutant: Option<Mutant>) -> Vec<Choice> {
    let breaks = |choices: &[Choice]| play(choices, mutant).is_some_and(|broken| broken.rule == rule);
    let mut kept = without_chunks(choices.to_vec(), breaks);
    loop {
        let before = kept.len();
        kept = without_chunks(plain(kept, breaks), breaks);
        if kept.len() == before {
            match without_a_pair(&kept, breaks) {
                Some(shorter) => kept = without_chunks(shorter, breaks),
                None => return kept,
            }
        }
    }
}

fn without_chunks(mut kept: Vec<Choice>, breaks: impl Fn(&[Choice]) -> bool) -> Vec<Choice> {
    let mut size = kept.len().div_ceil(2).max(1);
    loop {
        let mut is_shorter = false;
        let mut from = 0;
        while from < kept.len() {
            let to = (from + size).min(kept.len());
            let without = [&kept[..from], &kept[to..]].concat();
            if breaks(&without) {
                kept = without;
                is_shorter = true;
            } else {
                from = to;
            }
        }
        if size == 1 && !is_shorter {
            return kept;
        }
        size = if size == 1 { 1 } else { size.div_ceil(2) };
    }
}

fn plain(mut kept: Vec<Choice>, breaks: impl Fn(&[Choice]) -> bool) -> Vec<Choice> {
    for place in 0..kept.len() {
        let drawn = kept[place].salt;
        for salt in 0..PLAIN.min(drawn) {
            kept[place].salt = salt;
            if breaks(&kept) {
                break;
            }
            kept[place].salt = drawn;
        }
    }
    kept
}

fn without_a_pair(choices: &[Choice], breaks: impl Fn(&[Choice]) -> bool) -> Option<Vec<Choice>> {
    let few = choices.len().min(FEW);
    let pairs = (0..few).flat_map(|one| (one + 1..few).map(move |other| (one, other)));
    let without = |(one, other): (usize, usize)| {
        [&choices[..one], &choices[one + 1..other], &choices[other + 1..]].concat()
    };
    pairs.map(without).find(|shorter| breaks(shorter))
}
