//! One partition of the inbox, followed from its checkpoint.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Context as _;
use domain::event::DecodeError;
use domain::inbox::fold::{Erased, Fold, Origin};
use domain::structure::json_memory;
use domain::{AppId, Envelope, StreamName, UserNumber};
use event_log::{EventLog, Record};
use metrics::{counter, histogram};
use service_kit::metrics::{ACCEPT_TO_INBOX_SECONDS, DEAD_EVENTS, NEWER_EVENTS, UNKNOWN_EVENTS};
use service_kit::{Context, Tasks, clock};
use store::Store;
use store::database::failure::MAX_FAILURES;
use store::inbox::projection::INBOX;

use crate::fold::{Repeats, apply, users};

/// Maximum number of events per read, and the time to gather them.
const BATCH: usize = 500;
/// Rows beyond which no further event joins a transaction.
const ROWS: usize = 1_000;
/// Bytes of events in memory beyond which no further event joins a transaction.
const BYTES: usize = 16 * 1024 * 1024;
const LINGER: Duration = Duration::from_millis(2);
/// Pause after a failure of the database or the log.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause before another try at an event that only a newer release can read.
const NEWER_PAUSE: Duration = Duration::from_secs(2);

/// The projection of one partition.
pub(crate) struct Partition {
    store: Store,
    stream: StreamName,
    origin: Origin,
    audience: Audience,
    /// Last sequence committed.
    position: u64,
    /// Erased users: read with the checkpoint, then updated event by event. User numbers are never reused, so dropping
    /// events of these users is right even for events from before the erasure.
    erased: Erased,
}

/// Receiver of committed positions.
enum Audience {
    /// Live projection: callers that wait for a change to become visible, and the metrics.
    Live(EventLog),
    /// Replay: announces nothing, and remembers the users whose inboxes it has written.
    Replay(HashSet<(AppId, UserNumber)>),
}

/// Result of projecting a batch.
#[derive(PartialEq, Eq)]
pub(crate) enum Projected {
    /// The batch is committed.
    Yes,
    /// Another instance is ahead; restart from its checkpoint.
    Overtaken,
}

/// An event to dead-letter, and the cause.
type Dead<'a> = (&'a Record, String);

/// Events of one transaction, and their folded changes.
struct Folded<'a> {
    records: &'a [Record],
    fold: Fold,
    dead: Vec<Dead<'a>>,
}

/// Failure to project a batch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Only an instance of a newer release can continue from here.
    #[error("event {seq}: {cause}")]
    Newer { seq: u64, cause: DecodeError },
}

impl Partition {
    pub(crate) fn new(context: &Context, number: u32) -> Partition {
        let origin = Origin { partition: number, partitions: context.partitions };
        Partition::of(context.store.clone(), origin, Audience::Live(context.log.clone()))
    }

    /// Creates a partition for a replay, which writes to the shadow tables of `store`.
    pub(crate) fn replayed(store: Store, number: u32, partitions: u32) -> Partition {
        let origin = Origin { partition: number, partitions };
        Partition::of(store, origin, Audience::Replay(HashSet::new()))
    }

    fn of(store: Store, origin: Origin, audience: Audience) -> Partition {
        let stream = StreamName::Inbox(origin.partition);
        Partition { store, stream, origin, audience, position: 0, erased: Erased::new() }
    }

