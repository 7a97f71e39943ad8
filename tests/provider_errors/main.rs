//! The page of providers' answers: for each of them the stand-in answers so, and the class, the suppression, the failover
//! and what the ledger records are as the page says. A row without a case fails.
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
