//! Starting transactions.

use sqlx::{PgPool, Postgres, Transaction};

use crate::{Error, Store};

impl Store {
    /// Calls [`begin`] with the store's pool.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Postgres>, Error> {
        begin(&self.pool).await
    }
}

/// Starts a transaction that is rolled back if it is dropped without a commit, even if the caller is cancelled during this
/// call.
///
/// sqlx 0.9 does not roll back a `BEGIN` that is cancelled before its answer arrives: the connection returns to the pool with
/// an open transaction, and single statements that run on it later are never committed. Therefore a separate task runs `BEGIN`
/// to completion. If the caller is cancelled meanwhile, the transaction is dropped, which rolls it back.
///
/// # Errors
/// No connection was free in time, or the connection broke.
pub(crate) async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, Error> {
    let pool = pool.clone();
    // The pool's time limit for acquiring a connection also ends this task.
    let begun = tokio::spawn(async move { pool.begin().await });
    Ok(begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))?)
}
