//! Turns the events of one stream into messages for endpoints, starting from a checkpoint in the database.
//!
//! A durable consumer would deliver neighbouring events to several instances, which could write those of one delivery in
//! either order. The checkpoint admits one instance at a time, so rows are written in stream order.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Context as _;
use domain::event::{AllChanged, DecodeError, ItemsChanged};
use domain::inbox::{AllChange, ItemChange};
use domain::webhook::WebhookEvent;
use domain::{AppId, Envelope, Event, ItemId, StreamName};
use event_log::Record;
use metrics::counter;
use service_kit::Context;
use service_kit::metrics::{DEAD_EVENTS, NEWER_EVENTS, UNKNOWN_EVENTS};
use store::database::failure::MAX_FAILURES;
use store::inbox::projection::INBOX;
use store::webhooks::{Listener, WEBHOOKS, WebhookBatch};

use crate::telling::Happening;

/// Maximum number of events per read, and the time to gather them.
const BATCH: usize = 500;
const LINGER: Duration = Duration::from_millis(5);
/// Pause after a failure of the database or the log.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause before another try at an event that only a newer release can read.
const NEWER_PAUSE: Duration = Duration::from_secs(2);
/// Poll interval while waiting for the inbox projection to catch up.
const PROJECTION_PAUSE: Duration = Duration::from_millis(20);
/// Items per page when a whole inbox was marked as read.
const ITEMS: u32 = 1_000;

/// Follower of one stream, which turns events into messages.
pub(crate) struct Follower {
    context: Context,
    stream: StreamName,
    /// Last sequence committed.
    position: u64,
}

/// Result of writing a batch.
#[derive(PartialEq, Eq)]
enum Written {
    Yes,
    /// Another instance is ahead; restart from its checkpoint.
    Overtaken,
}

/// Failure to write a batch.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Only an instance of a newer release can continue from here.
    #[error("event {seq}: {cause}")]
    Newer { seq: u64, cause: DecodeError },
}

/// Events of one transaction.
struct Batch<'a> {
    records: &'a [Record],
    envelopes: Vec<Envelope>,
    dead: Vec<(&'a Record, String)>,
}

impl Follower {
    pub(crate) fn new(context: &Context, stream: StreamName) -> Follower {
        Follower { context: context.clone(), stream, position: 0 }
    }

