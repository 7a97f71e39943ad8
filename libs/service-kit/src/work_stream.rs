use std::time::Duration;

use domain::event::{DecodeError, bundle, envelope_owner};
use domain::{AppId, Envelope, Event, SendId, StreamName};
use event_log::DeliveredMessage;
use metrics::counter;
use store::Store;
use store::database::failure::{MAX_FAILURES, ParkRequest};
use store::deliveries::timer::NewTimer;

use crate::clock;
use crate::metrics::{DEAD_EVENTS, NEWER_EVENTS, UNKNOWN_EVENTS};
use crate::suspicion::{self, Suspects, Verdict};

/// Must be shorter than one second, the duration of a fetch by an idle consumer: if a redelivery falls due just as a fetch ends,
/// nats-server 2.9.10 postpones it by the whole `ack_wait`.
const AGAIN: Duration = Duration::from_millis(700);

/// If an acknowledgement is lost, the log delivers the message again, and the consumer finds that its work is already done. So a failed
/// acknowledgement is logged only at debug level.
#[derive(Clone, Debug)]
pub struct WorkStream {
    store: Store,
    stream: StreamName,
    suspects: Suspects,
}

/// None if the message could not be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owner {
    pub app: Option<AppId>,
    pub send_id: Option<SendId>,
}

impl WorkStream {
    #[must_use]
    pub fn new(store: Store, stream: StreamName) -> WorkStream {
        WorkStream { suspects: Suspects::new(store.clone(), stream), store, stream }
    }

    /// The caller handles a suspect alone.
    #[must_use]
    pub fn is_suspect(&self, delivered: &DeliveredMessage) -> bool {
        suspicion::is_suspect(delivered.deliveries)
    }

    /// Marks a suspect, or parks it if its handling has ended several processes. Returns true if the caller may handle it.
    async fn begin_suspect(&self, delivered: &DeliveredMessage) -> bool {
        match self.suspects.begin(delivered.seq).await {
            Ok(Verdict::Handle) => return true,
            Ok(Verdict::Later) => self.nak(delivered, Some(AGAIN)).await,
            Ok(Verdict::Park) => {
                let (app, send_id) = envelope_owner(&delivered.payload);
                let ends = suspicion::MAX_ENDS;
                let cause = format!("{ends} processes ended while they handled this message");
                tracing::error!(
                    stream = %self.stream, seq = delivered.seq, app = app.map(tracing::field::display),
                    send_id = send_id.map(tracing::field::display),
                    "processes end whenever they handle this message; parking it"
                );
                match self.park(delivered, Owner { app, send_id }, &cause).await {
                    Ok(()) => self.acknowledge(delivered).await,
                    Err(error) => {
                        tracing::warn!(stream = %self.stream, seq = delivered.seq, %error, "cannot park a message; trying again");
                        self.nak(delivered, Some(AGAIN)).await;
                    }
                }
            }
            Err(error) => {
                tracing::warn!(stream = %self.stream, seq = delivered.seq, %error, "cannot mark a message that was delivered often; retrying it");
                self.nak(delivered, Some(AGAIN)).await;
            }
        }
        false
    }

    /// Another process acknowledges the message, or the log delivers it again after `ack_wait`.
    pub async fn leave(&self, delivered: &DeliveredMessage) {
        if self.is_suspect(delivered) {
            self.suspects.end(delivered.seq).await;
        }
    }

    /// Leaves a message because something that it needs is missing, and parks it the `most_times`th time. An event of a bundle is not
    /// counted: the log soon delivers it alone.
    pub async fn leave_or_park(
        &self,
        delivered: &DeliveredMessage,
        owner: Owner,
        cause: &str,
        most_times: i32,
    ) {
        if delivered.is_part {
            return self.leave(delivered).await;
        }
        match self.park_after(most_times, delivered, owner, cause).await {
            Ok(true) => self.acknowledge(delivered).await,
            Ok(false) => self.leave(delivered).await,
            Err(error) => {
                tracing::warn!(
                    stream = %self.stream, seq = delivered.seq, %error,
                    "cannot count how often a message was left; the log will redeliver the message"
                );
                self.leave(delivered).await;
            }
        }
    }

    /// Divides a message into its events, which are acknowledged or returned separately. Of messages that this release cannot read, one of
    /// an unknown type is acknowledged, a newer one is returned to the log, and a malformed one counts as a failure.
    pub async fn decode(&self, delivered: DeliveredMessage) -> Vec<(DeliveredMessage, Envelope)> {
        let is_suspect = self.is_suspect(&delivered);
        if is_suspect && !self.begin_suspect(&delivered).await {
            return Vec::new();
        }
        match bundle::decode(&delivered.payload) {
            // Each event becomes a separate message, so that only the one that ends processes is parked.
            Ok(parts) if is_suspect && parts.len() > 1 => {
                let events = delivered.divide(parts.into_iter().map(|part| part.message).collect());
                self.return_all_later(&events.iter().collect::<Vec<_>>()).await;
                return Vec::new();
            }
            Ok(parts) => {
                let (messages, envelopes): (Vec<_>, Vec<_>) =
                    parts.into_iter().map(|part| (part.message, part.envelope)).unzip();
                return delivered.divide(messages).into_iter().zip(envelopes).collect();
            }
            Err(DecodeError::UnknownType(kind)) => {
                counter!(UNKNOWN_EVENTS, "type" => kind).increment(1);
                self.acknowledge(&delivered).await;
            }
            Err(newer @ DecodeError::Newer { .. }) => {
                counter!(NEWER_EVENTS, "type" => newer.kind().to_owned()).increment(1);
                tracing::error!(
                    stream = %self.stream, seq = delivered.seq, error = %newer,
                    "a message needs a newer release of Tidings; returning it to the log"
                );
                self.return_later(&delivered).await;
            }
            Err(malformed) => {
                self.count_failure(&delivered, Owner::default(), &malformed.to_string()).await;
            }
        }
        Vec::new()
    }

