//! The private servers, started for real.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod faults;
mod lifeline;
mod nats;
mod port;
mod postgres;
mod processes;
mod proxy;
mod push_service;
mod service;
mod stand_ins;
mod waiting;
