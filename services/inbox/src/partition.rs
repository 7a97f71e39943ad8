use std::sync::Arc;
use std::time::Duration;

use domain::StreamName;
use domain::event::bundle::Part;
use domain::inbox::fold::{ErasedUsers, Fold, InboxPartition};
use domain::structure::json_memory;
use event_log::EventLog;
use metrics::histogram;
use service_kit::follower::{EventBatch, Follower, Projection, Repeats};
use service_kit::metrics::ACCEPT_TO_INBOX_SECONDS;
use service_kit::{Context, clock};
use store::Store;
use store::inbox::projection::INBOX;

use crate::group::{Group, SmallBatch};
use crate::steps::write_steps;

const ROWS: usize = 1_000;
const BYTES: usize = 16 * 1024 * 1024;

pub(crate) struct PartitionProjection {
    store: Store,
    origin: InboxPartition,
    audience: Audience,
    /// Read together with the checkpoint; each erasure event adds its user. User numbers are never reused, so every event of such a user is
    /// dropped, even an event from before the erasure.
    erased: ErasedUsers,
}

enum Audience {
    Live(EventLog, Group),
    Replay,
}

#[derive(Default)]
pub(crate) struct FoldedBatch {
    /// Not shared before it is written.
    fold: Arc<Fold>,
    bytes: usize,
}

impl PartitionProjection {
    pub(crate) fn live(context: &Context, group: &Group, number: u32) -> Follower<PartitionProjection> {
        let origin = InboxPartition { partition: number, partitions: context.partitions };
        let audience = Audience::Live(context.log.clone(), group.clone());
        PartitionProjection::follower(context.store.clone(), origin, audience)
    }

    pub(crate) fn replayed(store: Store, number: u32, partitions: u32) -> Follower<PartitionProjection> {
        let origin = InboxPartition { partition: number, partitions };
        PartitionProjection::follower(store, origin, Audience::Replay)
    }

    fn follower(store: Store, origin: InboxPartition, audience: Audience) -> Follower<PartitionProjection> {
        let partition =
            PartitionProjection { store: store.clone(), origin, audience, erased: ErasedUsers::new() };
        Follower::new(store, StreamName::Inbox(origin.partition), partition)
    }
}

impl Projection for PartitionProjection {
    const NAME: &'static str = INBOX;
    const PACE: Duration = Duration::from_millis(8);
    type Events = FoldedBatch;

    async fn load(&mut self) -> Result<(), store::Error> {
        let erased = self.store.erasure().erased_users().await?;
        self.erased = erased.into_iter().filter(|&(app, user)| self.origin.owns(app, user)).collect();
        Ok(())
    }

    fn add(&mut self, folded: &mut FoldedBatch, seq: u64, part: Part) -> Result<(), String> {
        folded.bytes += json_memory(&part.message);
        let fold = Arc::get_mut(&mut folded.fold).ok_or("the batch is being written")?;
        let pushed = fold.push(self.origin, seq, &part.envelope, &mut self.erased);
        pushed.map_err(|error| error.to_string())
    }

    fn is_full(folded: &FoldedBatch) -> bool {
        folded.fold.weight() >= ROWS || folded.bytes >= BYTES
    }

    async fn write(
        &self,
        batch: &EventBatch<'_, FoldedBatch>,
        repeats: Repeats,
    ) -> Result<bool, store::Error> {
        let fold = &batch.events.fold;
        if let Audience::Live(_, group) = &self.audience
            && let Some(small) = SmallBatch::of(batch, fold, repeats)
        {
            match group.call(small).await.flatten() {
                // The others must not wait for a partition that another process has locked. If the group's write is still under way, the
                // checkpoint decides which of the two is done.
                Err(error) if error.is_lock_timeout() || error.is_unanswered() => {}
                written => return written,
            }
        }
        let Some(mut rows) = self.store.inbox().project(batch.stream, batch.from, batch.to).await? else {
            return Ok(false);
        };
        match repeats {
            Repeats::Unexpected => rows.add_new(fold.adds()).await?,
            Repeats::Skipped => rows.add(fold.adds()).await?,
        }
        write_steps(&mut rows, fold).await?;
        for (record, cause) in &batch.dead {
            rows.dead_letter(batch.stream, record.seq, &record.payload, cause).await?;
        }
        rows.commit().await?;
        Ok(true)
    }

    async fn announce(&mut self, FoldedBatch { fold, .. }: &FoldedBatch, position: u64) {
        let log = match &mut self.audience {
            Audience::Live(log, _) => log,
            Audience::Replay => return,
        };
        let stream = StreamName::Inbox(self.origin.partition);
        if let Err(error) = log.announce(stream, position).await {
            // Continue: requests that wait for this position also read the checkpoint.
            tracing::debug!(%stream, %error, "cannot announce a new checkpoint; waiting requests read it from the database instead");
        }
        let now = clock::now();
        for created_at in fold.created_at() {
            histogram!(ACCEPT_TO_INBOX_SECONDS).record(now.since(created_at).as_secs_f64());
        }
    }
}
