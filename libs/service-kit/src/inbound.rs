//! Answers to the messages of a work stream, and the end of those that fail by themselves.

use std::time::Duration;

use domain::{AppId, SendId, StreamName};
use event_log::Delivered;
use metrics::counter;
use store::Store;
use store::database::failure::{MAX_FAILURES, SetAside};

use crate::clock;
use crate::metrics::DEAD_EVENTS;

/// Until a message that could not be handled comes again. Idle consumers ask for messages a second at a time, from this
/// moment on, and nats-server 2.9.10 puts a redelivery that is due just when a request ends off by the whole `ack_wait`.
const AGAIN: Duration = Duration::from_millis(700);

/// One work stream, seen by a service that consumes it. An answer that is lost means another delivery, which finds
/// the work done; so failures to answer are only noted.
#[derive(Clone, Debug)]
pub struct Inbound {
    store: Store,
    stream: StreamName,
}

/// Whose message it is, as far as it could be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owner {
    /// The app.
    pub app: Option<AppId>,
    /// The send.
    pub send_id: Option<SendId>,
}

impl Inbound {
    /// Answers for messages of `stream`.
    #[must_use]
    pub fn new(store: Store, stream: StreamName) -> Inbound {
        Inbound { store, stream }
    }

    /// Acknowledges a message; what it failed with before, if it came more than once, is forgotten.
    pub async fn done(&self, delivered: &Delivered) {
        if let Err(error) = delivered.ack().await {
            tracing::debug!(stream = %self.stream, seq = delivered.seq, %error, "not acknowledged");
        }
        if delivered.deliveries > 1
            && let Err(error) = self.store.forget_failure(self.stream, delivered.seq).await
        {
            tracing::debug!(stream = %self.stream, seq = delivered.seq, %error, "its failures are not forgotten");
        }
    }

    /// Hands a message back, to come again in a moment.
    pub async fn again(&self, delivered: &Delivered) {
        self.after(delivered, AGAIN).await;
    }

    /// Hands a message back that was not begun with, for whoever asks for one next.
    pub async fn at_once(&self, delivered: &Delivered) {
        if let Err(error) = delivered.nak(None).await {
            tracing::debug!(stream = %self.stream, seq = delivered.seq, %error, "not handed back");
        }
    }

    /// Hands a message back, to come again after `delay`.
    pub async fn after(&self, delivered: &Delivered, delay: Duration) {
        if let Err(error) = delivered.nak(Some(delay)).await {
            tracing::debug!(stream = %self.stream, seq = delivered.seq, %error, "not handed back");
        }
    }

    /// Counts a failure that is the message's own. After the fifth it is parked, so that it holds up nobody.
    pub async fn failed_by_itself(&self, delivered: &Delivered, owner: Owner, cause: &str) {
        match self.park_after_last(delivered, owner, cause).await {
            Ok(true) => self.done(delivered).await,
            Ok(false) => self.again(delivered).await,
            Err(error) => {
                tracing::warn!(stream = %self.stream, seq = delivered.seq, %error, "a failure is not counted");
                self.again(delivered).await;
            }
        }
    }

    async fn park_after_last(
        &self,
        delivered: &Delivered,
        owner: Owner,
        cause: &str,
    ) -> Result<bool, store::Error> {
        if self.store.count_failure(self.stream, delivered.seq, cause).await? < MAX_FAILURES {
            return Ok(false);
        }
        self.set_aside(delivered, owner, cause).await?;
        Ok(true)
    }

    /// Parks a message that must not come again, before it is acknowledged.
    ///
    /// # Errors
    /// The database failed; repeating is safe.
    pub async fn set_aside(
        &self,
        delivered: &Delivered,
        owner: Owner,
        cause: &str,
    ) -> Result<(), store::Error> {
        let message = SetAside {
            id: clock::new_id(),
            app: owner.app,
            send_id: owner.send_id,
            stream: self.stream,
            seq: delivered.seq,
            message: &delivered.payload,
            cause,
        };
        self.store.set_aside(&message).await?;
        counter!(DEAD_EVENTS, "stream" => self.stream.to_string()).increment(1);
        tracing::error!(stream = %self.stream, seq = delivered.seq, cause, "parked: it fails by itself");
        Ok(())
    }
}
