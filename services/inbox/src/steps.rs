//! Changes of items that exist, written in the order of the log.

use domain::inbox::fold::{Fold, Step};
use domain::inbox::item_change::{Change, ItemKey, state_changes};
use store::inbox::projection;

pub(crate) async fn write_steps(
    rows: &mut projection::InboxTransaction,
    fold: &Fold,
) -> Result<(), store::Error> {
    for step in fold.steps() {
        match step {
            Step::Items(changes) => change_items(rows, changes).await?,
            Step::All(inbox) => rows.change_all(*inbox).await?,
            Step::Erasure(app, user) => rows.erase(*app, *user).await?,
        }
    }
    Ok(())
}

async fn change_items(
    rows: &mut projection::InboxTransaction,
    changes: &[(ItemKey, Change)],
) -> Result<(), store::Error> {
    let mut keys: Vec<ItemKey> = changes.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    keys.dedup();
    let before = rows.states(&keys).await?;
    rows.change(&state_changes(before, changes)).await
}
