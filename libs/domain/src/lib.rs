//! Facts and decisions of Tidings: events, identifiers, validation, planning, outcomes, retry arithmetic.
//!
//! This crate does no I/O, awaits nothing, and reads neither a clock nor random numbers: callers pass the time and random numbers
//! as arguments, so that every decision can be tested and replayed.

pub mod breaker;
pub mod channel;
pub mod content;
pub mod delivery;
pub mod device;
mod digest;
pub mod event;
pub mod fields;
pub mod health;
pub mod id;
pub mod inbox;
pub mod link;
pub mod mail_header;
pub mod outcome;
pub mod overrides;
pub mod pace;
pub mod plan;
pub mod problem;
pub mod profile;
pub mod request;
pub mod retry;
pub mod route;
pub mod send;
mod signing_algorithm;
pub mod size;
pub mod sms;
pub mod stream;
pub mod structure;
pub mod target;
mod text_enum;
pub mod time;
mod trust;
pub mod web_push;
pub mod webhook;

pub use channel::Channel;
pub use delivery::{Reason, Status};
pub use device::DeviceType;
pub use digest::Digest;
pub use event::{Envelope, Event};
pub use id::{AppId, CategoryId, DeliveryId, ItemId, SendId, UserNumber};
pub use outcome::{Answer, Gone, Outcome};
pub use problem::Problem;
pub use route::Route;
pub use send::{Lane, SendRequest};
pub use signing_algorithm::SigningAlgorithm;
pub use stream::StreamName;
pub use time::Timestamp;
pub use trust::{TemplateProfile, TokenSubject};
