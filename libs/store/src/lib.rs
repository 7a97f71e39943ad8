//! Access to PostgreSQL.
//!
//! Only this crate contains SQL. A statement that reads or writes many rows receives them as arrays and expands them with `UNNEST`, instead
//! of running once per row. The primary key of every table with data of apps starts with the app id.

pub mod control;
pub mod database;
pub mod deliveries;
pub mod directory;
pub mod erasure;
mod face;
pub mod inbox;
pub mod recovery;
pub mod sends;
pub mod webhooks;

pub use database::connection::{Connections, PINNED, SESSION, ServerSessions, Settings, Store};
pub use database::error::Error;
pub use face::{Control, Database, Deliveries, Directory, Erasures, Inbox, Recovery, Sends, Webhooks};
