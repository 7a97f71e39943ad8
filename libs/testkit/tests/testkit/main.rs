//! The private servers, started for real.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod lifeline;
mod nats;
mod postgres;
mod processes;
mod service;
mod stand_ins;
mod waiting;
