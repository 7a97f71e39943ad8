//! Stand-ins for the providers that Tidings calls, for `tidings up`, the demo and tests.
//!
//! They listen on the loopback interface, unless [`interface::serve_as`] is called. They *capture* each message that they accept: they
//! store it in an outbox before they confirm it.

mod all;
pub mod apns;
pub mod faults;
pub mod faulty;
pub mod fcm;
pub mod http;
pub mod interface;
pub mod outbox;
pub mod postmark;
pub mod providers;
pub mod push_service;
mod recipient;
pub mod script;
pub mod sms_http;
pub mod smsc;
pub mod smtp;
pub mod tls;
pub mod twilio;
pub mod webhook;

pub use all::{StandInPorts, StandInSettings, StandIns};
