//! Status webhooks on real servers: content, recipients and order of messages, and behaviour after failures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod failures;
mod fairness;
mod notices;
mod order;
mod rate;
mod read;
mod restarts;
mod safety;
mod slots;
mod world;
