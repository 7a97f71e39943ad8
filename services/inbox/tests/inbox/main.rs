//! The inbox projection on real servers. Each inbox must have each send once, with correct counters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod erasure;
mod model;
mod projection;
mod retention;
mod retention_model;
mod snoozes;
mod whole_inbox;
mod world;
