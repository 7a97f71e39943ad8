//! Channels, and the rules for messages and targets of single channels.

pub mod channel;
pub mod mail_header;
pub mod sms;
pub mod web_push;
