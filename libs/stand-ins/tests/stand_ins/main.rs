//! Tests that call the stand-ins over the protocols of the real providers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod faults;
mod outbox_page;
mod push_service;
mod stand_ins;
