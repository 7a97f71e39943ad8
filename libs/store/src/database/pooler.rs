//! Detection of poolers that share PostgreSQL sessions between clients.
//!
//! Tidings sets time limits in its sessions, acquires advisory locks in them and keeps prepared statements in them. In
//! transaction or statement mode, a pooler such as PgBouncer may run each transaction in a different session. Time limits,
//! locks and statements would then be lost or affect other clients. Session mode is supported.

use sqlx::{PgConnection, PgPool, Row};

use crate::Error;

/// Number of comparisons. One is not enough: between two queries, another client of the pooler may use the shared session.
const ROUNDS: usize = 3;

/// Acquires two connections, and checks that their sessions differ and that the first connection keeps its session while the
/// second is used.
///
/// # Errors
/// Returns [`Error::SharedSessions`] if the connections share a session, or another error if the database fails.
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

/// Returns the process id of the PostgreSQL backend that serves the session. Does not prepare a statement.
async fn session(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}
