//! What services rely on, on real servers where servers matter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod config;
mod connect;
mod installation;
mod link;
mod secrets;
mod server;
mod tasks;
mod telemetry;
mod vapid;
