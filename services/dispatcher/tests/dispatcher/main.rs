//! The dispatcher on real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batches;
mod busy;
mod chunks;
mod content;
mod faults;
mod room;
mod telling;
mod world;
