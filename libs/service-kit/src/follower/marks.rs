//! Marks of events under suspicion: their projection may have ended the process. See
//! `docs/decisions/0071-followers-skip-events-that-end-processes.md`.
//!
//! A process marks the first event that it projects after its start, and deletes the mark after the commit. A mark may belong to a process
//! that lives, so only one process at a time can add a mark, and withdraws it after two seconds, even if it is not done. A process that
//! finds marks waits for five seconds: if checkpoint and marks are then the same, the marks belong to processes that ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::StreamName;
use event_log::Record;
use store::Store;
use store::database::failure::Reader;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::singly::{events_alone, of_record};
use super::{EventBatch, Follower, Projection, ProjectionError, ProjectionResult, Repeats};
use crate::suspicion::MAX_ENDS;

/// After so many ends of processes, the divided message is skipped whole.
const MAX_DIVIDED: i32 = 2 * MAX_ENDS;
/// After so many ends of processes, an event of a divided message is skipped.
const MAX_ENDS_OF_EVENT: i32 = 2;
// Each process that ends with a mark of an event also leaves a mark of the message.
const _: () = assert!(MAX_ENDS + MAX_ENDS_OF_EVENT < MAX_DIVIDED);

/// Longest time for which a process that lives keeps a mark.
const HELD: Duration = Duration::from_secs(2);
/// After this time, the marks that are left belong to processes that ended.
const SETTLED: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    Together,
    Alone,
    Divided,
    Skip,
    /// Another process may be projecting the events.
    Later,
}

#[derive(Debug)]
struct Mark {
    seq: u64,
    care: Care,
    is_withdrawn: Arc<AtomicBool>,
    /// Dropped to end the task that withdraws the mark after a time.
    _held: oneshot::Sender<()>,
}

#[derive(Debug)]
pub(super) struct Marks {
    store: Store,
    reader: Reader,
    marked: Option<Mark>,
    /// Message that another process had marked, and the number of its marks, after the wait.
    settled: Option<(u64, i32)>,
    /// True until the process has committed the events of a read.
    is_new: bool,
    /// Last message that is projected alone.
    alone_until: u64,
}

impl Marks {
    pub(super) fn new(store: Store, projection: &'static str, stream: StreamName) -> Marks {
        let reader = Reader::projection(projection, stream);
        Marks { store, reader, marked: None, settled: None, is_new: true, alone_until: 0 }
    }

    /// Marks the first message of a read, if it is the first read of the process or a message is under suspicion.
    async fn begin(&mut self, first: u64, last: u64) -> Result<Care, store::Error> {
        if !self.is_new && first > self.alone_until {
            return Ok(Care::Together);
        }
        if let Some(mark) = self.marked.as_ref().filter(|mark| mark.seq == first) {
            return Ok(mark.care);
        }
        self.withdraw().await?;
        let ends = self.store.database().unended_handlings(self.reader, first).await?;
        if ends > 0 && self.settled != Some((first, ends)) {
            self.settled = Some((first, ends));
            return Ok(Care::Later);
        }
        if ends > 0 && first > self.alone_until {
            tracing::warn!(
                projection = self.reader.projection, stream = %self.reader.stream, first, last, ends,
                "processes ended while they projected an event; projecting the next events one by one"
            );
            self.alone_until = last;
        }
        let care = match ends {
            MAX_DIVIDED.. => Care::Skip,
            MAX_ENDS.. => Care::Divided,
            _ if first <= self.alone_until => Care::Alone,
            _ => Care::Together,
        };
        if !self.store.database().begin_handling_after(self.reader, first, ends).await? {
            self.settled = None;
            return Ok(Care::Later);
        }
        self.marked = Some(self.hold(first, care));
        Ok(care)
    }

    /// The mark is withdrawn after a time, unless it is dropped before.
    fn hold(&self, seq: u64, care: Care) -> Mark {
        let (held, dropped) = oneshot::channel();
        let (store, reader, is_withdrawn) =
            (self.store.clone(), self.reader, Arc::new(AtomicBool::new(false)));
        let withdrawn = Arc::clone(&is_withdrawn);
        tokio::spawn(async move {
            if timeout(HELD, dropped).await.is_err()
                && !withdrawn.swap(true, Ordering::Relaxed)
                && let Err(error) = store.database().end_handling(reader, seq).await
            {
                tracing::debug!(stream = %reader.stream, seq, %error, "cannot withdraw a mark; it counts as that of a process that ended");
            }
        });
        Mark { seq, care, is_withdrawn, _held: held }
    }