    /// If the whole message was delivered more than once, also deletes its recorded failures.
    pub async fn acknowledge(&self, delivered: &DeliveredMessage) {
        let is_done = delivered.ack().await.unwrap_or_else(|error| {
            tracing::debug!(
                stream = %self.stream, seq = delivered.seq, %error,
                "cannot send an ack; the log will redeliver the message"
            );
            false
        });
        if is_done
            && delivered.deliveries > 1
            && let Err(error) = self.store.database().forget_failure(self.stream, delivered.seq).await
        {
            tracing::debug!(
                stream = %self.stream, seq = delivered.seq, %error,
                "cannot delete a message's recorded failures"
            );
        }
        if is_done {
            self.suspects.forget(delivered.seq);
        } else if !delivered.is_part {
            self.leave(delivered).await;
        }
    }

    /// Redelivered after 700 ms.
    pub async fn return_later(&self, delivered: &DeliveredMessage) {
        self.return_after(&[delivered], AGAIN).await;
    }

    pub async fn return_all_later(&self, delivered: &[&DeliveredMessage]) {
        self.return_after(delivered, AGAIN).await;
    }

    /// Redelivered at once. Callers must not have started to handle the message.
    pub async fn return_now(&self, delivered: &DeliveredMessage) {
        self.return_to_log(delivered, None).await;
    }

    /// Events of bundles become timers, which publish each of them alone: the log would deliver the other events of their bundles again
    /// too.
    pub async fn return_after(&self, delivered: &[&DeliveredMessage], delay: Duration) {
        let (parts, mut returned): (Vec<_>, Vec<_>) =
            delivered.iter().copied().partition(|delivered| delivered.is_part);
        match self.publish_alone_after(&parts, delay).await {
            Ok(()) => {
                for part in parts {
                    self.acknowledge(part).await;
                }
            }
            // The caller has reported why it returns the events. During an outage of the database, this fails too.
            Err(error) => {
                tracing::debug!(
                    stream = %self.stream, events = parts.len(), error = format!("{error:#}"),
                    "cannot set timers for events of bundles; returning the bundles"
                );
                returned.extend(parts);
            }
        }
        for delivered in returned {
            self.return_to_log(delivered, Some(delay)).await;
        }
    }

    async fn return_to_log(&self, delivered: &DeliveredMessage, delay: Option<Duration>) {
        self.leave(delivered).await;
        self.nak(delivered, delay).await;
    }

    async fn nak(&self, delivered: &DeliveredMessage, delay: Option<Duration>) {
        if let Err(error) = delivered.nak(delay).await {
            tracing::debug!(
                stream = %self.stream, seq = delivered.seq, %error,
                "cannot return a message to the log; the log will redeliver it after ack_wait"
            );
        }
    }

    async fn publish_alone_after(&self, parts: &[&DeliveredMessage], delay: Duration) -> anyhow::Result<()> {
        if parts.is_empty() {
            return Ok(());
        }
        let due_at = clock::now() + delay;
        let timer = |part: &&DeliveredMessage| {
            let Envelope { app, send_id, event, .. } = Envelope::decode(&part.payload)?;
            let user = match event {
                Event::DeliveryJob(job) => Some(job.user),
                _ => None,
            };
            let message = part.payload.to_vec();
            Ok(NewTimer {
                id: clock::new_id(),
                due_at,
                stream: self.stream,
                message,
                app,
                send_id,
                user,
                wait: None,
            })
        };
        let timers: Vec<NewTimer> = parts.iter().map(timer).collect::<Result<_, DecodeError>>()?;
        Ok(self.store.deliveries().set_timers(&timers).await?)
    }

    /// Parks the message after its fifth failure, so that it does not delay others. An event of a bundle first becomes a message of its
    /// own.
    pub async fn count_failure(&self, delivered: &DeliveredMessage, owner: Owner, cause: &str) {
        if delivered.is_part {
            return self.return_later(delivered).await;
        }
        match self.park_after(MAX_FAILURES, delivered, owner, cause).await {
            Ok(true) => self.acknowledge(delivered).await,
            Ok(false) => self.return_later(delivered).await,
            Err(error) => {
                tracing::warn!(
                    stream = %self.stream, seq = delivered.seq, %error,
                    "cannot count the failure of a message; the log will redeliver the message"
                );
                self.return_later(delivered).await;
            }
        }
    }

    async fn park_after(
        &self,
        most_times: i32,
        delivered: &DeliveredMessage,
        owner: Owner,
        cause: &str,
    ) -> Result<bool, store::Error> {
        if self.store.database().count_failure(self.stream, delivered.seq, cause).await? < most_times {
            return Ok(false);
        }
        self.park(delivered, owner, cause).await?;
        Ok(true)
    }

    /// The caller acknowledges the message afterwards. Parking a message twice is safe.
    pub async fn park(
        &self,
        delivered: &DeliveredMessage,
        owner: Owner,
        cause: &str,
    ) -> Result<(), store::Error> {
        let message = ParkRequest {
            id: clock::new_id(),
            app: owner.app,
            send_id: owner.send_id,
            stream: self.stream,
            seq: delivered.seq,
            message: &delivered.payload,
            cause,
        };
        self.store.database().park_message(&message).await?;
        counter!(DEAD_EVENTS, "stream" => self.stream.to_string()).increment(1);
        tracing::error!(
            stream = %self.stream, seq = delivered.seq, cause,
            "parked a message after repeated or permanent failures"
        );
        Ok(())
    }
}
