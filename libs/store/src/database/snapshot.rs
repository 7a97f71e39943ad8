//! Transactions because of which PostgreSQL keeps old versions of rows.

use std::time::Duration;

use crate::{Database, Error};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HolderKind {
    Session,
    /// A transaction that was prepared for a two-phase commit.
    Prepared,
    /// A replication slot, or a standby that sends feedback.
    Replication,
}

impl HolderKind {
    pub const ALL: [HolderKind; 3] = [HolderKind::Session, HolderKind::Prepared, HolderKind::Replication];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            HolderKind::Session => "session",
            HolderKind::Prepared => "prepared",
            HolderKind::Replication => "replication",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHolder {
    pub kind: HolderKind,
    /// The same as long as the holder keeps its snapshot.
    pub key: String,
    /// None if PostgreSQL does not report the time, or not to this role.
    pub age: Option<Duration>,
}

impl Database<'_> {
    /// Lists the holders of this database. Leaves out vacuums, which keep no versions, and replication that is at most 1,000 transactions
    /// behind: on an idle server, its snapshot does not move.
    pub async fn snapshot_holders(self) -> Result<Vec<SnapshotHolder>, Error> {
        let rows = sqlx::query!(
            r#"SELECT backend_type = 'walsender' AS "is_replication!", false AS "is_prepared!",
                 concat_ws(' ', pid, backend_xid, backend_xmin, xact_start) AS "key!",
                 extract(epoch FROM clock_timestamp() - xact_start)::float8 AS age
               FROM pg_stat_activity a
               WHERE pid <> pg_backend_pid() AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)
                 AND CASE backend_type WHEN 'walsender' THEN age(backend_xmin) > 1000
                   WHEN 'autovacuum worker' THEN false ELSE datname = current_database() END
                 AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid)
               UNION ALL
               SELECT false, true, gid, extract(epoch FROM clock_timestamp() - prepared)::float8
               FROM pg_prepared_xacts WHERE database = current_database()
               UNION ALL
               SELECT true, false, concat_ws(' ', slot_name, xmin), NULL
               FROM pg_replication_slots WHERE age(xmin) > 1000"#
        )
        .fetch_all(&self.0.pool)
        .await?;
        let holders = rows.into_iter().map(|row| SnapshotHolder {
            kind: match (row.is_replication, row.is_prepared) {
                (true, _) => HolderKind::Replication,
                (_, true) => HolderKind::Prepared,
                _ => HolderKind::Session,
            },
            key: row.key,
            age: row.age.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok()),
        });
        Ok(holders.collect())
    }
}
