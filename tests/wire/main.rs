//! What goes over the wire, looked at by parsers and decrypters that are not ours: one module a channel, which makes a
//! worker's sender talk to a stand-in and hands what came there to a Python script beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mail;
mod python;
mod sms;
mod web_push;
mod webhook;
