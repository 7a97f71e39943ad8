//! The event log of Tidings: streams on NATS JetStream. The log stores bytes and does not interpret them. Calls may fail during an outage,
//! and succeed again afterwards with the same handles.
//!
//! The oldest supported server is nats-server 2.9.10. No type of the NATS client library appears in this interface.
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod connection;
mod consumer;
mod delivered;
mod error;
mod origin;
mod position;
mod publish;
mod pull;
mod question;
mod reader;
mod record;
mod roll_call;
mod size;
mod store_use;
mod stream;

pub use connection::{Access, EventLog, Settings};
pub use consumer::{Consumer, ConsumerProgress, ConsumerSettings};
pub use delivered::DeliveredMessage;
pub use error::{ConnectError, DeclareError, Error, PublishError, Refusal};
pub use position::{Position, Positions};
pub use publish::{Message, PublishAck};
pub use question::{AskError, Question, Questions};
pub use reader::Reader;
pub use record::Record;
pub use roll_call::{RollCall, RollCalls};
pub use size::{ResizedStream, StreamSize};
pub use store_use::StoreUse;
pub use stream::{StreamIdentity, StreamState};
