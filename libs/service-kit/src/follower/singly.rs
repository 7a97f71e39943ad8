//! Events that are projected one by one, because PostgreSQL refused them together.

use domain::event::bundle;
use event_log::Record;
use store::database::failure::MAX_FAILURES;

use super::{EventBatch, Follower, Projection, ProjectionError, ProjectionResult, Repeats};

impl<P: Projection> Follower<P> {
    /// After five rejections by PostgreSQL, an event is dead-lettered. The checkpoint moves with the last event of a message.
    pub(super) async fn project_singly(
        &mut self,
        records: &[Record],
    ) -> Result<ProjectionResult, ProjectionError> {
        for record in records {
            let alone = events_alone(record);
            for (index, event) in alone.iter().enumerate() {
                let (mut batch, _) = self.decode_batch(std::slice::from_ref(event))?;
                if index + 1 < alone.len() {
                    batch.to = self.position;
                }
                self.projection.prepare(&mut batch.events).await?;
                if self.project_alone(record, of_record(batch, record)).await? == ProjectionResult::Overtaken
                {
                    return Ok(ProjectionResult::Overtaken);
                }
            }
        }
        Ok(ProjectionResult::Committed)
    }

    pub(super) async fn project_alone<'a>(
        &mut self,
        record: &'a Record,
        mut batch: EventBatch<'a, P::Events>,
    ) -> Result<ProjectionResult, ProjectionError> {
        // The checkpoint in the database may have moved with the previous event of the message.
        batch.from = self.stored.0;
        let mut projected = self.write(&batch, Repeats::Skipped).await;
        while let Err(ProjectionError::Store(error)) = &projected
            && error.is_refused_data()
        {
            let cause = error.to_string();
            if self.store.database().count_failure(self.stream, record.seq, &cause).await? >= MAX_FAILURES {
                batch = EventBatch { events: P::Events::default(), dead: vec![(record, cause)], ..batch };
            }
            projected = self.write(&batch, Repeats::Skipped).await;
        }
        projected
    }
}

/// Stores the whole message for a dead event, because a second dead event of the message has no row of its own.
pub(super) fn of_record<'a, E>(mut batch: EventBatch<'a, E>, record: &'a Record) -> EventBatch<'a, E> {
    for (dead, _) in &mut batch.dead {
        *dead = record;
    }
    batch
}

pub(super) fn events_alone(record: &Record) -> Vec<Record> {
    match bundle::decode(&record.payload) {
        Ok(parts) => {
            parts.into_iter().map(|part| Record { payload: part.message, ..record.clone() }).collect()
        }
        Err(_) => vec![record.clone()],
    }
}
