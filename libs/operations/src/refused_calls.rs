//! The latest calls of an app that the API refused.

use domain::{AppId, Timestamp};
pub use store::control::refused_call::{KEPT, RefusedCall, RefusedCalls};

use crate::waiting::database;
use crate::{Caller, OperationError, Operations, Permission};

/// Position in the list, and the rows from there.
#[derive(Debug, Default)]
pub struct RefusedPage {
    pub calls: Vec<RefusedCalls>,
    /// Row after which the list continues; None at the end.
    pub next: Option<i64>,
}

/// Lists at most `limit` refused calls of an app, latest first: those for which `is_wanted` returns true, after the row `before`.
pub async fn page(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    before: Option<i64>,
    limit: usize,
    is_wanted: impl Fn(&RefusedCalls) -> bool,
) -> Result<RefusedPage, OperationError> {
    caller.may(Permission::View, app)?;
    let read = database(operations.store.control().refused_calls(app, KEPT)).await?;
    let is_after = |row: &RefusedCalls| before.is_none_or(|before| row.id < before);
    let mut calls: Vec<_> =
        read.into_iter().filter(is_after).filter(is_wanted).take(limit.saturating_add(1)).collect();
    let has_more = calls.len() > limit;
    calls.truncate(limit);
    let next = calls.last().filter(|_| has_more).map(|row| row.id);
    Ok(RefusedPage { calls, next })
}

/// Adds refused calls, each with their number and the time of the latest. The server of the API does this for itself, so no
/// caller needs a permission.
pub async fn add(
    operations: &Operations,
    calls: &[(RefusedCall, u32, Timestamp)],
) -> Result<(), OperationError> {
    Ok(operations.store.control().add_refused_calls(calls).await?)
}
