//! Inbox tables: queries for readers, and the projection that writes the tables.

pub mod list;
pub mod projection;
