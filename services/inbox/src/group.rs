//! Small batches of several partitions, written in one transaction. Each batch alone would cost a commit, and at moderate load a partition
//! has few events at a time. A large batch is not grouped, because partitions that are written at once use several processors.

use std::sync::Arc;
use std::time::Duration;

use domain::StreamName;
use domain::inbox::fold::Fold;
use service_kit::Context;
use service_kit::follower::{EventBatch, Repeats};
use store::database::batch::Batcher;
use store::{Error, Store};

use crate::partition::{FoldedBatch, write_steps};

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
    /// None if the batch is to be written alone: it is large, the first of its partition, has events that cannot be applied, or was refused
    /// before.
    pub(crate) fn of(
        batch: &EventBatch<'_, FoldedBatch>,
        fold: &Arc<Fold>,
        repeats: Repeats,
    ) -> Option<SmallBatch> {
        let EventBatch { stream, from, to, .. } = *batch;
        let is_small = fold.weight() < LARGE && from > 0;
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

/// If PostgreSQL refuses the data of a batch, or the transaction waits for a lock too long, each batch is written alone.
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
