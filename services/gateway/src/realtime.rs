//! Live updates of inboxes: every change that a list shows is reported to the connected clients of its user.
//!
//! A connection belongs to the [`feed`] of its user's partition. The feed follows the partition's stream, waits until the
//! projection has committed an event, reads the changed items and counters, and adds [`update`]s to the queues of the user's
//! connections. [`stream`] writes them as Server-Sent Events, and
//! [`socket_io`] as events of Socket.IO.

mod arrival;
mod audience;
pub(crate) mod connection;
mod credentials;
pub(crate) mod crowd;
pub(crate) mod entrance;
mod feed;
mod hub;
mod lobby;
mod recent;
mod report;
mod rounds;
pub(crate) mod socket_io;
mod sources;
pub(crate) mod stream;
pub(crate) mod update;
pub(crate) mod web_socket;

pub(crate) use hub::{Hub, start};
pub(crate) use sources::Sources;
