//! Sessions of other Tidings processes on the database.

use sqlx::Row;

use crate::database::connection::APPLICATION;
use crate::{Error, Recovery};

/// A session of a Tidings process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Process id of the session's backend, for `pg_terminate_backend`.
    pub pid: i32,
    /// IP address of the client; None for a Unix socket or if the own role may not read it.
    pub address: Option<String>,
}

impl Recovery<'_> {
    /// Returns the sessions of services and commands on this database, except the own one. Call this first: it would also
    /// return further connections of the own pool.
    pub async fn other_sessions(self) -> Result<Vec<Session>, Error> {
        let rows = sqlx::query(
            "SELECT pid, host(client_addr) AS address FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid() ORDER BY pid",
        )
        .bind(APPLICATION)
        .fetch_all(&self.0.pool)
        .await?;
        rows.iter()
            .map(|row| Ok(Session { pid: row.try_get("pid")?, address: row.try_get("address")? }))
            .collect()
    }
}
