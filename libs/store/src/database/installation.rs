//! Which log this database belongs to, and whether it is still the database that it was.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::{StreamName, Timestamp};
use sqlx::{Connection as _, PgConnection, Row};
use tokio::time::timeout;

use crate::{Error, Store};

/// A stream as the log tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownStream {
    /// Its name.
    pub name: StreamName,
    /// When the server created it: another stream under the same name has another time.
    pub created_at: Timestamp,
}

/// What a database is known by: the cluster that it is in, its place there, and the table that says so. A dump that is
/// restored has another one, even over the database that it was taken from; a physical copy has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseIdentity {
    pub(crate) system_identifier: i64,
    pub(crate) database_oid: i64,
    /// None before the schema is there.
    pub(crate) table_oid: Option<i64>,
}

impl DatabaseIdentity {
    /// Whether this is the same database at another time, when the schema may not have been there yet.
    pub(crate) fn is_still(self, other: DatabaseIdentity) -> bool {
        let known = |identity: DatabaseIdentity| (identity.system_identifier, identity.database_oid);
        let tables = self.table_oid.zip(other.table_oid);
        known(self) == known(other) && tables.is_none_or(|(one, other)| one == other)
    }
}

/// How long whoever prepares waits for its session and for the others.
const ALONE_WITHIN: Duration = Duration::from_secs(60);

/// The right to prepare the installation, given back when it is dropped.
#[derive(Debug)]
pub struct Preparing {
    /// Its session holds the lock. What is prepared goes over the pool's.
    _session: PgConnection,
}

/// What the installation says of the database that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It was written in this one.
    Here,
    /// It was written in another one: this one is restored from a backup.
    Elsewhere,
    /// The log is being read again for it, or was not to the end.
    HalfRestored,
    /// Nothing yet, or not all of it.
    Nowhere,
}

/// A mark in a stream: what the log says up to there is in this database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMark {
    /// The stream.
    pub stream: StreamName,
    /// The sequence.
    pub seq: u64,
    /// When it was looked up.
    pub at: Timestamp,
}

impl Store {
    /// Whether the installation was written in this database.
    ///
    /// # Errors
    /// The database failed.
    pub async fn recorded_database(&self) -> Result<Recorded, Error> {
        let mut connection = self.pool.acquire().await?;
        let real = identity(&mut connection).await?;
        let row = sqlx::query("SELECT system_identifier, database_oid, table_oid FROM installation")
            .fetch_optional(&mut *connection)
            .await?;
        let Some(row) = row else { return Ok(Recorded::Nowhere) };
        let recorded: [Option<i64>; 3] = [row.try_get(0)?, row.try_get(1)?, row.try_get(2)?];
        if recorded[..2] == [Some(0); 2] {
            return Ok(Recorded::HalfRestored);
        }
        let real = [Some(real.system_identifier), Some(real.database_oid), real.table_oid];
        Ok(match recorded.iter().zip(&real).all(|(recorded, real)| recorded.is_none() || recorded == real) {
            false => Recorded::Elsewhere,
            true if recorded.contains(&None) => Recorded::Nowhere,
            true => Recorded::Here,
        })
    }

    /// Records this database as the one of the installation, where none is recorded, or where a release recorded it that
    /// knew less of it.
    ///
    /// # Errors
    /// The database failed.
    pub async fn record_database(&self) -> Result<(), Error> {
        let mut connection = self.pool.acquire().await?;
        let real = identity(&mut connection).await?;
        sqlx::query(
            "UPDATE installation SET system_identifier = $1, database_oid = $2, table_oid = $3
             WHERE system_identifier IS NULL
               OR (system_identifier, database_oid) = ($1, $2) AND table_oid IS NULL",
        )
        .bind(real.system_identifier)
        .bind(real.database_oid)
        .bind(real.table_oid)
        .execute(&mut *connection)
        .await?;
        Ok(())
    }

