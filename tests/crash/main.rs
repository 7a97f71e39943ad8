//! The delivery guarantees under faults: every service runs in separate processes; whatever happens to them and to the servers,
//! nothing is lost and nothing is shown twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check;
mod checker_tests;
mod checkpoints;
mod coverage;
mod dice;
mod faults;
mod idle;
mod journal;
mod record;
mod redelivery;
mod report;
mod run;
mod scene;
mod smoke;
mod system;
mod workload;
