//! The dispatcher on real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backpressure;
mod batches;
mod busy;
mod chunks;
mod content;
mod costs;
mod faults;
mod outcome_events;
mod plans;
mod redrive_run;
mod retention;
mod timers;
mod topics;
mod world;
