//! Who else works on the database.

use sqlx::Row;

use crate::database::connection::APPLICATION;
use crate::{Error, Store};

/// A session of a Tidings process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The server's process, which `pg_terminate_backend` ends.
    pub pid: i32,
    /// The address that it comes from; None for a socket of the server's own machine, and where the asker may not see it.
    pub address: Option<String>,
}

impl Store {
    /// Sessions of services and commands on this database, other than the one that asks. To be asked first of all, while
    /// the pool has a single connection.
    ///
    /// # Errors
    /// The database failed.
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
