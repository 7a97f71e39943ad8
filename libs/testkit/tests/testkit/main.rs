//! Databases, processes and cut connections, for real.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod proxy;
mod service;
mod waiting;
