//! Messages as providers and apps receive them, checked by independent parsers and decryption libraries. In each module, the
//! sender of a worker calls a stand-in, and a Python script checks the received message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mail;
mod mail_servers;
mod python;
mod sms;
mod web_push;
mod webhook;
