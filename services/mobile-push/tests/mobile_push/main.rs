//! The mobile push channel with its stand-ins.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod apns;
mod apns_answers;
mod content;
mod fcm;
mod fcm_answers;
mod fixture;
mod settings;
