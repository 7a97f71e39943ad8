//! Follows a stream from a checkpoint in the database, and projects its events into rows.
//!
//! Each batch of events is one transaction, which moves the checkpoint by compare-and-set before it writes the rows. Of two competing
//! instances, one changes nothing and starts again from the checkpoint. So rows are written in the order of the stream, and once per event.

mod checkpoint;
mod marks;
mod singly;

use std::time::Duration;

use anyhow::Context as _;
use domain::StreamName;
use domain::event::DecodeError;
use domain::event::bundle::{self, Part};
use event_log::{EventLog, Record};
use metrics::counter;
use store::Store;
use tokio::time::Instant;

use self::checkpoint::STORED_EACH;
use self::marks::Marks;
use crate::Tasks;
use crate::metrics::{DEAD_EVENTS, NEWER_EVENTS, UNKNOWN_EVENTS};
use crate::pace::Pace;

const MOST: usize = 500;
const PAUSE: Duration = Duration::from_millis(200);
const NEWER_PAUSE: Duration = Duration::from_secs(2);

pub trait Projection: Send {
    /// Name in the table `checkpoint`.
    const NAME: &'static str;
    /// Time between two batches, from the beginning of the first. An event after a pause does not wait.
    const PACE: Duration;
    /// If true, the first event is the first that the log still holds. Otherwise it is the first of the stream, and the log must not remove
    /// events before.
    const STARTS_LATE: bool = false;
    type Events: Default + Send + Sync;

    /// Called whenever the follower reads the checkpoint.
    fn load(&mut self) -> impl Future<Output = Result<(), store::Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// `seq` is the sequence of the message. The error is the cause why the event can never be applied.
    fn add(&mut self, events: &mut Self::Events, seq: u64, part: Part) -> Result<(), String>;

    fn is_full(_events: &Self::Events) -> bool {
        false
    }

    /// Reads what [`write`](Self::write) needs. Returns false if the events write no rows; the checkpoint then moves later.
    fn prepare(&self, _events: &mut Self::Events) -> impl Future<Output = Result<bool, store::Error>> + Send {
        std::future::ready(Ok(true))
    }

    /// Moves the checkpoint, then writes the rows and the dead events, in one transaction. If the checkpoint is not at `batch.from`, writes
    /// nothing and returns false.
    fn write(
        &self,
        batch: &EventBatch<'_, Self::Events>,
        repeats: Repeats,
    ) -> impl Future<Output = Result<bool, store::Error>> + Send;

    /// Called after the events up to sequence `_position` are committed.
    fn announce(&mut self, _events: &Self::Events, _position: u64) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

pub struct EventBatch<'a, E> {
    pub stream: StreamName,
    /// The stored checkpoint. Events after it that wrote no rows are not part of the batch.
    pub from: u64,
    pub to: u64,
    pub events: E,
    /// Events that cannot be applied, each with the cause.
    pub dead: Vec<(&'a Record, String)>,
}

/// Handling of rows that already exist when a batch adds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Rows are normally new: an event is published twice only after a crash. If a row already exists, the write may fail.
    Unexpected,
    Skipped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectionResult {
    Committed,
    /// The caller must start again from the checkpoint, which another instance has moved.
    Overtaken,
}

#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Only an instance of a newer release can read this event.
    #[error("event {seq}: {cause}")]
    Newer { seq: u64, cause: DecodeError },
}

pub struct Follower<P> {
    store: Store,
    stream: StreamName,
    position: u64,
    /// The checkpoint in the database, and when it was stored. Not after `position`.
    stored: (u64, Instant),
    marks: Marks,
    pub projection: P,
}

impl<P: Projection> Follower<P> {
    /// [`load`](Self::load) must be called before events are projected.
    pub fn new(store: Store, stream: StreamName, projection: P) -> Follower<P> {
        let marks = Marks::new(store.clone(), P::NAME, stream);
        Follower { store, stream, position: 0, stored: (0, Instant::now()), marks, projection }
    }

