//! Tests of the SMS channel with the stand-ins for Twilio, an HTTP API and a message centre.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agreement;
mod fixture;
mod http;
mod http_codes;
mod probe;
mod settings;
mod smpp;
mod smpp_awaited;
mod smpp_bounds;
mod smpp_keywords;
mod smpp_oddities;
mod smpp_receipt_forms;
mod smpp_receipts;
mod smpp_session;
mod smpp_status;
mod texts;
mod twilio;
mod twilio_codes;
