//! The database layer: sessions, transactions, errors, sealed columns, the audit log, and the failure counts of messages.

pub mod audit;
pub mod batch;
pub(crate) mod checkpoint;
pub(crate) mod columns;
pub(crate) mod connection;
pub(crate) mod error;
pub mod failure;
pub(crate) mod grants;
pub mod installation;
pub(crate) mod instant;
pub(crate) mod pooler;
pub mod schema;
pub mod sealed;
pub mod slots;
pub(crate) mod transaction;
