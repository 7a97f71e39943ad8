use std::collections::HashMap;
use std::time::Duration;

use domain::{StreamName, Timestamp};
use sqlx::{Connection as _, PgConnection, Row};
use tokio::time::timeout;

use crate::database::columns::{columns, integer};
use crate::database::instant::instant;
use crate::{Database, Error};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownStream {
    pub name: StreamName,
    /// Time at which the log server created the stream; it differs if the stream is deleted and created again.
    pub created_at: Timestamp,
}

/// Identity of a database. A database restored from a dump has a different identity, even if the dump is restored into its original
/// database. A physical copy has the same identity as its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseIdentity {
    pub(crate) system_identifier: i64,
    pub(crate) database_oid: i64,
    /// None before the schema exists.
    pub(crate) table_oid: Option<i64>,
}

impl DatabaseIdentity {
    pub(crate) fn is_still(self, other: DatabaseIdentity) -> bool {
        let place = |identity: DatabaseIdentity| (identity.system_identifier, identity.database_oid);
        let tables = self.table_oid.zip(other.table_oid);
        place(self) == place(other) && tables.is_none_or(|(one, other)| one == other)
    }
}

const LOCK_LIMIT: Duration = Duration::from_secs(60);

/// Lock that only one process holds while it prepares the installation, until it drops this value.
#[derive(Debug)]
pub struct PreparationLock {
    /// The preparation itself uses other sessions, from the pool.
    _session: PgConnection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedDatabase {
    Here,
    /// The database was restored from a backup.
    Elsewhere,
    /// A `tidings restore` of this database is running or was interrupted.
    HalfRestored,
    /// No identity is stored, or only a part of one.
    Nowhere,
}

/// A position in a stream. The effects of all messages up to it are committed in this database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMark {
    pub stream: StreamName,
    pub seq: u64,
    pub at: Timestamp,
}

impl Database<'_> {
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

    /// Stores this database's identity if none is stored. Adds the OID of the table if an older release stored the identity without it.
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

    /// Marks this database as restored from a backup if its identity is not fully stored, as in backups of older releases. No database has
    /// the system identifier 0, so services refuse to start.
    pub async fn disown_unrecorded(self) -> Result<(), Error> {
        sqlx::query!(
            "UPDATE installation SET system_identifier = 0
             WHERE system_identifier IS NULL OR database_oid IS NULL OR table_oid IS NULL"
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// A new mark replaces a stored mark only if its time is later and its sequence number is not lower. The effects of all messages up to
    /// a mark must be committed before this call.
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

    /// Omits marks of streams that this release does not know.
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

    /// Waits up to 60 seconds for the lock that lets only one process prepare the installation. While one process creates a stream, the log
    /// server reports a preliminary creation time, which another process must not store.
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

    /// Stores the number of inbox partitions if none is stored yet, and returns the stored number, which never changes.
    pub async fn fix_partitions(self, partitions: u32) -> Result<u32, Error> {
        sqlx::query!(
            "INSERT INTO installation (partitions) VALUES ($1) ON CONFLICT DO NOTHING",
            integer(partitions)
        )
        .execute(&self.0.pool)
        .await?;
        self.partitions().await.map(|fixed| fixed.unwrap_or(partitions))
    }

    /// None if the installation was never prepared.
    pub async fn partitions(self) -> Result<Option<u32>, Error> {
        let fixed: Option<i32> =
            sqlx::query_scalar!("SELECT partitions FROM installation").fetch_optional(&self.0.pool).await?;
        Ok(fixed.and_then(|fixed| u32::try_from(fixed).ok()))
    }

    pub async fn record_log_store(self, bytes: Option<u64>) -> Result<(), Error> {
        sqlx::query!("UPDATE installation SET log_store = $1", bytes.map(u64::cast_signed))
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    /// Number of bytes that the log can hold, as `tidings migrate` found it; None if it is unknown.
    pub async fn log_store(self) -> Result<Option<u64>, Error> {
        let bytes =
            sqlx::query_scalar!("SELECT log_store FROM installation").fetch_optional(&self.0.pool).await?;
        Ok(bytes.flatten().map(i64::cast_unsigned))
    }

    /// Streams that are already recorded stay unchanged.
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

    /// Creation times by name.
    pub async fn recorded_streams(self) -> Result<HashMap<String, Timestamp>, Error> {
        let rows =
            sqlx::query!("SELECT name, created_at FROM stream_identity").fetch_all(&self.0.pool).await?;
        Ok(rows.into_iter().map(|row| (row.name, row.created_at.into())).collect())
    }
}

/// Reads the identity without a prepared statement: if two connections share a session through a pooler, the second could not prepare a
/// statement under a name that the first has already used.
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
