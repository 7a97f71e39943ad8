//! The beginning of a transaction.

use sqlx::{PgPool, Postgres, Transaction};

use crate::{Error, Store};

impl Store {
    /// As [`begin`], on the store's own pool.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Postgres>, Error> {
        begin(&self.pool).await
    }
}

/// Begins a transaction, which is rolled back however it is given up.
///
/// sqlx 0.9 does not roll back a `BEGIN` that is given up before its answer is there: the connection goes back to the pool
/// inside a transaction, and what others write on it afterwards, one statement each, is never committed. So the `BEGIN` is
/// carried through by a task of its own; the transaction of a caller that is gone is dropped there, and rolled back.
///
/// # Errors
/// There was no connection in time, or it broke.
pub(crate) async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, Error> {
    let pool = pool.clone();
    // Bounded by the time limit of the pool.
    let begun = tokio::spawn(async move { pool.begin().await });
    Ok(begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))?)
}
