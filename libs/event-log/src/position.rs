//! Announcements of positions. A position is the last sequence of a stream that a projection has committed.
//!
//! Announcements are not stored in a stream and may be lost. A listener that depends on a position must also read the checkpoint
//! of the projection.

use async_nats::Subscriber;
use bytes::Bytes;
use domain::StreamName;
use futures_util::StreamExt;

use crate::connection::EventLog;
use crate::error::Error;

const PREFIX: &str = "tidings.position.";

/// Position of a projection in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The stream's name.
    pub stream: String,
    /// The last sequence committed.
    pub seq: u64,
}

/// Subscription to the positions that all processes announce. It misses announcements while the connection is down.
pub struct Positions {
    announcements: Subscriber,
}

impl EventLog {
    /// Announces to all listeners that a projection has committed the events of `stream` up to `seq`.
    ///
    /// # Errors
    /// Returns an error if the connection is down or does not accept the message in time.
    pub async fn announce(&self, stream: StreamName, seq: u64) -> Result<(), Error> {
        let payload = Bytes::from(seq.to_string());
        self.with_timeout("announce a position", self.client.publish(format!("{PREFIX}{stream}"), payload))
            .await
    }

    /// Subscribes to the positions of all streams. The subscription survives a lost connection.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable or does not confirm the subscription in time.
    pub async fn positions(&self) -> Result<Positions, Error> {
        let announcements =
            self.with_timeout("subscribe", self.client.subscribe(format!("{PREFIX}*"))).await?;
        // The server processes messages in order, so the subscription is active when the server answers this ping.
        self.ping().await?;
        Ok(Positions { announcements })
    }
}

impl Positions {
    /// Waits for the next announced position, without a time limit; `None` if the connection is permanently closed.
    pub async fn next(&mut self) -> Option<Position> {
        loop {
            let message = self.announcements.next().await?;
            match parse(&message) {
                Some(position) => return Some(position),
                None => {
                    tracing::warn!(subject = %message.subject, "ignoring a malformed position announcement");
                }
            }
        }
    }
}

fn parse(message: &async_nats::Message) -> Option<Position> {
    let stream = message.subject.strip_prefix(PREFIX)?.to_owned();
    let seq = std::str::from_utf8(&message.payload).ok()?.parse().ok()?;
    Some(Position { stream, seq })
}
