//! Thousands of deliveries over every channel to providers with random faults from a seed: temporary errors, dead targets, cut
//! connections, `Retry-After`, and one outage. Afterwards checks compare every delivery with the calls that its providers
//! received.
//!
//! `TIDINGS_TEST_FAULTS_SEED` repeats the random faults of a run; `TIDINGS_TEST_FAULTS_DELIVERIES` sets the number of deliveries;
//! `cargo xtask nightly faults` runs with 20,000.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check;
mod checker_tests;
mod cost;
mod gather;
mod progress;
mod providers;
mod record;
mod round;
mod system;

use std::hash::{BuildHasher, RandomState};

use crate::cost::Costs;
use crate::round::{Round, Weather};
use crate::system::System;

const DELIVERIES: usize = 2_000;
/// Number of rounds with faults, and also of rounds without. There are three SMS providers; each has the highest priority in one
/// round of each kind.
const ROUNDS: usize = 3;
/// Rounds without faults have the usual number of deliveries divided by this.
const CLEAN_SHARE: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn every_delivery_ends_as_the_answers_of_its_providers_require() {
    let seed = variable("TIDINGS_TEST_FAULTS_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let deliveries = variable("TIDINGS_TEST_FAULTS_DELIVERIES").map_or(DELIVERIES, |number| number as usize);
    println!("TIDINGS_TEST_FAULTS_SEED={seed} TIDINGS_TEST_FAULTS_DELIVERIES={deliveries}");
    let mut system = System::start(seed).await;
    let mut costs = Costs::default();
    for number in 0..ROUNDS {
        for weather in [Weather::Foul, Weather::Fair] {
            let share = deliveries / ROUNDS / if weather == Weather::Fair { CLEAN_SHARE } else { 1 };
            let round = Round::new(number, weather, share, &system);
            let (record, cost) = round.run(&mut system).await;
            println!("{round}: {record}");
            check::pass(&record);
            if weather == Weather::Fair {
                check::nothing_went_wrong(&record);
            }
            costs.add(weather, cost);
        }
    }
    println!("{costs}");
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}
