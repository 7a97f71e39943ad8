//! The promise, proved: every part is a process of its own, and whatever is done to it, nothing is lost and nothing is
//! shown twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod api;
mod check;
mod checkpoints;
mod claims;
mod command;
mod dice;
mod doctored;
mod enough;
mod faults;
mod handed_out_again;
mod journal;
mod quiet;
mod record;
mod report;
mod run;
mod scene;
mod system;
mod tries;
mod workload;
mod works;
