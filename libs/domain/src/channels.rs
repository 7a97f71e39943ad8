//! Channels, and the rules of their messages and targets.

pub mod channel;
pub mod mail_header;
pub mod sms;
pub mod web_push;
