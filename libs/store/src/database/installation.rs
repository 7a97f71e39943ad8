//! The installation that this database belongs to: its log streams and inbox partitions, and the identity of the database.

use std::collections::HashMap;
use std::time::Duration;

use domain::{StreamName, Timestamp};
use sqlx::{Connection as _, PgConnection, Row};
use tokio::time::timeout;

use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::{Database, Error};

/// A stream of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownStream {
    pub name: StreamName,
    /// Time at which the log server created the stream. A stream that is created again under the same name has another
    /// time.
    pub created_at: Timestamp,
}

/// Identity of a database: the system identifier of the cluster, the OID of the database, and the OID of the table
/// `installation`. A restored dump has another identity, even if it is restored into its original database; a physical copy
/// has the same identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseIdentity {
    pub(crate) system_identifier: i64,
    pub(crate) database_oid: i64,
    /// OID of the table `installation`; None before the schema exists.
    pub(crate) table_oid: Option<i64>,
}

impl DatabaseIdentity {
    /// Returns true if both identify the same database. The OIDs of the table are compared only if both are present.
    pub(crate) fn is_still(self, other: DatabaseIdentity) -> bool {
        let place = |identity: DatabaseIdentity| (identity.system_identifier, identity.database_oid);
        let tables = self.table_oid.zip(other.table_oid);
        place(self) == place(other) && tables.is_none_or(|(one, other)| one == other)
    }
}

/// Time limit for opening the session and acquiring the lock together.
const LOCK_LIMIT: Duration = Duration::from_secs(60);

/// Lock on the preparation of the installation, released on drop.
#[derive(Debug)]
pub struct PreparationLock {
    /// Session that holds the advisory lock. The statements of the preparation run in sessions of the pool.
    _session: PgConnection,
}

/// Result of comparing the database recorded in the installation with the actual database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedDatabase {
    /// The recorded database is this one.
    Here,
    /// Another database is recorded: this one was restored from a backup.
    Elsewhere,
    /// A restore from the log is running or was interrupted.
    HalfRestored,
    /// No database is recorded, or only a part of its identity is.
    Nowhere,
}

/// A position in a stream. The effects of all messages up to this position are committed in this database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMark {
    pub stream: StreamName,
    pub seq: u64,
    /// Time at which the position was read.
    pub at: Timestamp,
}

