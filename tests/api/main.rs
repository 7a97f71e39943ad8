//! The API over HTTP, row by row, on real servers: the gateway, and behind it the dispatcher and the inbox projection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod access_matrix;
mod bodies;
mod cancellation;
mod categories;
mod client;
mod contract;
mod cors;
mod credentials;
mod devices;
mod docs;
mod dry_run;
mod erasure;
mod idempotency;
mod inbox;
mod isolation;
mod ledger;
mod mailbox;
mod outages;
mod preferences;
mod protocol;
mod rate_limit;
mod requests;
mod sends;
mod service;
mod signer;
mod tokens;
mod users;
mod web_push;
