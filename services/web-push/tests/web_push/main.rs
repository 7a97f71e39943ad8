//! The web push channel with the push service stand-in.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod authorization;
mod doubts;
mod fixture;
mod message;
mod settings;
mod target;
