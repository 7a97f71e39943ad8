//! The table of providers' answers ([`table::ROWS`]). For each row, the stand-in gives the answer; outcome, suppression, failover
//! and ledger must be as the row states. The suite fails if a row has no case.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod apns;
mod code;
mod fcm;
mod smtp;
mod state;
mod table;
mod twilio;
mod web_push;
mod world;
