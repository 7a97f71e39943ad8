//! PostgreSQL: the directory, the control plane, plans, the ledger, timers and the inbox read model.
//!
//! Only this crate contains SQL. Each module holds the statements of one noun; bulk work goes through `UNNEST`, never
//! row by row. Every tenant table's key starts with the app.

pub mod control;
pub mod database;
pub mod deliveries;
pub mod directory;
pub mod erasure;
pub mod inbox;
pub mod recovery;
pub mod sends;
pub mod webhooks;

pub use database::connection::{Connections, SESSION, ServerSessions, Settings, Store};
pub use database::error::Error;
