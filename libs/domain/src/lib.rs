//! Facts and decisions of Tidings: events, identifiers, validation, planning, outcomes, retry arithmetic.
//!
//! Nothing here does I/O, awaits, reads a clock or draws a random number: time and randomness come in as
//! arguments, so that every decision can be tested and replayed.

pub mod channel;
pub mod content;
pub mod delivery;
pub mod device;
pub mod event;
pub mod fields;
pub mod id;
pub mod inbox;
pub mod outcome;
pub mod plan;
pub mod problem;
pub mod profile;
pub mod request;
pub mod retry;
pub mod send;
mod signing_algorithm;
pub mod size;
pub mod stream;
mod text_enum;
pub mod time;
pub mod web_push;

pub use channel::Channel;
pub use delivery::{Reason, Status};
pub use device::DeviceType;
pub use event::{Envelope, Event};
pub use id::{AppId, CategoryId, DeliveryId, ItemId, SendId, UserNumber};
pub use outcome::{Answer, Outcome};
pub use problem::Problem;
pub use send::{Lane, Send};
pub use signing_algorithm::SigningAlgorithm;
pub use stream::StreamName;
pub use time::Timestamp;