    /// Returns false if the event has ended too many processes.
    async fn begin_event(&self, seq: u64, event: usize) -> Result<bool, store::Error> {
        let (database, reader) = (self.store.database(), Reader { event: Some(event), ..self.reader });
        if database.unended_handlings(reader, seq).await? >= MAX_ENDS_OF_EVENT {
            return Ok(false);
        }
        database.begin_handling(reader, seq).await?;
        Ok(true)
    }

    async fn end_event(&self, seq: u64, event: usize) -> Result<(), store::Error> {
        let reader = Reader { event: Some(event), ..self.reader };
        self.store.database().end_handling(reader, seq).await
    }

    fn are_active(&self) -> bool {
        self.is_new || self.marked.is_some()
    }

    async fn forget(&mut self, position: u64) -> Result<(), store::Error> {
        if self.marked.as_ref().is_some_and(|mark| mark.seq <= position) {
            self.store.database().forget_handlings(self.reader, position).await?;
            self.marked = None;
        }
        self.is_new = false;
        Ok(())
    }

    pub(super) async fn end(&mut self, position: u64) -> Result<(), store::Error> {
        self.forget(position).await?;
        self.withdraw().await
    }

    async fn withdraw(&mut self) -> Result<(), store::Error> {
        if let Some(mark) = self.marked.take()
            && !mark.is_withdrawn.swap(true, Ordering::Relaxed)
        {
            self.store.database().end_handling(self.reader, mark.seq).await?;
        }
        Ok(())
    }
}

impl<P: Projection> Follower<P> {
    pub(super) async fn project_marked(
        &mut self,
        records: &[Record],
    ) -> Result<ProjectionResult, ProjectionError> {
        let mut rest = records;
        while let [first, .., last] | [first @ last] = rest {
            let care = self.marks.begin(first.seq, last.seq).await?;
            let taken = if care == Care::Together { rest.len() } else { 1 };
            let projected = match care {
                Care::Together | Care::Alone => self.project(&rest[..taken]).await?,
                Care::Divided => self.project_divided(first).await?,
                Care::Skip => self.skip(first, first.seq).await?,
                Care::Later => {
                    sleep(SETTLED).await;
                    ProjectionResult::Overtaken
                }
            };
            if projected == ProjectionResult::Overtaken {
                return Ok(projected);
            }
            // A mark may go only when no process will project its event again.
            if self.marks.are_active() && self.store_position().await? == ProjectionResult::Overtaken {
                return Ok(ProjectionResult::Overtaken);
            }
            self.marks.forget(self.position).await?;
            rest = &rest[taken..];
        }
        Ok(ProjectionResult::Committed)
    }

    /// The checkpoint moves with the last event.
    async fn project_divided(&mut self, record: &Record) -> Result<ProjectionResult, ProjectionError> {
        let alone = events_alone(record);
        for (index, event) in alone.iter().enumerate() {
            let to = if index + 1 < alone.len() { self.position } else { record.seq };
            let is_safe = alone.len() > 1 && self.marks.begin_event(record.seq, index).await?;
            let projected = if is_safe {
                let (mut batch, _) = self.decode_batch(std::slice::from_ref(event))?;
                self.projection.prepare(&mut batch.events).await?;
                self.project_alone(record, EventBatch { to, ..of_record(batch, record) }).await?
            } else {
                self.skip(record, to).await?
            };
            if projected == ProjectionResult::Overtaken {
                return Ok(projected);
            }
            if is_safe {
                self.marks.end_event(record.seq, index).await?;
            }
        }
        Ok(ProjectionResult::Committed)
    }

    /// Dead-letters a message without reading it, and moves the checkpoint to `to`.
    async fn skip(&mut self, record: &Record, to: u64) -> Result<ProjectionResult, ProjectionError> {
        let cause = format!("{MAX_ENDS} processes ended while they projected this message");
        let (from, events) = (self.stored.0, P::Events::default());
        let batch = EventBatch { stream: self.stream, from, to, events, dead: vec![(record, cause)] };
        self.write(&batch, Repeats::Skipped).await
    }
}