    /// Follows until the process stops.
    pub(crate) async fn follow(mut self) -> anyhow::Result<()> {
        let token = self.context.tasks.token().clone();
        while let Some(ended) = token.run_until_cancelled(self.follow_from_checkpoint()).await {
            ended?;
            token.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
        Ok(())
    }

    /// Follows from the checkpoint. Returns Ok if it must restart from the checkpoint; an error is permanent.
    async fn follow_from_checkpoint(&mut self) -> anyhow::Result<()> {
        match self.context.store.inbox().checkpoint(WEBHOOKS, self.stream).await {
            Ok(position) => self.position = position,
            Err(error) => return self.retry_later(&error),
        }
        let mut reader = self.context.log.reader(self.stream, self.position + 1);
        loop {
            let records = match reader.next_batch(BATCH, LINGER).await {
                Ok(records) => records,
                Err(error) if error.is_permanent() => {
                    return Err(error).context("webhooks cannot follow the log");
                }
                Err(error) => return self.retry_later(&error),
            };
            match self.write_all(&records).await {
                Ok(Written::Yes) => {}
                Ok(Written::Overtaken) => return Ok(()),
                Err(Failure::Store(error)) => return self.retry_later(&error),
                Err(Failure::Newer { seq, cause }) => {
                    self.wait_for_newer(seq, &cause).await;
                    return Ok(());
                }
            }
        }
    }

    fn retry_later(&self, error: &dyn std::error::Error) -> anyhow::Result<()> {
        tracing::warn!(stream = %self.stream, %error, "cannot write webhooks; trying again");
        Ok(())
    }

    /// Pauses, so that an instance of a newer release can take over the stream.
    async fn wait_for_newer(&self, seq: u64, cause: &DecodeError) {
        counter!(NEWER_EVENTS, "type" => cause.kind().to_owned()).increment(1);
        tracing::error!(stream = %self.stream, seq, %cause, "webhooks of the stream wait for a newer release");
        tokio::time::sleep(NEWER_PAUSE).await;
    }

    async fn write_all(&mut self, records: &[Record]) -> Result<Written, Failure> {
        let mut rest = records;
        while !rest.is_empty() {
            let batch = decode(rest)?;
            rest = &rest[batch.records.len()..];
            let mut written = self.write(&batch).await;
            if is_refused(&written) {
                written = self.write_singly(batch.records).await;
            }
            if written? == Written::Overtaken {
                return Ok(Written::Overtaken);
            }
        }
        Ok(Written::Yes)
    }

    /// Writes events one by one to find those that PostgreSQL rejects. Such an event is dead-lettered after five tries.
    async fn write_singly(&mut self, records: &[Record]) -> Result<Written, Failure> {
        for record in records {
            let batch = decode(std::slice::from_ref(record))?;
            let mut written = self.write(&batch).await;
            while let Err(Failure::Store(error)) = &written
                && error.is_refused_data()
            {
                let cause = error.to_string();
                let failures =
                    self.context.store.database().count_failure(self.stream, record.seq, &cause).await?;
                written = if failures < MAX_FAILURES {
                    self.write(&batch).await
                } else {
                    let dead = vec![(record, cause)];
                    self.write(&Batch { records: batch.records, envelopes: Vec::new(), dead }).await
                };
            }
            if written? == Written::Overtaken {
                return Ok(Written::Overtaken);
            }
        }
        Ok(Written::Yes)
    }

    async fn write(&mut self, batch: &Batch<'_>) -> Result<Written, Failure> {
        let Some(last) = batch.records.last().map(|record| record.seq) else {
            return Ok(Written::Yes);
        };
        let apps: HashSet<AppId> = batch.envelopes.iter().map(|envelope| envelope.app).collect();
        let listeners =
            if apps.is_empty() { Vec::new() } else { self.context.store.webhooks().listeners(&apps).await? };
        if needs_projection(&batch.envelopes, &listeners) {
            self.wait_for_projection(last).await?;
        }
        let Some(mut rows) =
            self.context.store.webhooks().webhook_batch(self.stream, self.position, last).await?
        else {
            return Ok(Written::Overtaken);
        };
        self.add_all(&mut rows, &batch.envelopes, &listeners).await?;
        for (record, cause) in &batch.dead {
            counter!(DEAD_EVENTS, "stream" => self.stream.to_string()).increment(1);
            tracing::error!(stream = %self.stream, seq = record.seq, cause, "an event cannot be applied; dead-lettered it");
            rows.bury(self.stream, record.seq, &record.payload, cause).await?;
        }
        rows.commit().await?;
        self.position = last;
        Ok(Written::Yes)
    }

    /// Waits until the inbox is projected up to `seq`: its rows show which items were read.
    async fn wait_for_projection(&self, seq: u64) -> Result<(), store::Error> {
        while self.context.store.inbox().checkpoint(INBOX, self.stream).await? < seq {
            tokio::time::sleep(PROJECTION_PAUSE).await;
        }
        Ok(())
    }

    /// Adds the messages of these events.
    async fn add_all(
        &self,
        rows: &mut WebhookBatch,
        envelopes: &[Envelope],
        listeners: &[Listener],
    ) -> Result<(), store::Error> {
        let wanted = |envelope: &&Envelope| listeners.iter().any(|listener| wants(listener, envelope));
        let mut happenings = Vec::new();
        for envelope in envelopes.iter().filter(wanted) {
            match &envelope.event {
                Event::InboxItemsChanged(ItemChange::Read, ItemsChanged { user, items }) => {
                    let app = envelope.app;
                    let at = envelope.at;
                    let read = self.context.store.webhooks().items_read(app, *user, items, at).await?;
                    happenings.extend(read.into_iter().map(|item| Happening::of_read(app, *user, item, at)));
                }
                Event::InboxAllChanged(AllChange::Read, changed) => {
                    add(rows, &happenings, listeners).await?;
                    happenings.clear();
                    self.add_all_read(rows, envelope, changed, listeners).await?;
                }
                _ => happenings.extend(Happening::of_outcome(envelope)),
            }
        }
        add(rows, &happenings, listeners).await
    }

    /// Adds the messages of a whole inbox that was marked as read, page by page.
    async fn add_all_read(
        &self,
        rows: &mut WebhookBatch,
        envelope: &Envelope,
        &AllChanged { user, up_to }: &AllChanged,
        listeners: &[Listener],
    ) -> Result<(), store::Error> {
        let app = envelope.app;
        let at = envelope.at;
        let mut after = ItemId(0);
        loop {
            let page =
                self.context.store.webhooks().all_items_read(app, user, (after, up_to), at, ITEMS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.id;
            let read: Vec<_> = page.into_iter().map(|item| Happening::of_read(app, user, item, at)).collect();
            add(rows, &read, listeners).await?;
        }
    }
}

/// Decodes records up to the first one that only a newer release can read. If that is the first record, returns an error.
fn decode(records: &[Record]) -> Result<Batch<'_>, Failure> {
    let mut envelopes = Vec::new();
    let mut dead = Vec::new();
    let mut taken = 0;
    for record in records {
        match Envelope::decode(&record.payload) {
            Ok(envelope) if is_reported(&envelope.event) => envelopes.push(envelope),
            Ok(_) => {}
            Err(DecodeError::UnknownType(kind)) => counter!(UNKNOWN_EVENTS, "type" => kind).increment(1),
            // The events before it can still be written.
            Err(DecodeError::Newer { .. }) if taken > 0 => break,
            Err(cause @ DecodeError::Newer { .. }) => return Err(Failure::Newer { seq: record.seq, cause }),
            Err(malformed) => dead.push((record, malformed.to_string())),
        }
        taken += 1;
    }
    Ok(Batch { records: &records[..taken], envelopes, dead })
}

fn is_reported(event: &Event) -> bool {
    is_read(event) || matches!(event, Event::DeliverySettled(_) | Event::TargetSuppressed(_))
}

fn is_read(event: &Event) -> bool {
    matches!(
        event,
        Event::InboxItemsChanged(ItemChange::Read, _) | Event::InboxAllChanged(AllChange::Read, _)
    )
}

fn wants(listener: &Listener, envelope: &Envelope) -> bool {
    let is_in_scope = listener.app == envelope.app && envelope.at >= listener.since;
    is_in_scope && (!is_read(&envelope.event) || listener.events.contains(&WebhookEvent::NotificationRead))
}

/// Returns true if a listener wants an event of the batch about read items, which needs the rows of the inbox.
fn needs_projection(envelopes: &[Envelope], listeners: &[Listener]) -> bool {
    let wanted = |envelope: &Envelope| listeners.iter().any(|listener| wants(listener, envelope));
    envelopes.iter().any(|envelope| is_read(&envelope.event) && wanted(envelope))
}

/// Adds a message for each listener. Events of erased users are skipped.
async fn add(
    rows: &mut WebhookBatch,
    happenings: &[Happening],
    listeners: &[Listener],
) -> Result<(), store::Error> {
    if happenings.is_empty() {
        return Ok(());
    }
    let users = happenings.iter().map(|happening| (happening.app, happening.user)).collect();
    let identifiers = rows.identifiers(&users).await?;
    let mut messages = Vec::new();
    for happening in happenings {
        let Some(recipient) = identifiers.get(&(happening.app, happening.user)) else { continue };
        messages.extend(listeners.iter().filter_map(|listener| happening.message(listener, recipient)));
    }
    rows.add(&messages).await
}

fn is_refused(written: &Result<Written, Failure>) -> bool {
    matches!(written, Err(Failure::Store(error)) if error.is_refused_data())
}
