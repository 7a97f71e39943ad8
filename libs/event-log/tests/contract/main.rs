//! Tests of the event log's contract, on a real nats-server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod cluster;
mod connect;
mod consumer;
mod crash;
mod declare;
mod position;
mod publish;
mod question;
mod reader;
mod roll_call;
mod size;
mod store_use;
mod world;
