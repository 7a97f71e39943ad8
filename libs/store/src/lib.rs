//! PostgreSQL: the directory, the control plane, plans, the ledger, timers and the inbox read model.
//!
//! This is the only crate that speaks SQL. Each module holds the statements of one noun; bulk work goes through
//! `UNNEST`, never row by row. Every tenant table's key starts with the app.

pub mod app;
pub mod attachment;
pub mod audit;
pub mod batch;
pub mod cancellation;
pub mod category;
mod connection;
pub mod device;
pub mod erasure;
mod error;
pub mod facts;
pub mod failure;
mod grants;
pub mod idempotency;
pub mod inbox;
pub mod installation;
mod instant;
pub mod ledger;
pub mod link_key;
pub mod opt_out;
pub mod parked;
pub mod plan;
mod pooler;
pub mod preference;
pub mod projection;
pub mod provider;
mod push_token;
pub mod quota;
pub mod receipt;
pub mod redrive;
pub mod request;
pub mod restore;
pub mod schema;
pub mod sealed;
pub mod send;
pub mod settlement;
pub mod shadow;
pub mod signing_key;
pub mod slots;
pub mod suppression;
pub mod switch;
pub mod template;
pub mod timer;
mod transaction;
pub mod turn;
pub mod user;
pub mod vapid_key;
pub mod web_push;
pub mod webhook;

pub use connection::{Connections, SESSION, ServerSessions, Settings, Store};
pub use error::Error;
