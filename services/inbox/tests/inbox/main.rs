//! The projection on real servers: whatever the log holds, each inbox has each send once, and its counters agree.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod erasure;
mod model;
mod projection;
mod whole_inbox;
mod world;
