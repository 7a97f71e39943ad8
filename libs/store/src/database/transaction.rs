use std::time::Duration;

use sqlx::{AssertSqlSafe, PgPool, Postgres, Transaction};

use crate::{Error, Store};

impl Store {
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Postgres>, Error> {
        begin(&self.pool).await
    }

    /// The transaction waits for each lock at most this long. One request sets the limit and begins the transaction.
    pub(crate) async fn begin_with_limit(
        &self,
        of_locks: Duration,
    ) -> Result<Transaction<'static, Postgres>, Error> {
        let limit = of_locks.as_millis();
        begin_with(&self.pool, format!("BEGIN; SET LOCAL lock_timeout = '{limit}ms'")).await
    }
}

/// Starts a transaction, which is rolled back if it is dropped without a commit, or if the caller's future is dropped during this call.
///
/// A separate task runs `BEGIN` to completion, because of a defect in sqlx 0.9: if `BEGIN` is cancelled before PostgreSQL answers, sqlx
/// returns the connection to the pool with an open transaction, and later statements on this connection would never be committed.
pub(crate) async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, Error> {
    begin_with(pool, "BEGIN".to_owned()).await
}

async fn begin_with(pool: &PgPool, statement: String) -> Result<Transaction<'static, Postgres>, Error> {
    let pool = pool.clone();
    // The task always ends, because the pool limits the time to acquire a connection.
    let begun = tokio::spawn(async move { pool.begin_with(AssertSqlSafe(statement)).await });
    Ok(begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))?)
}
