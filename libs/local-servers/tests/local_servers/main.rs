//! Tests of the private servers, with the real server programs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod lifeline;
mod nats;
mod port;
mod postgres;
