//! The delivery guarantees under faults. Every service runs as two processes. Processes, PostgreSQL and nats-server are killed,
//! paused and cut off; no send may be lost, and none may be shown twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check;
mod checker_tests;
mod checkpoints;
mod conditions;
mod coverage;
mod dice;
mod faults;
mod idle;
mod journal;
mod record;
mod redelivery;
mod report;
mod run;
mod scene;
mod smoke;
mod speed;
mod stalls;
mod system;
mod workload;
