//! The dispatcher on real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod content;
mod faults;
mod turns;
mod world;
