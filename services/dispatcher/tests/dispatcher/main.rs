//! The dispatcher on real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batches;
mod busy;
mod content;
mod faults;
mod room;
mod telling;
mod turns;
mod world;
