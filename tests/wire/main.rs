//! Messages on the wire, checked by independent parsers and decrypters. In each module, a worker's sender calls a stand-in, and a
//! Python script checks the received message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mail;
mod python;
mod sms;
mod web_push;
mod webhook;
