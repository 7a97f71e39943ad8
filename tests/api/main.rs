//! The API over HTTP, row by row, on real servers: the gateway, and behind it the dispatcher and the inbox projection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod access_matrix;
mod bodies;
mod bulk;
mod categories;
mod client;
mod contract;
mod cors;
mod credentials;
mod devices;
mod docs;
mod dry_run;
mod erasure;
mod fuzz;
mod idempotency;
mod inbox;
mod inbox_paging;
mod inbox_random;
mod inbox_state;
mod inbox_whole;
mod isolation;
mod ledger;
mod outages;
mod preferences;
mod profile;
mod profile_patch;
mod protocol;
mod rate_limit;
mod requests;
mod rows;
mod sends;
mod service;
mod signer;
mod tokens;
mod users;
mod web_push;
