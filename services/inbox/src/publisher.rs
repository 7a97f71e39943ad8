use std::collections::BTreeMap;

use domain::id::partition;
use domain::{AppId, Envelope, Event, StreamName, Timestamp, UserNumber};
use event_log::{EventLog, Message, PublishAck, PublishError};
use service_kit::fullness::DISPATCHER_STOPS;
use service_kit::{Context, clock};
use store::Store;
use store::inbox::projection::INBOX;

/// Delays the next event of a partition until the projection has applied the last one, because the tables do not show its effect before.
pub(crate) struct Publisher {
    store: Store,
    log: EventLog,
    partitions: u32,
    published: BTreeMap<u32, u64>,
}

pub(crate) struct UserEvent {
    pub(crate) app: AppId,
    pub(crate) user: UserNumber,
    pub(crate) id: String,
    pub(crate) event: Event,
}

#[derive(Default)]
pub(crate) struct Ready {
    partitions: BTreeMap<u32, bool>,
    pub(crate) failure: Option<anyhow::Error>,
}

impl Publisher {
    pub(crate) fn new(context: &Context) -> Publisher {
        Publisher {
            store: context.store.clone(),
            log: context.log.clone(),
            partitions: context.partitions,
            published: BTreeMap::new(),
        }
    }

    /// Returns false if the projection has not applied the last event of the partition yet, if its stream is nearly full, or if a server
    /// fails.
    pub(crate) async fn is_ready(&self, ready: &mut Ready, app: AppId, user: UserNumber) -> bool {
        let number = partition(app, user, self.partitions);
        if let Some(is_ready) = ready.partitions.get(&number) {
            return *is_ready;
        }
        let is_ready = self.look(number).await.unwrap_or_else(|error| {
            ready.failure.get_or_insert(error);
            false
        });
        ready.partitions.insert(number, is_ready);
        is_ready
    }

    async fn look(&self, number: u32) -> anyhow::Result<bool> {
        let stream = StreamName::Inbox(number);
        let published = self.published.get(&number).copied().unwrap_or(0);
        let is_applied = self.store.database().checkpoint(INBOX, stream).await? >= published;
        Ok(is_applied && self.log.state(stream).await?.fill < DISPATCHER_STOPS)
    }

    /// Returns a result for each event. The id makes the log ignore the same event of another process.
    pub(crate) async fn publish(
        &mut self,
        at: Timestamp,
        events: Vec<UserEvent>,
    ) -> anyhow::Result<Vec<Result<PublishAck, PublishError>>> {
        let mut numbers = Vec::with_capacity(events.len());
        let mut messages = Vec::with_capacity(events.len());
        for UserEvent { app, user, id, event } in events {
            let number = partition(app, user, self.partitions);
            let envelope =
                Envelope { id: clock::new_id(), app, at, send_id: None, caused_by: None, trace: None, event };
            let payload = envelope.encode()?.into();
            numbers.push(number);
            messages.push(Message { stream: StreamName::Inbox(number), id: Some(id), payload });
        }
        let results = self.log.publish_all(messages).await;
        for (number, ack) in numbers.into_iter().zip(&results) {
            if let Ok(ack) = ack {
                let last = self.published.entry(number).or_default();
                *last = ack.seq.max(*last);
            }
        }
        Ok(results)
    }
}
