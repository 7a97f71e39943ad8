//! The console over HTTP, with a real database: who sees what, signing in, and what happens with hostile data and failures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod account;
mod admin;
mod audit;
mod budgets;
mod changes;
mod failures;
mod fixture;
mod hostile;
mod killed;
mod operators;
mod providers;
mod redrives;
mod sends;
mod settings;
mod setup;
mod sign_in;
mod templates;
