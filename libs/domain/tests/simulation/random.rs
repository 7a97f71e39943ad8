//! Histories drawn from seeds, as many as there is time for.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, thread};

use crate::history::{Played, played, tell};
use crate::shrink::shrunk;

/// How many histories are played.
pub(crate) const HISTORIES: u64 = 5_000;

#[test]
fn no_history_breaks_a_rule() {
    let seeds = match variable("TIDINGS_SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..variable("TIDINGS_SIMULATION_HISTORIES").unwrap_or(HISTORIES),
    };
    let count = seeds.end - seeds.start;
    if let Some(seed) = first_broken(&seeds) {
        panic!("{}", told(seed));
    }
    match processor_seconds() {
        Some(seconds) => {
            println!("{count} histories, {:.0} in a second of a processor", count as f64 / seconds);
        }
        None => println!("{count} histories"),
    }
}

/// The time that processors have spent on this process; None where the system does not tell as Linux does.
fn processor_seconds() -> Option<f64> {
    /// Of these there are a hundred in a second on every Linux.
    const TICKS: f64 = 100.0;
    let told = fs::read_to_string("/proc/self/stat").ok()?;
    // The name comes second and may have spaces; after it, the 12th and 13th are what we and the system used.
    let fields: Vec<&str> = told.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

/// The lowest seed whose history breaks a rule.
fn first_broken(seeds: &Range<u64>) -> Option<u64> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let search = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return None;
            }
            if played(seed, None).broken.is_some() {
                next.store(seeds.end, Ordering::Relaxed);
                return Some(seed);
            }
        }
    };
    thread::scope(|scope| {
        let searching: Vec<_> = (0..threads).map(|_| scope.spawn(search)).collect();
        searching.into_iter().filter_map(|found| found.join().unwrap()).min()
    })
}

/// What the history of a seed comes down to.
fn told(seed: u64) -> String {
    let Played { choices, broken } = played(seed, None);
    let broken = broken.unwrap();
    let short = shrunk(&choices, broken.rule, None);
    format!(
        "seed {seed} breaks {:?}: {}\n\n{} of {} choices are enough:\n{}\n\nTo replay it: \
         TIDINGS_SIMULATION_SEED={seed} cargo nextest run --workspace --test simulation no_history",
        broken.rule,
        broken.what,
        short.len(),
        choices.len(),
        tell(&short, None).join("\n"),
    )
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}
