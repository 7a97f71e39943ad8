//! One stream, followed from its checkpoint into messages for endpoints.
//!
//! A durable consumer would hand neighbouring events to several instances, which could write those of one delivery in
//! either order. The checkpoint lets one instance through at a time, so rows come in the order of the stream.

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

/// Events that are read at once, and how long to gather them.
const BATCH: usize = 500;
const LINGER: Duration = Duration::from_millis(5);
/// Pause after a failure of the database or the log.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause before an event that only a newer release can read.
const NEWER_PAUSE: Duration = Duration::from_secs(2);
/// Between two looks whether the inbox is projected as far as we have read.
const PROJECTION_PAUSE: Duration = Duration::from_millis(20);
/// Items of one page, where a whole inbox was read.
const ITEMS: u32 = 1_000;

/// The way of one stream into messages.
pub(crate) struct Follower {
    context: Context,
    stream: StreamName,
    /// Last sequence committed.
    position: u64,
}

/// What became of a batch.
#[derive(PartialEq, Eq)]
enum Written {
    Yes,
    /// Another instance is ahead: start again from its checkpoint.
    Overtaken,
}

/// Why a batch was not written.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Only an instance of a newer release can go on from here.
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

    /// Returns when it has to start again from the checkpoint; an error is for good.
    async fn follow_from_checkpoint(&mut self) -> anyhow::Result<()> {
        match self.context.store.checkpoint(WEBHOOKS, self.stream).await {
            Ok(position) => self.position = position,
            Err(error) => return self.put_off(&error),
        }
        let mut reader = self.context.log.reader(self.stream, self.position + 1);
        loop {
            let records = match reader.next_batch(BATCH, LINGER).await {
                Ok(records) => records,
                Err(error) if error.is_permanent() => return Err(error).context("webhooks cannot follow"),
                Err(error) => return self.put_off(&error),
            };
            match self.write_all(&records).await {
                Ok(Written::Yes) => {}
                Ok(Written::Overtaken) => return Ok(()),
                Err(Failure::Store(error)) => return self.put_off(&error),
                Err(Failure::Newer { seq, cause }) => {
                    self.wait_for_newer(seq, &cause).await;
                    return Ok(());
                }
            }
        }
    }

    fn put_off(&self, error: &dyn std::error::Error) -> anyhow::Result<()> {
        tracing::warn!(stream = %self.stream, %error, "webhooks are put off");
        Ok(())
    }

    /// Leaves the stream to an instance of a newer release, and looks later how far that has come.
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

    /// Finds the event that the database refuses: it is tried five times by itself, then set aside.
    async fn write_singly(&mut self, records: &[Record]) -> Result<Written, Failure> {
        for record in records {
            let batch = decode(std::slice::from_ref(record))?;
            let mut written = self.write(&batch).await;
            while let Err(Failure::Store(error)) = &written
                && error.is_refused_data()
            {
                let cause = error.to_string();
                let failures = self.context.store.count_failure(self.stream, record.seq, &cause).await?;
                written = if failures < MAX_FAILURES {
                    self.write(&batch).await
                } else {
                    let (records, dead) = (batch.records, vec![(record, cause)]);
                    self.write(&Batch { records, envelopes: Vec::new(), dead }).await
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
        let listeners = match apps.is_empty() {
            true => Vec::new(),
            false => self.context.store.listeners(&apps).await?,
        };
        if is_read_heard(&batch.envelopes, &listeners) {
            self.projected_up_to(last).await?;
        }
        let Some(mut rows) = self.context.store.webhook_batch(self.stream, self.position, last).await? else {
            return Ok(Written::Overtaken);
        };
        self.tell(&mut rows, &batch.envelopes, &listeners).await?;
        for (record, cause) in &batch.dead {
            counter!(DEAD_EVENTS, "stream" => self.stream.to_string()).increment(1);
            tracing::error!(stream = %self.stream, seq = record.seq, cause, "an event is set aside");
            rows.bury(self.stream, record.seq, &record.payload, cause).await?;
        }
        rows.commit().await?;
        self.position = last;
        Ok(Written::Yes)
    }

    /// What was read stands in the read model, which may be behind us.
    async fn projected_up_to(&self, seq: u64) -> Result<(), store::Error> {
        while self.context.store.checkpoint(INBOX, self.stream).await? < seq {
            tokio::time::sleep(PROJECTION_PAUSE).await;
        }
        Ok(())
    }

    async fn tell(
        &self,
        rows: &mut WebhookBatch,
        envelopes: &[Envelope],
        listeners: &[Listener],
    ) -> Result<(), store::Error> {
        let heard = |envelope: &&Envelope| listeners.iter().any(|listener| hears(listener, envelope));
        let mut happenings = Vec::new();
        for envelope in envelopes.iter().filter(heard) {
            match &envelope.event {
                Event::InboxItemsChanged(ItemChange::Read, ItemsChanged { user, items }) => {
                    let (app, at) = (envelope.app, envelope.at);
                    let read = self.context.store.items_read(app, *user, items, at).await?;
                    happenings.extend(read.into_iter().map(|item| Happening::of_read(app, *user, item, at)));
                }
                Event::InboxAllChanged(AllChange::Read, changed) => {
                    add(rows, &happenings, listeners).await?;
                    happenings.clear();
                    self.tell_all_read(rows, envelope, changed, listeners).await?;
                }
                _ => happenings.extend(Happening::of_outcome(envelope)),
            }
        }
        add(rows, &happenings, listeners).await
    }

    /// A whole inbox may have been read at once: a page at a time.
    async fn tell_all_read(
        &self,
        rows: &mut WebhookBatch,
        envelope: &Envelope,
        &AllChanged { user, up_to }: &AllChanged,
        listeners: &[Listener],
    ) -> Result<(), store::Error> {
        let (app, at) = (envelope.app, envelope.at);
        let mut after = ItemId(0);
        loop {
            let page = self.context.store.all_items_read(app, user, (after, up_to), at, ITEMS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.id;
            let read: Vec<_> = page.into_iter().map(|item| Happening::of_read(app, user, item, at)).collect();
            add(rows, &read, listeners).await?;
        }
    }
}

/// Takes as many records from the front as this release can read.
fn decode(records: &[Record]) -> Result<Batch<'_>, Failure> {
    let (mut envelopes, mut dead, mut taken) = (Vec::new(), Vec::new(), 0);
    for record in records {
        match Envelope::decode(&record.payload) {
            Ok(envelope) if tells(&envelope.event) => envelopes.push(envelope),
            Ok(_) => {}
            Err(DecodeError::UnknownType(kind)) => counter!(UNKNOWN_EVENTS, "type" => kind).increment(1),
            // What was before it still counts.
            Err(DecodeError::Newer { .. }) if taken > 0 => break,
            Err(cause @ DecodeError::Newer { .. }) => return Err(Failure::Newer { seq: record.seq, cause }),
            Err(malformed) => dead.push((record, malformed.to_string())),
        }
        taken += 1;
    }
    Ok(Batch { records: &records[..taken], envelopes, dead })
}

fn tells(event: &Event) -> bool {
    is_read(event) || matches!(event, Event::DeliverySettled(_) | Event::TargetSuppressed(_))
}

fn is_read(event: &Event) -> bool {
    matches!(
        event,
        Event::InboxItemsChanged(ItemChange::Read, _) | Event::InboxAllChanged(AllChange::Read, _)
    )
}

fn hears(listener: &Listener, envelope: &Envelope) -> bool {
    let is_meant = listener.app == envelope.app && envelope.at >= listener.since;
    is_meant && (!is_read(&envelope.event) || listener.events.contains(&WebhookEvent::NotificationRead))
}

fn is_read_heard(envelopes: &[Envelope], listeners: &[Listener]) -> bool {
    let heard = |envelope: &Envelope| listeners.iter().any(|listener| hears(listener, envelope));
    envelopes.iter().any(|envelope| is_read(&envelope.event) && heard(envelope))
}

/// Adds a message for each listener. A person who was erased is not told of.
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
