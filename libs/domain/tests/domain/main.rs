//! Behaviour of the domain on which the rest of the system relies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attachments;
mod email_layout;
mod golden;
mod ledger_model;
mod link;
mod message_id;
mod overrides;
mod patch;
mod protocol;
mod receipt;
mod request;
