//! The email channel against the SMTP stand-in.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod answers;
mod fixture;
mod message;
mod pool;
mod settings;