    /// Projects until the process stops.
    pub(crate) async fn follow(mut self, log: EventLog, tasks: Tasks) -> anyhow::Result<()> {
        let token = tasks.token();
        while let Some(ended) = token.run_until_cancelled(self.follow_from_checkpoint(&log)).await {
            ended?;
            token.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
        Ok(())
    }

    /// Projects from the checkpoint. Returns Ok if it must restart from the checkpoint; an error is permanent.
    async fn follow_from_checkpoint(&mut self, log: &EventLog) -> anyhow::Result<()> {
        if let Err(error) = self.load().await {
            return self.retry_later(&error);
        }
        let mut reader = log.reader(self.stream, self.position + 1);
        loop {
            let records = match reader.next_batch(BATCH, LINGER).await {
                Ok(records) => records,
                Err(error) if error.is_permanent() => {
                    return Err(error).context("cannot project the inbox");
                }
                Err(error) => return self.retry_later(&error),
            };
            match self.project(&records).await {
                Ok(Projected::Yes) => {}
                Ok(Projected::Overtaken) => return Ok(()),
                Err(Failure::Store(error)) => return self.retry_later(&error),
                Err(Failure::Newer { seq, cause }) => {
                    self.wait_for_newer(seq, &cause).await;
                    return Ok(());
                }
            }
        }
    }

    /// Reads the checkpoint and the erased users from the database.
    pub(crate) async fn load(&mut self) -> Result<(), store::Error> {
        self.position = self.store.inbox().checkpoint(INBOX, self.stream).await?;
        let erased = self.store.erasure().erased_users().await?;
        self.erased = erased.into_iter().filter(|&(app, user)| self.origin.owns(app, user)).collect();
        Ok(())
    }

    pub(crate) fn stream(&self) -> StreamName {
        self.stream
    }

    /// Last sequence committed.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns and forgets the users whose inboxes a replay has written since the last call. Empty in the live projection.
    pub(crate) fn take_written(&mut self) -> HashSet<(AppId, UserNumber)> {
        match &mut self.audience {
            Audience::Live(_) => HashSet::new(),
            Audience::Replay(written) => std::mem::take(written),
        }
    }

    fn retry_later(&self, error: &dyn std::error::Error) -> anyhow::Result<()> {
        tracing::warn!(stream = %self.stream, %error, "cannot project events; trying again");
        Ok(())
    }

    /// Pauses, so that an instance of a newer release can take over the partition.
    async fn wait_for_newer(&self, seq: u64, cause: &DecodeError) {
        counter!(NEWER_EVENTS, "type" => cause.kind().to_owned()).increment(1);
        tracing::error!(stream = %self.stream, seq, %cause, "the partition waits for a newer release");
        tokio::time::sleep(NEWER_PAUSE).await;
    }

    pub(crate) async fn project(&mut self, records: &[Record]) -> Result<Projected, Failure> {
        let mut rest = records;
        while !rest.is_empty() {
            let folded = self.fold(rest)?;
            rest = &rest[folded.records.len()..];
            let mut projected = self.write(&folded, Repeats::Unexpected).await;
            if is_refused(&projected) {
                projected = self.write(&folded, Repeats::Skipped).await;
            }
            if is_refused(&projected) {
                projected = self.project_singly(folded.records).await;
            }
            if projected? == Projected::Overtaken {
                return Ok(Projected::Overtaken);
            }
        }
        Ok(Projected::Yes)
    }

    /// Folds as many records from the front as fit into one transaction.
    fn fold<'a>(&mut self, records: &'a [Record]) -> Result<Folded<'a>, Failure> {
        let mut fold = Fold::default();
        let mut dead = Vec::new();
        let mut taken = 0;
        let mut bytes = 0;
        for record in records {
            if fold.weight() >= ROWS || bytes >= BYTES {
                break;
            }
            bytes += json_memory(&record.payload);
            match Envelope::decode(&record.payload) {
                Ok(envelope) => {
                    if let Err(unfit) = fold.push(self.origin, record.seq, &envelope, &mut self.erased) {
                        dead.push((record, unfit.to_string()));
                    }
                }
                Err(DecodeError::UnknownType(kind)) => counter!(UNKNOWN_EVENTS, "type" => kind).increment(1),
                // The events before it can still be projected.
                Err(DecodeError::Newer { .. }) if taken > 0 => break,
                Err(cause @ DecodeError::Newer { .. }) => {
                    return Err(Failure::Newer { seq: record.seq, cause });
                }
                Err(malformed) => dead.push((record, malformed.to_string())),
            }
            taken += 1;
        }
        Ok(Folded { records: &records[..taken], fold, dead })
    }

    /// Projects events one by one to find those that PostgreSQL rejects. Such an event is dead-lettered after five tries.
    async fn project_singly(&mut self, records: &[Record]) -> Result<Projected, Failure> {
        for record in records {
            let folded = self.fold(std::slice::from_ref(record))?;
            let mut projected = self.write(&folded, Repeats::Skipped).await;
            while let Err(Failure::Store(error)) = &projected
                && error.is_refused_data()
            {
                let cause = error.to_string();
                let failures = self.store.database().count_failure(self.stream, record.seq, &cause).await?;
                projected = if failures < MAX_FAILURES {
                    self.write(&folded, Repeats::Skipped).await
                } else {
                    let dead = vec![(record, cause)];
                    let folded = Folded { records: folded.records, fold: Fold::default(), dead };
                    self.write(&folded, Repeats::Skipped).await
                };
            }
            if projected? == Projected::Overtaken {
                return Ok(Projected::Overtaken);
            }
        }
        Ok(Projected::Yes)
    }

    async fn write(&mut self, folded: &Folded<'_>, repeats: Repeats) -> Result<Projected, Failure> {
        let Some(last) = folded.records.last().map(|record| record.seq) else {
            return Ok(Projected::Yes);
        };
        let Some(mut batch) = self.store.inbox().project(self.stream, self.position, last).await? else {
            return Ok(Projected::Overtaken);
        };
        apply(&folded.fold, &mut batch, repeats).await?;
        for (record, cause) in &folded.dead {
            counter!(DEAD_EVENTS, "stream" => self.stream.to_string()).increment(1);
            tracing::error!(stream = %self.stream, seq = record.seq, cause, "an event cannot be applied; dead-lettered it");
            batch.bury(self.stream, record.seq, &record.payload, cause).await?;
        }
        batch.commit().await?;
        self.position = last;
        self.announce(&folded.fold).await;
        Ok(Projected::Yes)
    }

    async fn announce(&mut self, fold: &Fold) {
        let log = match &mut self.audience {
            Audience::Live(log) => log,
            Audience::Replay(written) => return written.extend(users(fold)),
        };
        if let Err(error) = log.announce(self.stream, self.position).await {
            // Callers that wait also poll the checkpoint.
            tracing::debug!(stream = %self.stream, %error, "cannot announce the position");
        }
        let now = clock::now();
        for created_at in fold.created_at() {
            histogram!(ACCEPT_TO_INBOX_SECONDS).record(now.since(created_at).as_secs_f64());
        }
    }
}

fn is_refused(projected: &Result<Projected, Failure>) -> bool {
    matches!(projected, Err(Failure::Store(error)) if error.is_refused_data())
}
