//! Positions: how far a projection has committed, told to whoever listens.
//!
//! They travel outside the streams and may be lost; a listener that depends on one also looks at the checkpoint.

use async_nats::Subscriber;
use bytes::Bytes;
use domain::StreamName;
use futures_util::StreamExt;

use crate::connection::EventLog;
use crate::error::Error;

const PREFIX: &str = "tidings.position.";

/// A projection has committed a stream up to a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The stream's name.
    pub stream: String,
    /// The last sequence committed.
    pub seq: u64,
}

/// The positions announced by all processes, from the moment of subscribing on, except while the connection is down.
pub struct Positions {
    announcements: Subscriber,
}

impl EventLog {
    /// Tells all listeners that `stream` is committed up to `seq`.
    ///
    /// # Errors
    /// When the connection is down or does not take the message in time.
    pub async fn announce(&self, stream: StreamName, seq: u64) -> Result<(), Error> {
        let payload = Bytes::from(seq.to_string());
        self.bounded("announce a position", self.client.publish(format!("{PREFIX}{stream}"), payload)).await
    }

    /// Listens to the positions of all streams. After a lost connection it goes on by itself.
    ///
    /// # Errors
    /// When the server is away or does not confirm the subscription in time.
    pub async fn positions(&self) -> Result<Positions, Error> {
        let announcements = self.bounded("subscribe", self.client.subscribe(format!("{PREFIX}*"))).await?;
        // The server answers in order: once it has answered this, it knows the subscription.
        self.ping().await?;
        Ok(Positions { announcements })
    }
}

impl Positions {
    /// The next position announced, however long that takes; `None` when the connection was given up for good.
    pub async fn next(&mut self) -> Option<Position> {
        loop {
            let message = self.announcements.next().await?;
            match parse(&message) {
                Some(position) => return Some(position),
                None => tracing::warn!(subject = %message.subject, "this is not a position"),
            }
        }
    }
}

fn parse(message: &async_nats::Message) -> Option<Position> {
    let stream = message.subject.strip_prefix(PREFIX)?.to_owned();
    let seq = std::str::from_utf8(&message.payload).ok()?.parse().ok()?;
    Some(Position { stream, seq })
}
