//! Starting transactions.

use sqlx::{PgPool, Postgres, Transaction};

use crate::{Error, Store};

impl Store {
    /// Calls [`begin`] with the store's pool.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Postgres>, Error> {
        begin(&self.pool).await
    }
}

/// Starts a transaction that is rolled back whenever it is dropped, even if the caller is cancelled during this call.
///
/// sqlx 0.9 does not roll back a `BEGIN` that is cancelled before its answer arrives: the connection returns to the pool inside
/// a transaction, and single statements that run on it later are never committed. So a separate task runs the `BEGIN` to its
/// end; if the caller was cancelled, the task drops the transaction, which rolls it back.
///
/// # Errors
/// No connection was free in time, or the connection broke.
pub(crate) async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, Error> {
    let pool = pool.clone();
    // Bounded by the time limit of the pool.
    let begun = tokio::spawn(async move { pool.begin().await });
    Ok(begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))?)
}
