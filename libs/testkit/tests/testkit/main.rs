//! Tests of databases, processes and the proxy.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod proxy;
mod service;
mod waiting;
