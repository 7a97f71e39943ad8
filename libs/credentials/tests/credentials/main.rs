//! Tests of keys, sealed secrets and links, on a real database.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod link;
mod secrets;
mod vapid;
