//! Detection of poolers that share PostgreSQL sessions between clients.
//!
//! Tidings keeps time limits, advisory locks and prepared statements in its sessions. In transaction or statement mode, a pooler such as
//! PgBouncer may run each transaction in a different session, so these would be lost or affect other clients. Session mode is supported.

use sqlx::{PgConnection, PgPool, Row};

use crate::Error;

/// One comparison can miss a shared session, because another client of the pooler may use the session between two queries.
const ROUNDS: usize = 3;

pub(crate) async fn refuse_shared_sessions(pool: &PgPool) -> Result<(), Error> {
    let mut one = pool.acquire().await?;
    let mut other = pool.acquire().await?;
    let first = session(&mut one).await?;
    for _ in 0..ROUNDS {
        // A pooler in transaction mode picks the session that was released last. Here, that is the session that `one` has
        // just used.
        let second = session(&mut other).await?;
        let again = session(&mut one).await?;
        if second == first || again != first {
            return Err(Error::SharedSessions);
        }
    }
    // The second connection was needed only for the comparison. The pool opens a new one on demand.
    Ok(other.close().await?)
}

/// Prepares no statement, for the reason given at [`installation::identity`](crate::database::installation::identity).
async fn session(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}
