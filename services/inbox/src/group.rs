//! Small batches of several partitions, written in one transaction. Each batch alone would cost a commit, and at moderate load a partition
//! has few events at a time. A large batch is not grouped, because partitions that are written at once use several processors.

use std::sync::Arc;
use std::time::Duration;

use domain::StreamName;
use domain::inbox::fold::{Fold, Step};
use service_kit::Context;
use service_kit::follower::{EventBatch, Repeats};
use store::database::batch::Batcher;
use store::{Error, Store};

use crate::partition::FoldedBatch;
use crate::steps::write_steps;

/// Weight of a batch from which it is written alone.
const LARGE: usize = 64;
/// Time for which a batch waits for those of other partitions.
const GATHERING: Duration = Duration::from_millis(2);

/// A batch of a partition. Its write returns false if the checkpoint is not at `from`.
#[derive(Debug)]
pub(crate) struct SmallBatch {
    pub(crate) stream: StreamName,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) fold: Arc<Fold>,
}

pub(crate) type Group = Batcher<SmallBatch, Result<bool, Error>>;

impl SmallBatch {
    /// None if the batch is to be written alone: it is or may be large, is the first of its partition, has events that cannot be applied, or
    /// was refused before.
    pub(crate) fn of(
        batch: &EventBatch<'_, FoldedBatch>,
        fold: &Arc<Fold>,
        repeats: Repeats,
    ) -> Option<SmallBatch> {
        let EventBatch { stream, from, to, .. } = *batch;
        let changes_whole_inbox = |step: &Step| matches!(step, Step::All(_) | Step::Erasure(..));
        let is_small = fold.weight() < LARGE && from > 0 && !fold.steps().iter().any(changes_whole_inbox);
        let is_plain = batch.dead.is_empty() && repeats == Repeats::Unexpected;
        (is_small && is_plain).then(|| SmallBatch { stream, from, to, fold: Arc::clone(fold) })
    }
}

/// Starts the task that writes the batches of all partitions of this process.
pub(crate) fn start(context: &Context) -> Group {
    let store = context.store.clone();
    let most = context.partitions.max(1) as usize;
    let (group, running) = Batcher::gathering(most, GATHERING, move |batches: Vec<SmallBatch>| {
        let store = store.clone();
        async move { write(&store, batches).await }
    });
    context.spawn("inbox group", async move {
        running.await;
        Ok(())
    });
    group
}

/// If PostgreSQL refuses the data of a batch, each is written in a transaction of its own.
async fn write(store: &Store, mut batches: Vec<SmallBatch>) -> Result<Vec<Result<bool, Error>>, Error> {
    let places: Vec<_> = batches.iter().map(|batch| batch.stream).collect();
    // Processes that compete for the same partitions must lock their checkpoints in the same order.
    batches.sort_unstable_by_key(|batch| batch.stream.to_string());
    let mut written = match write_together(store, &batches).await {
        Ok(moved) => moved.into_iter().map(Ok).collect::<Vec<_>>(),
        Err(error) if error.is_unavailable() => return Err(error),
        Err(error) if batches.len() == 1 => vec![Err(error)],
        Err(_) => {
            let mut written = Vec::with_capacity(batches.len());
            for batch in &batches {
                let alone = write_together(store, std::slice::from_ref(batch)).await;
                written.push(alone.map(|moved| moved == [true]));
            }
            written
        }
    };
    let mut of_stream: Vec<_> = batches.iter().map(|batch| batch.stream).zip(written.drain(..)).collect();
    let answers = places.into_iter().map(|stream| {
        let place = of_stream.iter().position(|(of, _)| *of == stream);
        place.map_or(Ok(false), |place| of_stream.swap_remove(place).1)
    });
    Ok(answers.collect())
}

