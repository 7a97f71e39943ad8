//! The event log of Tidings: streams on NATS JetStream, with publishing and reading.
//!
//! The log stores bytes in named streams and does not interpret them. Streams are created from one declaration and read back;
//! publishing waits for the server's acknowledgement; processes share work through durable [`Consumer`]s; projections follow a
//! stream through a [`Reader`]. All of this survives a lost connection and a crash of the server: calls may fail during the
//! outage, and work again afterwards.
//!
//! The oldest server supported is nats-server 2.9.10. No type of the NATS client appears in this interface.

mod connection;
mod consumer;
mod delivered;
mod error;
mod origin;
mod position;
mod publish;
mod pull;
mod reader;
mod record;
mod size;
mod stream;

pub use connection::{Access, EventLog, Settings};
pub use consumer::{Consumer, ConsumerProgress, ConsumerSettings};
pub use delivered::DeliveredMessage;
pub use error::{ConnectError, DeclareError, Error, PublishError, Refusal};
pub use position::{Position, Positions};
pub use publish::{Message, PublishAck};
pub use reader::Reader;
pub use record::Record;
pub use size::{ResizedStream, StreamSize};
pub use stream::{StreamIdentity, StreamState};
