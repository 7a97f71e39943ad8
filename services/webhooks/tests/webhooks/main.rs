//! Status webhooks on real servers: what is told, to whom, in which order, and what becomes of it when somebody fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod failures;
mod fairness;
mod notices;
mod order;
mod rate;
mod read;
mod restarts;
mod safety;
mod world;
