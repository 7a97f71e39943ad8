//! Inbox tables: queries for readers, the projection that writes the tables, and the removal of old items.

pub mod current;
pub mod list;
pub mod projection;
pub mod retention;
pub mod snoozes;
