//! Providers of kind `twilio`: Twilio's Programmable Messaging API, or a compatible one.

pub(crate) mod send;
pub mod settings;

pub use send::Twilio;
