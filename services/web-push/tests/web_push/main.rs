//! Tests of the web push channel with the stand-in for a push service.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agreement;
mod answers;
mod authorization;
mod doubts;
mod fixture;
mod message;
mod settings;
mod target;
