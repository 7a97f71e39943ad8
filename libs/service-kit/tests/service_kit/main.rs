//! Tests of `service-kit`, on real servers if servers matter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod config;
mod connect;
mod installation;
mod server;
mod tasks;
mod telemetry;
