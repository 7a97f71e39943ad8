//! The event log of Tidings: streams on NATS JetStream, and everything that appends to them or reads them.
//!
//! The log moves bytes between named streams and knows nothing of what they mean. Streams are created from one
//! declaration and read back; publishing waits for the server's acknowledgement; work is shared through durable
//! [`Consumer`]s, projections follow a stream through a [`Reader`]. All of it survives the loss of the connection and
//! a crash of the server: a call may fail meanwhile, and works again afterwards.
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
mod size;
mod stream;

pub use connection::{Access, EventLog, Settings};
pub use consumer::{Consumer, ConsumerProgress, ConsumerSettings};
pub use delivered::Delivered;
pub use error::{ConnectError, DeclareError, Error, PublishError, Refusal};
pub use position::{Position, Positions};
pub use publish::{Appended, Message};
pub use reader::{Reader, Record};
pub use size::{Resized, StreamSize};
pub use stream::{StreamIdentity, StreamState};