impl Database<'_> {
    /// Compares the database recorded in the installation with this one.
    pub async fn recorded_database(self) -> Result<RecordedDatabase, Error> {
        let mut connection = self.0.pool.acquire().await?;
        let actual = identity(&mut connection).await?;
        let row = sqlx::query!("SELECT system_identifier, database_oid, table_oid FROM installation")
            .fetch_optional(&mut *connection)
            .await?;
        let Some(row) = row else { return Ok(RecordedDatabase::Nowhere) };
        let recorded = [row.system_identifier, row.database_oid, row.table_oid];
        if recorded[..2] == [Some(0); 2] {
            return Ok(RecordedDatabase::HalfRestored);
        }
        let actual = [Some(actual.system_identifier), Some(actual.database_oid), actual.table_oid];
        let matches =
            recorded.iter().zip(&actual).all(|(recorded, actual)| recorded.is_none() || recorded == actual);
        Ok(if !matches {
            RecordedDatabase::Elsewhere
        } else if recorded.contains(&None) {
            RecordedDatabase::Nowhere
        } else {
            RecordedDatabase::Here
        })
    }

    /// Records the identity of this database in the installation if none is recorded, or adds the OID of the table if an
    /// older release recorded this database without it.
    pub async fn record_database(self) -> Result<(), Error> {
        let mut connection = self.0.pool.acquire().await?;
        let actual = identity(&mut connection).await?;
        sqlx::query!(
            "UPDATE installation SET system_identifier = $1, database_oid = $2, table_oid = $3
             WHERE system_identifier IS NULL
               OR (system_identifier, database_oid) = ($1, $2) AND table_oid IS NULL",
            actual.system_identifier,
            actual.database_oid,
            actual.table_oid
        )
        .execute(&mut *connection)
        .await?;
        Ok(())
    }

    /// Marks this database as restored if no database is recorded or only a part of its identity: records another, unknown
    /// database, so that services refuse to start on this one. For backups of a release that did not record its database.
    pub async fn disown_unrecorded(self) -> Result<(), Error> {
        sqlx::query!(
            "UPDATE installation SET system_identifier = 0
             WHERE system_identifier IS NULL OR database_oid IS NULL OR table_oid IS NULL"
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Stores marks. A stored mark is only replaced by one with a later time and a sequence number that is not lower.
    ///
    /// The caller must ensure that the effects of all messages up to a mark are committed before this call.
    pub async fn mark_log(self, marks: &[LogMark]) -> Result<(), Error> {
        columns! { mark in marks =>
            streams = mark.stream.to_string(),
            numbers = mark.seq.cast_signed(),
            times = instant(mark.at),
        }
        sqlx::query!(
            "INSERT INTO log_mark (stream, seq, at) SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[])
             ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, at = excluded.at
               WHERE log_mark.seq <= excluded.seq AND log_mark.at < excluded.at",
            &streams,
            &numbers,
            &times
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Lists the stored marks, except those of streams unknown to this release.
    pub async fn log_marks(self) -> Result<Vec<LogMark>, Error> {
        let rows = sqlx::query!("SELECT stream, seq, at FROM log_mark").fetch_all(&self.0.pool).await?;
        let marks = rows.into_iter().filter_map(|row| {
            Some(LogMark {
                stream: row.stream.parse().ok()?,
                seq: row.seq.cast_unsigned(),
                at: row.at.into(),
            })
        });
        Ok(marks.collect())
    }

    /// Acquires the lock on the preparation of the installation, so that only one process prepares at a time. Otherwise a
    /// process could read the preliminary creation time that the log server reports while it creates a stream. Waits up to 60
    /// seconds.
    ///
    /// # Errors
    /// The database failed, or another process held the lock for more than 60 seconds.
    pub async fn prepare_alone(self) -> Result<PreparationLock, Error> {
        let locked = async {
            let mut session = PgConnection::connect_with(&self.0.pool.connect_options()).await?;
            sqlx::raw_sql(
                "SET lock_timeout = '60s'; SET statement_timeout = '60s';
                 SELECT pg_advisory_lock(hashtextextended('installation', 0))",
            )
            .execute(&mut session)
            .await?;
            Ok(PreparationLock { _session: session })
        };
        timeout(LOCK_LIMIT, locked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map_err(Error::from)
    }

    /// Stores the number of inbox partitions if none is stored yet. Returns the stored number, which never changes.
    pub async fn fix_partitions(self, partitions: u32) -> Result<u32, Error> {
        sqlx::query!(
            "INSERT INTO installation (partitions) VALUES ($1) ON CONFLICT DO NOTHING",
            i32::try_from(partitions).unwrap_or(i32::MAX)
        )
        .execute(&self.0.pool)
        .await?;
        self.partitions().await.map(|fixed| fixed.unwrap_or(partitions))
    }

    /// Returns the number of inbox partitions; None if the installation was never prepared.
    pub async fn partitions(self) -> Result<Option<u32>, Error> {
        let fixed: Option<i32> =
            sqlx::query_scalar!("SELECT partitions FROM installation").fetch_optional(&self.0.pool).await?;
        Ok(fixed.and_then(|fixed| u32::try_from(fixed).ok()))
    }

    /// Records the creation times of new streams. Streams that are already recorded stay unchanged.
    pub async fn record_streams(self, streams: &[KnownStream]) -> Result<(), Error> {
        columns! { stream in streams =>
            names = stream.name.to_string(),
            times = instant(stream.created_at),
        }
        sqlx::query!(
            "INSERT INTO stream_identity (name, created_at) SELECT * FROM unnest($1::text[], $2::timestamptz[])
             ON CONFLICT DO NOTHING",
            &names,
            &times
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Returns the creation time of each recorded stream by name.
    pub async fn recorded_streams(self) -> Result<HashMap<String, Timestamp>, Error> {
        let rows =
            sqlx::query!("SELECT name, created_at FROM stream_identity").fetch_all(&self.0.pool).await?;
        Ok(rows.into_iter().map(|row| (row.name, row.created_at.into())).collect())
    }
}

/// Reads the identity of the database behind the connection. The query is not prepared, because a pooler in transaction mode
/// may give two connections the same session. The second connection could then not prepare a statement under the same name.
pub(crate) async fn identity(connection: &mut PgConnection) -> Result<DatabaseIdentity, sqlx::Error> {
    let row = sqlx::raw_sql(
        "SELECT system_identifier, (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS oid,
           to_regclass('installation')::oid::bigint AS table_oid
         FROM pg_control_system()",
    )
    .fetch_one(connection)
    .await?;
    Ok(DatabaseIdentity {
        system_identifier: row.try_get("system_identifier")?,
        database_oid: row.try_get("oid")?,
        table_oid: row.try_get("table_oid")?,
    })
}
