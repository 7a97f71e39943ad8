//! Detection of poolers that share PostgreSQL sessions between clients.
//!
//! Tidings sets time limits for its sessions, takes advisory locks in them and keeps prepared statements there. In transaction or
//! statement mode, a pooler such as PgBouncer gives each transaction another session, so all three would be lost or would
//! affect other clients. A pooler in session mode is fine.

use sqlx::{PgConnection, PgPool, Row};

use crate::Error;

/// Number of comparisons: several, because other clients of the pooler may take a session in between.
const ROUNDS: usize = 3;

/// Compares the sessions of two open connections: without a sharing pooler they differ and stay the same.
///
/// # Errors
/// [`Error::SharedSessions`], or the database failed.
pub(crate) async fn refuse_shared_sessions(pool: &PgPool) -> Result<(), Error> {
    let mut one = pool.acquire().await?;
    let mut other = pool.acquire().await?;
    let first = session(&mut one).await?;
    for _ in 0..ROUNDS {
        // A pooler in transaction mode hands out the session that was used last, which is free again.
        let second = session(&mut other).await?;
        let again = session(&mut one).await?;
        if second == first || again != first {
            return Err(Error::SharedSessions);
        }
    }
    // The pool reopens the connection when it needs it.
    Ok(other.close().await?)
}

/// Reads the process id of the server's session without a prepared statement.
async fn session(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}
