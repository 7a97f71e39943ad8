//! The stand-ins, called over their real protocols.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod faults;
mod push_service;
mod stand_ins;
