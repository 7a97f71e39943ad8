//! Sessions of other Tidings processes on the database.

use sqlx::Row;

use crate::database::connection::APPLICATION;
use crate::{Error, Store};

/// A session of a Tidings process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Process id of the server's backend; `pg_terminate_backend` ends it.
    pub pid: i32,
    /// The client's address; None for a Unix socket, and if the asking role may not see it.
    pub address: Option<String>,
}

impl Store {
    /// Returns the sessions of services and commands on this database, other than this one. Call it first, while the pool
    /// has a single connection.
    pub async fn other_sessions(&self) -> Result<Vec<Session>, Error> {
        let rows = sqlx::query(
            "SELECT pid, host(client_addr) AS address FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid() ORDER BY pid",
        )
        .bind(APPLICATION)
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| Ok(Session { pid: row.try_get("pid")?, address: row.try_get("address")? }))
            .collect()
    }
}
