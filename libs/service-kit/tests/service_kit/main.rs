//! Tests of `service-kit`. Tests that need servers use real ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod config;
mod connect;
mod follower;
mod installation;
mod server;
mod suspicion;
mod tasks;
mod telemetry;
