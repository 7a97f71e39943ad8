//! Writing a folded batch of events into a transaction.

use domain::inbox::fold::{Change, Fold, ItemKey, Step, changed};
use store::inbox::projection::Batch;

/// Handling of items that the inbox may already have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// No item exists already: events are published twice only after a crash. If one does exist, the write fails.
    Unexpected,
    /// Some items may repeat; these stay unchanged.
    Skipped,
}

/// Writes the folded changes in the batch's transaction.
pub(crate) async fn apply(fold: &Fold, batch: &mut Batch, repeats: Repeats) -> Result<(), store::Error> {
    match repeats {
        Repeats::Unexpected => batch.add_new(fold.adds()).await?,
        Repeats::Skipped => batch.add(fold.adds()).await?,
    }
    for step in fold.steps() {
        match step {
            Step::Items(changes) => change_items(batch, changes).await?,
            Step::All(inbox) => batch.change_all(*inbox).await?,
            Step::Erasure(app, user) => batch.erase(*app, *user).await?,
        }
    }
    Ok(())
}

async fn change_items(batch: &mut Batch, changes: &[(ItemKey, Change)]) -> Result<(), store::Error> {
    let mut keys: Vec<ItemKey> = changes.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    keys.dedup();
    let before = batch.states(&keys).await?;
    batch.change(&changed(before, changes)).await
}
