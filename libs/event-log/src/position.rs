//! Announcements of the sequences that projections have committed. They are not stored and may be lost: a listener that depends on a
//! position must also read the checkpoint of the projection.

use async_nats::Subscriber;
use bytes::Bytes;
use domain::StreamName;
use futures_util::StreamExt;

use crate::connection::EventLog;
use crate::error::Error;

const PREFIX: &str = "tidings.position.";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub stream: String,
    pub seq: u64,
}

/// Misses announcements while the connection is down.
pub struct Positions {
    announcements: Subscriber,
}

impl EventLog {
    pub async fn announce(&self, stream: StreamName, seq: u64) -> Result<(), Error> {
        let payload = Bytes::from(seq.to_string());
        self.with_timeout("announce a position", self.client.publish(format!("{PREFIX}{stream}"), payload))
            .await
    }

    /// The subscription survives a lost connection.
    pub async fn positions(&self) -> Result<Positions, Error> {
        let announcements =
            self.with_timeout("subscribe", self.client.subscribe(format!("{PREFIX}*"))).await?;
        // The server processes messages in order, so the subscription is active when the server answers this ping.
        self.ping().await?;
        Ok(Positions { announcements })
    }
}

impl Positions {
    /// Waits without a time limit; `None` if the connection is permanently closed.
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