async fn write_together(store: &Store, batches: &[SmallBatch]) -> Result<Vec<bool>, Error> {
    let spans: Vec<_> = batches.iter().map(|batch| (batch.stream, batch.from, batch.to)).collect();
    let (mut rows, moved) = store.inbox().project_all(&spans).await?;
    let written = || batches.iter().zip(&moved).filter(|(_, moved)| **moved).map(|(batch, _)| &batch.fold);
    let items: Vec<_> = written().flat_map(|fold| fold.adds()).cloned().collect();
    rows.add_new(&items).await?;
    for fold in written() {
        write_steps(&mut rows, fold).await?;
    }
    rows.commit().await?;
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use domain::content::InAppContent;
    use domain::event::ItemsAdded;
    use domain::id::partition;
    use domain::inbox::fold::{ErasedUsers, InboxPartition};
    use domain::{AppId, Envelope, Event, SendId, Timestamp, UserNumber};
    use testkit::Installation;
    use uuid::Uuid;

    use super::*;

    const PARTITIONS: u32 = 4;
    const APP: AppId = AppId(1);
    const REFUSED: u128 = 7;

    /// An installation whose checkpoints are at sequence 1.
    async fn started() -> Installation {
        let installation = Installation::start(|config| config.streams.partitions = PARTITIONS).await;
        for number in 0..PARTITIONS {
            let projected = installation.context.store.inbox().project(StreamName::Inbox(number), 0, 1).await;
            projected.unwrap().unwrap().commit().await.unwrap();
        }
        installation
    }

    /// The event with sequence 2, which adds an item of this send for one user of the partition.
    fn batch(number: u32, send: u128) -> SmallBatch {
        let of_partition = |user: &UserNumber| partition(APP, *user, PARTITIONS) == number;
        let user = (1..).map(UserNumber).find(of_partition).unwrap();
        let added = ItemsAdded {
            created_at: Timestamp::from_millis(0),
            category_id: None,
            first: 0,
            contents: vec![InAppContent::default()],
            recipients: vec![(user, 0)],
        };
        let envelope = Envelope {
            id: Uuid::from_u128(send),
            app: APP,
            at: Timestamp::from_millis(0),
            send_id: Some(SendId(Uuid::from_u128(send))),
            caused_by: None,
            trace: None,
            event: Event::InboxItemsAdded(added),
        };
        let (mut fold, mut erased) = (Fold::default(), ErasedUsers::new());
        let origin = InboxPartition { partition: number, partitions: PARTITIONS };
        fold.push(origin, 2, &envelope, &mut erased).unwrap();
        SmallBatch { stream: StreamName::Inbox(number), from: 1, to: 2, fold: Arc::new(fold) }
    }

    async fn written(installation: &Installation, batches: Vec<SmallBatch>) -> Vec<Option<bool>> {
        let answers = write(&installation.context.store, batches).await.unwrap();
        answers.into_iter().map(Result::ok).collect()
    }

    #[tokio::test]
    async fn small_batches_of_several_partitions_share_a_commit() {
        let installation = started().await;
        let batches = vec![batch(3, 1), batch(0, 2), batch(2, 3)];
        assert_eq!(written(&installation, batches).await, [Some(true); 3]);
        assert_eq!(installation.count("SELECT count(*) FROM inbox_item").await, 3);
        assert_eq!(installation.count("SELECT count(DISTINCT xmin::text) FROM inbox_item").await, 1);
        assert_eq!(installation.count("SELECT count(*) FROM checkpoint WHERE seq = 2").await, 3);
        assert_eq!(installation.count("SELECT sum(total)::bigint FROM inbox_counter").await, 3);
    }

    #[tokio::test]
    async fn a_partition_that_another_process_has_projected_is_left_out() {
        let installation = started().await;
        assert_eq!(written(&installation, vec![batch(1, 1)]).await, [Some(true)]);
        let batches = vec![batch(2, 2), batch(1, 1), batch(0, 3)];
        assert_eq!(written(&installation, batches).await, [Some(true), Some(false), Some(true)]);
        assert_eq!(installation.count("SELECT count(*) FROM inbox_item").await, 3);
    }

    /// The time is far below the `lock_timeout` of sessions, after which other partitions would give up waiting for the group.
    #[tokio::test]
    async fn a_single_batch_waits_only_briefly_for_its_partition() {
        let installation = started().await;
        let mut other = installation.pool.begin().await.unwrap();
        sqlx::query("UPDATE checkpoint SET seq = seq").execute(&mut *other).await.unwrap();
        let writing = write(&installation.context.store, vec![batch(1, 1)]);
        let error = tokio::time::timeout(Duration::from_secs(5), writing).await.unwrap().unwrap_err();
        assert!(error.is_lock_timeout(), "{error}");
    }

    #[tokio::test]
    async fn a_batch_that_is_refused_holds_up_no_other() {
        let installation = started().await;
        let refuse = "ALTER TABLE inbox_item ADD CHECK (send_id <> '00000000-0000-0000-0000-000000000007')";
        sqlx::raw_sql(refuse).execute(&installation.pool).await.unwrap();
        let batches = vec![batch(0, 1), batch(3, REFUSED), batch(2, 3)];
        assert_eq!(written(&installation, batches).await, [Some(true), None, Some(true)]);
        assert_eq!(installation.count("SELECT count(*) FROM inbox_item").await, 2);
        assert_eq!(installation.count("SELECT count(*) FROM checkpoint WHERE seq = 1").await, 2);
    }
}
