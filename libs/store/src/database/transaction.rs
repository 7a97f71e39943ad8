//! Functions that start transactions.

use sqlx::{PgPool, Postgres, Transaction};

use crate::{Error, Store};

impl Store {
    /// Calls [`begin`] with the store's pool.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Postgres>, Error> {
        begin(&self.pool).await
    }
}

/// Starts a transaction. If the transaction is dropped without a commit, it is rolled back. The same happens if the caller's
/// future is dropped during this call.
///
/// A separate task runs `BEGIN` to completion, because of a defect in sqlx 0.9. If `BEGIN` is cancelled before PostgreSQL
/// answers, sqlx returns the connection to the pool with an open transaction. Later statements on this connection would never
/// be committed. With the separate task, `BEGIN` always completes. If the caller's future was dropped meanwhile, the
/// transaction is dropped and rolled back.
///
/// # Errors
/// Returns an error if no connection becomes free within the pool's time limit, or if the connection breaks.
pub(crate) async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, Error> {
    let pool = pool.clone();
    // The task always ends, because the pool limits the time to acquire a connection.
    let begun = tokio::spawn(async move { pool.begin().await });
    Ok(begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))?)
}
