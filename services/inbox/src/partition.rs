//! One partition of the inbox, followed from its checkpoint.

use std::time::Duration;

use anyhow::Context as _;
use domain::event::DecodeError;
use domain::{Envelope, StreamName};
use event_log::Record;
use metrics::{counter, histogram};
use service_kit::metrics::{ACCEPT_TO_INBOX_SECONDS, DEAD_EVENTS, UNKNOWN_EVENTS};
use service_kit::{Context, clock};
use store::failure::MAX_FAILURES;
use store::projection::INBOX;

use crate::fold::{Erased, Fold, Origin, Repeats};

/// Events that are read at once, and how long to gather them.
const BATCH: usize = 500;
/// Rows of one transaction, beyond which no further event joins it.
const ROWS: usize = 1_000;
const LINGER: Duration = Duration::from_millis(2);
/// Pause after a failure of the database or the log.
const PAUSE: Duration = Duration::from_millis(200);

/// The projection of one partition.
pub(crate) struct Partition {
    context: Context,
    stream: StreamName,
    origin: Origin,
    /// Last sequence committed.
    position: u64,
    /// Read with the checkpoint, then followed event by event. A number is never used again, so that dropping what
    /// the log says of it is right for events from before the erasure too.
    erased: Erased,
}

/// What became of a batch.
#[derive(PartialEq, Eq)]
enum Projected {
    /// It is in the database.
    Yes,
    /// Another instance is ahead: start again from its checkpoint.
    Overtaken,
}

/// An event to set aside, and why.
type Dead<'a> = (&'a Record, String);

/// The events of one transaction, and what they come down to.
struct Folded<'a> {
    records: &'a [Record],
    fold: Fold,
    dead: Vec<Dead<'a>>,
}

/// Why a batch was not projected.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Store(#[from] store::Error),
    /// This release must be replaced before the partition can go on.
    #[error("event {seq}: {cause}")]
    Newer { seq: u64, cause: DecodeError },
}

impl Partition {
    pub(crate) fn new(context: &Context, number: u32) -> Partition {
        let origin = Origin { partition: number, partitions: context.partitions };
        let (context, stream) = (context.clone(), StreamName::Inbox(number));
        Partition { context, stream, origin, position: 0, erased: Erased::new() }
    }

    /// Projects until the process stops.
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
        if let Err(error) = self.load().await {
            return self.put_off(&error);
        }
        let mut reader = self.context.log.reader(self.stream, self.position + 1);
        loop {
            let records = match reader.next_batch(BATCH, LINGER).await {
                Ok(records) => records,
                Err(error) if error.is_permanent() => {
                    return Err(error).context("the inbox cannot be projected");
                }
                Err(error) => return self.put_off(&error),
            };
            match self.project(&records).await {
                Ok(Projected::Yes) => {}
                Ok(Projected::Overtaken) => return Ok(()),
                Err(Failure::Store(error)) => return self.put_off(&error),
                Err(newer @ Failure::Newer { .. }) => return Err(newer).context(self.stream.to_string()),
            }
        }
    }

    /// Learns from the database where to go on, and who is erased.
    async fn load(&mut self) -> Result<(), store::Error> {
        self.position = self.context.store.checkpoint(INBOX, self.stream).await?;
        let erased = self.context.store.erased_users().await?;
        self.erased = erased.into_iter().filter(|&(app, user)| self.origin.owns(app, user)).collect();
        Ok(())
    }

    fn put_off(&self, error: &dyn std::error::Error) -> anyhow::Result<()> {
        tracing::warn!(stream = %self.stream, %error, "projecting is put off");
        Ok(())
    }

    async fn project(&mut self, records: &[Record]) -> Result<Projected, Failure> {
        let mut rest = records;
        while !rest.is_empty() {
            let folded = self.fold(rest)?;
            rest = &rest[folded.records.len()..];
            let mut projected = self.write(&folded, Repeats::Unexpected).await;
            if is_refused(&projected) {
                projected = self.write(&folded, Repeats::LeftOut).await;
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

    /// Takes as many records from the front as one transaction holds.
    fn fold<'a>(&mut self, records: &'a [Record]) -> Result<Folded<'a>, Failure> {
        let (mut fold, mut dead, mut taken) = (Fold::default(), Vec::new(), 0);
        for record in records {
            if fold.weight() >= ROWS {
                break;
            }
            match Envelope::decode(&record.payload) {
                Ok(envelope) => {
                    if let Err(unfit) = fold.push(self.origin, record.seq, &envelope, &mut self.erased) {
                        dead.push((record, unfit.to_string()));
                    }
                }
                Err(DecodeError::UnknownType(kind)) => counter!(UNKNOWN_EVENTS, "type" => kind).increment(1),
                // What was before it still counts.
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

    /// Finds the event that the database refuses: it is tried five times by itself, then set aside.
    async fn project_singly(&mut self, records: &[Record]) -> Result<Projected, Failure> {
        for record in records {
            let folded = self.fold(std::slice::from_ref(record))?;
            let mut projected = self.write(&folded, Repeats::LeftOut).await;
            while let Err(Failure::Store(error)) = &projected
                && error.is_refused_data()
            {
                let cause = error.to_string();
                let failures = self.context.store.count_failure(self.stream, record.seq, &cause).await?;
                projected = if failures < MAX_FAILURES {
                    self.write(&folded, Repeats::LeftOut).await
                } else {
                    let (records, fold) = (folded.records, Fold::default());
                    let dead = vec![(record, cause)];
                    self.write(&Folded { records, fold, dead }, Repeats::LeftOut).await
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
        let Some(mut batch) = self.context.store.project(self.stream, self.position, last).await? else {
            return Ok(Projected::Overtaken);
        };
        folded.fold.apply(&mut batch, repeats).await?;
        for (record, cause) in &folded.dead {
            counter!(DEAD_EVENTS, "stream" => self.stream.to_string()).increment(1);
            tracing::error!(stream = %self.stream, seq = record.seq, cause, "an event is set aside");
            batch.bury(self.stream, record.seq, &record.payload, cause).await?;
        }
        batch.commit().await?;
        self.position = last;
        self.tell(&folded.fold).await;
        Ok(Projected::Yes)
    }

    async fn tell(&self, fold: &Fold) {
        if let Err(error) = self.context.log.announce(self.stream, self.position).await {
            // Whoever waits also polls the checkpoint.
            tracing::debug!(stream = %self.stream, %error, "the position is not announced");
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
