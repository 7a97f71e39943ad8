//! Refuses a connection pooler that passes sessions of PostgreSQL from one client to another.
//!
//! Tidings sets time limits for its sessions, takes advisory locks in them and keeps prepared statements there. In transaction or
//! statement mode, a pooler such as PgBouncer gives each transaction another session, so all three would be lost or would
//! apply to other clients. In session mode a pooler changes nothing.

use sqlx::{PgConnection, PgPool, Row};

use crate::Error;

/// Looks several times, because other clients of the pooler take sessions meanwhile.
const ROUNDS: usize = 3;

/// Compares the sessions of two open connections, which differ and stay the same unless a pooler shares them.
///
/// # Errors
/// [`Error::SharedSessions`], or the database failed.
pub(crate) async fn refuse_shared_sessions(pool: &PgPool) -> Result<(), Error> {
    let (mut one, mut other) = (pool.acquire().await?, pool.acquire().await?);
    let first = session(&mut one).await?;
    for _ in 0..ROUNDS {
        // A pooler in transaction mode has a session free again, and hands out the one that was used last.
        let (second, again) = (session(&mut other).await?, session(&mut one).await?);
        if second == first || again != first {
            return Err(Error::SharedSessions);
        }
    }
    // The pool opens it again when it needs it.
    Ok(other.close().await?)
}

/// Process id of the server's session, asked for without a prepared statement.
async fn session(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}
