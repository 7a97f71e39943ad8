//! The checkpoint in the database, which may be behind the position in memory while events write no rows.

use std::time::Duration;

use event_log::{EventLog, Record};
use tokio::time::Instant;

use super::{EventBatch, Follower, Projection, ProjectionError, ProjectionResult, Repeats};

/// Longest time for which the checkpoint may stay behind events that wrote no rows.
pub(super) const STORED_EACH: Duration = Duration::from_secs(1);

impl<P: Projection> Follower<P> {
    pub(super) async fn project_and_store(
        &mut self,
        records: &[Record],
    ) -> Result<ProjectionResult, ProjectionError> {
        let projected = self.project_marked(records).await;
        let is_due = match projected {
            Ok(ProjectionResult::Committed) => self.stored.1.elapsed() >= STORED_EACH,
            // The follower starts again from the checkpoint.
            Err(ProjectionError::Newer { .. }) => true,
            _ => false,
        };
        if is_due && self.store_position().await? == ProjectionResult::Overtaken {
            return Ok(ProjectionResult::Overtaken);
        }
        projected
    }

    /// Moves the checkpoint past events that wrote no rows.
    pub(super) async fn store_position(&mut self) -> Result<ProjectionResult, ProjectionError> {
        let (from, to) = (self.stored.0, self.position);
        if from >= to {
            return Ok(ProjectionResult::Committed);
        }
        let batch = EventBatch { stream: self.stream, from, to, events: P::Events::default(), dead: vec![] };
        if !self.projection.write(&batch, Repeats::Unexpected).await? {
            return Ok(ProjectionResult::Overtaken);
        }
        self.stored = (to, Instant::now());
        Ok(ProjectionResult::Committed)
    }

    /// Stores the first checkpoint, before the first event that the log holds. From then on, the janitor keeps the events after it. It may
    /// have decided before to remove more, so a checkpoint that has not moved yet is stored again.
    pub(super) async fn start_late(&self, log: &EventLog) -> anyhow::Result<()> {
        let database = self.store.database();
        if database.has_left_start(P::NAME, self.stream).await? {
            return Ok(());
        }
        let removed = log.state(self.stream).await?.first_seq.saturating_sub(1);
        if database.start_checkpoint(P::NAME, self.stream, removed).await? && removed > 0 {
            tracing::info!(
                projection = P::NAME, stream = %self.stream, first = removed + 1,
                "the log has removed events before this first start; starting with the first event that it holds"
            );
        }
        Ok(())
    }

    pub(super) async fn is_at_start(&self) -> bool {
        P::STARTS_LATE
            && matches!(self.store.database().has_left_start(P::NAME, self.stream).await, Ok(false))
    }
}