    pub fn stream(&self) -> StreamName {
        self.stream
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    /// Fails if the log lacks the stream, or events after the checkpoint.
    pub async fn follow(mut self, log: EventLog, tasks: Tasks) -> anyhow::Result<()> {
        let token = tasks.token();
        while let Some(ended) = token.run_until_cancelled(self.follow_from_checkpoint(&log)).await {
            ended?;
            token.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
        match tokio::time::timeout(STORED_EACH, self.store_position()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::debug!(projection = P::NAME, stream = %self.stream, %error, "cannot store the checkpoint; the next process reads some events again");
            }
            Err(_) => {
                tracing::debug!(projection = P::NAME, stream = %self.stream, "storing the checkpoint takes too long; the next process reads some events again");
            }
        }
        if let Err(error) = self.marks.end(self.position).await {
            tracing::debug!(projection = P::NAME, stream = %self.stream, %error, "cannot withdraw a mark; the next process projects the events one by one");
        }
        Ok(())
    }

    async fn follow_from_checkpoint(&mut self, log: &EventLog) -> anyhow::Result<()> {
        if P::STARTS_LATE
            && let Err(error) = self.start_late(log).await
        {
            tracing::warn!(
                projection = P::NAME, stream = %self.stream, error = format!("{error:#}"),
                "cannot store the first checkpoint; trying again"
            );
            return Ok(());
        }
        if let Err(error) = self.load().await {
            return self.retry_later(&error);
        }
        let mut reader = log.reader(self.stream, self.position + 1);
        let mut pace = Pace::new(P::PACE);
        loop {
            let records = match reader.next_batch(MOST, Duration::ZERO).await {
                Ok(records) => records,
                // The next call of `start_late` moves the checkpoint.
                Err(error @ event_log::Error::Purged { .. }) if self.is_at_start().await => {
                    return self.retry_later(&error);
                }
                Err(error) if error.is_permanent() => {
                    return Err(error).with_context(|| format!("cannot project events ({})", P::NAME));
                }
                Err(error) => return self.retry_later(&error),
            };
            pace.begin();
            match self.project_and_store(&records).await {
                Ok(ProjectionResult::Committed) if records.len() < MOST => pace.ready().await,
                Ok(ProjectionResult::Committed) => {}
                Ok(ProjectionResult::Overtaken) => return Ok(()),
                Err(ProjectionError::Store(error)) => return self.retry_later(&error),
                Err(ProjectionError::Newer { seq, cause }) => {
                    self.wait_for_newer(seq, &cause).await;
                    return Ok(());
                }
            }
        }
    }

    pub async fn load(&mut self) -> Result<(), store::Error> {
        self.position = self.store.database().checkpoint(P::NAME, self.stream).await?;
        self.stored = (self.position, Instant::now());
        self.projection.load().await
    }

    fn retry_later(&self, error: &dyn std::error::Error) -> anyhow::Result<()> {
        tracing::warn!(projection = P::NAME, stream = %self.stream, %error, "cannot project events; trying again");
        Ok(())
    }

    /// Pauses, so that an instance of a newer release can take over the stream.
    async fn wait_for_newer(&self, seq: u64, cause: &DecodeError) {
        counter!(NEWER_EVENTS, "type" => cause.kind().to_owned()).increment(1);
        tracing::error!(
            projection = P::NAME, stream = %self.stream, seq, %cause,
            "an event needs a newer release of Tidings; the projection waits for an upgrade"
        );
        tokio::time::sleep(NEWER_PAUSE).await;
    }

    /// Projects events that follow the position. Even after an error, the events up to [`position`](Self::position) are
    /// committed, or write no rows.
    pub async fn project(&mut self, records: &[Record]) -> Result<ProjectionResult, ProjectionError> {
        let mut rest = records;
        while !rest.is_empty() {
            let (mut batch, taken) = self.decode_batch(rest)?;
            let writes_rows = self.projection.prepare(&mut batch.events).await?;
            if batch.dead.is_empty() && !writes_rows {
                self.position = batch.to;
                self.projection.announce(&batch.events, batch.to).await;
                rest = &rest[taken..];
                continue;
            }
            let mut projected = self.write(&batch, Repeats::Unexpected).await;
            if is_refused(&projected) {
                projected = self.write(&batch, Repeats::Skipped).await;
            }
            if is_refused(&projected) {
                projected = self.project_singly(&rest[..taken]).await;
            }
            if projected? == ProjectionResult::Overtaken {
                return Ok(ProjectionResult::Overtaken);
            }
            rest = &rest[taken..];
        }
        Ok(ProjectionResult::Committed)
    }

    fn decode_batch<'a>(
        &mut self,
        records: &'a [Record],
    ) -> Result<(EventBatch<'a, P::Events>, usize), ProjectionError> {
        let (from, to) = (self.stored.0, self.position);
        let mut batch =
            EventBatch { stream: self.stream, from, to, events: P::Events::default(), dead: vec![] };
        let mut taken = 0;
        for record in records {
            if P::is_full(&batch.events) {
                break;
            }
            match bundle::decode(&record.payload) {
                Ok(parts) => {
                    for part in parts {
                        if let Err(cause) = self.projection.add(&mut batch.events, record.seq, part) {
                            batch.dead.push((record, cause));
                        }
                    }
                }
                Err(DecodeError::UnknownType(kind)) => counter!(UNKNOWN_EVENTS, "type" => kind).increment(1),
                // First project the events before this one, because this release can read them.
                Err(DecodeError::Newer { .. }) if taken > 0 => break,
                Err(cause @ DecodeError::Newer { .. }) => {
                    return Err(ProjectionError::Newer { seq: record.seq, cause });
                }
                Err(malformed) => batch.dead.push((record, malformed.to_string())),
            }
            batch.to = record.seq;
            taken += 1;
        }
        Ok((batch, taken))
    }

    async fn write(
        &mut self,
        batch: &EventBatch<'_, P::Events>,
        repeats: Repeats,
    ) -> Result<ProjectionResult, ProjectionError> {
        if !self.projection.write(batch, repeats).await? {
            return Ok(ProjectionResult::Overtaken);
        }
        for (record, cause) in &batch.dead {
            counter!(DEAD_EVENTS, "stream" => self.stream.to_string()).increment(1);
            tracing::error!(
                projection = P::NAME, stream = %self.stream, seq = record.seq, cause,
                "an event cannot be applied; dead-lettered it"
            );
        }
        (self.position, self.stored) = (batch.to, (batch.to, Instant::now()));
        self.projection.announce(&batch.events, batch.to).await;
        Ok(ProjectionResult::Committed)
    }
}

fn is_refused(projected: &Result<ProjectionResult, ProjectionError>) -> bool {
    matches!(projected, Err(ProjectionError::Store(error)) if error.is_refused_data())
}
