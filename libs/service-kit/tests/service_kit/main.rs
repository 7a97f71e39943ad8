//! What services rely on, on real servers where servers matter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod config;
mod connect;
mod installation;
mod server;
mod tasks;
mod telemetry;
