//! The dispatcher on real servers, and templates by themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod content;
mod faults;
mod templates;
mod turns;
mod world;