    /// Records that the installation was written in another database, where nobody knows in which: a backup of a release
    /// that did not record it. From here on no service starts on it.
    ///
    /// # Errors
    /// The database failed.
    pub async fn disown_unrecorded(&self) -> Result<(), Error> {
        sqlx::query(
            "UPDATE installation SET system_identifier = 0
             WHERE system_identifier IS NULL OR database_oid IS NULL OR table_oid IS NULL",
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Writes marks; they never go back.
    ///
    /// For the caller to know: that the effects of every message up to a mark were committed before this is called.
    ///
    /// # Errors
    /// The database failed.
    pub async fn mark_log(&self, marks: &[LogMark]) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO log_mark (stream, seq, at) SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[])
             ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, at = excluded.at
               WHERE log_mark.seq <= excluded.seq AND log_mark.at < excluded.at",
        )
        .bind(marks.iter().map(|mark| mark.stream.to_string()).collect::<Vec<_>>())
        .bind(marks.iter().map(|mark| mark.seq.cast_signed()).collect::<Vec<_>>())
        .bind(marks.iter().map(|mark| DateTime::<Utc>::from(mark.at)).collect::<Vec<_>>())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The marks that were written, but for streams that this release does not know.
    ///
    /// # Errors
    /// The database failed.
    pub async fn log_marks(&self) -> Result<Vec<LogMark>, Error> {
        let rows = sqlx::query("SELECT stream, seq, at FROM log_mark").fetch_all(&self.pool).await?;
        let mut marks = Vec::with_capacity(rows.len());
        for row in rows {
            let (stream, at): (&str, DateTime<Utc>) = (row.try_get("stream")?, row.try_get("at")?);
            let seq: i64 = row.try_get("seq")?;
            marks.extend(stream.parse().map(|stream| LogMark {
                stream,
                seq: seq.cast_unsigned(),
                at: at.into(),
            }));
        }
        Ok(marks)
    }

    /// Waits for the right to prepare the installation, which one process has at a time: the log tells of a stream that
    /// another is just creating with a time that will not stand. Waits for a minute at most.
    ///
    /// # Errors
    /// The database failed, or the other took longer.
    pub async fn prepare_alone(&self) -> Result<Preparing, Error> {
        let locked = async {
            let mut session = PgConnection::connect_with(&self.pool.connect_options()).await?;
            sqlx::raw_sql(
                "SET lock_timeout = '60s'; SET statement_timeout = '60s';
                 SELECT pg_advisory_lock(hashtextextended('installation', 0))",
            )
            .execute(&mut session)
            .await?;
            Ok(Preparing { _session: session })
        };
        timeout(ALONE_WITHIN, locked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map_err(Error::from)
    }

    /// Fixes the number of inbox partitions at the first call, and returns what was fixed.
    ///
    /// # Errors
    /// The database failed.
    pub async fn fix_partitions(&self, partitions: u32) -> Result<u32, Error> {
        sqlx::query("INSERT INTO installation (partitions) VALUES ($1) ON CONFLICT DO NOTHING")
            .bind(i32::try_from(partitions).unwrap_or(i32::MAX))
            .execute(&self.pool)
            .await?;
        self.partitions().await.map(|fixed| fixed.unwrap_or(partitions))
    }

    /// The number of inbox partitions; None before the installation was made.
    ///
    /// # Errors
    /// The database failed.
    pub async fn partitions(&self) -> Result<Option<u32>, Error> {
        let fixed: Option<i32> =
            sqlx::query_scalar("SELECT partitions FROM installation").fetch_optional(&self.pool).await?;
        Ok(fixed.and_then(|fixed| u32::try_from(fixed).ok()))
    }

    /// Records streams that the database does not know yet. Those that it knows stay as recorded.
    ///
    /// # Errors
    /// The database failed.
    pub async fn record_streams(&self, streams: &[KnownStream]) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO stream_identity (name, created_at) SELECT * FROM unnest($1::text[], $2::timestamptz[])
             ON CONFLICT DO NOTHING",
        )
        .bind(streams.iter().map(|stream| stream.name.to_string()).collect::<Vec<_>>())
        .bind(streams.iter().map(|stream| DateTime::<Utc>::from(stream.created_at)).collect::<Vec<_>>())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The creation time of every stream that belongs to this database.
    ///
    /// # Errors
    /// The database failed.
    pub async fn recorded_streams(&self) -> Result<HashMap<String, Timestamp>, Error> {
        let rows = sqlx::query("SELECT name, created_at FROM stream_identity").fetch_all(&self.pool).await?;
        rows.into_iter()
            .map(|row| {
                let created_at: DateTime<Utc> = row.try_get("created_at")?;
                Ok((row.try_get("name")?, created_at.into()))
            })
            .collect()
    }
}

/// The identity of the database that the connection leads to. The query is not prepared: a pooler in transaction mode may give two
/// connections one session, where the second could not prepare a statement of the same name.
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
