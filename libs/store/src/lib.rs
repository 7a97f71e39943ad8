//! PostgreSQL: the directory, the control plane, plans, the ledger, timers and the inbox read model.
//!
//! This is the only crate that speaks SQL. Each module holds the statements of one noun; bulk work goes through
//! `UNNEST`, never row by row. Every tenant table's key starts with the app.

pub mod app;
mod audit;
pub mod batch;
mod connection;
mod error;
pub mod provider;
pub mod template;
pub mod user;

pub use connection::{Settings, Store};
pub use error::Error;
