//! Checkpoints. A checkpoint is the sequence number of the last event of a stream that a projection has committed.
//!
//! While a transaction stays open, PostgreSQL keeps every older version of a checkpoint's row, and a lookup by equality reads them all,
//! oldest first. A range in descending order starts at the newest version. `(SELECT $2)` hides the value from the planner, which might
//! otherwise sort all versions. See `docs/decisions/0093-hot-rows-are-read-from-the-newest-version.md`.

use domain::StreamName;
use sqlx::PgConnection;

use crate::database::columns::columns;
use crate::{Database, Error, database::failure};

impl Database<'_> {
    /// Zero if the projection has committed no event of the stream.
    pub async fn checkpoint(self, projection: &str, stream: StreamName) -> Result<u64, Error> {
        Ok(self.stored_checkpoint(projection, stream).await?.unwrap_or(0))
    }

    /// None if the projection has stored no checkpoint.
    pub async fn stored_checkpoint(self, projection: &str, stream: StreamName) -> Result<Option<u64>, Error> {
        let seq = sqlx::query_scalar!(
            "SELECT seq FROM checkpoint WHERE projection = $1 AND projection BETWEEN (SELECT $1) AND (SELECT $1)
             AND stream BETWEEN (SELECT $2) AND (SELECT $2)
             ORDER BY stream DESC LIMIT 1",
            projection,
            stream.to_string()
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(seq.map(i64::cast_unsigned))
    }

    /// Returns true if the projection has committed an event since [`start_checkpoint`](Self::start_checkpoint), or has a
    /// checkpoint without such a start.
    pub async fn has_left_start(self, projection: &str, stream: StreamName) -> Result<bool, Error> {
        let left = sqlx::query_scalar!(
            r#"SELECT seq IS DISTINCT FROM started_at AS "left!" FROM checkpoint
             WHERE projection = $1 AND projection BETWEEN (SELECT $1) AND (SELECT $1)
             AND stream BETWEEN (SELECT $2) AND (SELECT $2) ORDER BY stream DESC LIMIT 1"#,
            projection,
            stream.to_string()
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(left.unwrap_or(false))
    }

    /// Stores `seq` as the checkpoint at which the projection starts. Returns false and changes nothing if the projection has
    /// committed an event, or starts at `seq` already.
    pub async fn start_checkpoint(
        self,
        projection: &str,
        stream: StreamName,
        seq: u64,
    ) -> Result<bool, Error> {
        let started = sqlx::query!(
            "INSERT INTO checkpoint AS c (projection, stream, seq, started_at) VALUES ($1, $2, $3, $3)
             ON CONFLICT (projection, stream) DO UPDATE SET seq = excluded.seq, started_at = excluded.started_at
               WHERE c.seq = c.started_at AND c.seq <> excluded.seq",
            projection,
            stream.to_string(),
            seq.cast_signed()
        )
        .execute(&self.0.pool)
        .await?;
        Ok(started.rows_affected() == 1)
    }
}

/// Returns false and changes nothing if the checkpoint is not at `from`.
///
/// The range of the projection changes no result. With it, PostgreSQL expects to read one page, however many pages the old versions fill.
/// Otherwise it would read all versions through a bitmap.
///
/// If another transaction replaces the version at `ctid` first, PostgreSQL compares `seq` with that of the version which replaced it.
pub(crate) async fn advance(
    connection: &mut PgConnection,
    projection: &str,
    stream: StreamName,
    from: u64,
    to: u64,
) -> Result<bool, Error> {
    let stream = stream.to_string();
    let (from, to) = (from.cast_signed(), to.cast_signed());
    let advanced = if from == 0 {
        sqlx::query!(
            "INSERT INTO checkpoint (projection, stream, seq) VALUES ($1, $2, $4)
             ON CONFLICT (projection, stream) DO UPDATE SET seq = excluded.seq WHERE checkpoint.seq = $3",
            projection,
            stream,
            from,
            to
        )
    } else {
        sqlx::query!(
            "UPDATE checkpoint SET seq = $4
             WHERE ctid = (
               SELECT ctid FROM checkpoint WHERE projection = $1 AND projection BETWEEN (SELECT $1) AND (SELECT $1)
                 AND stream BETWEEN (SELECT $2) AND (SELECT $2)
               ORDER BY stream DESC LIMIT 1
             ) AND seq = $3",
            projection,
            stream,
            from,
            to
        )
    };
    let moved = advanced.execute(connection).await?;
    Ok(moved.rows_affected() == 1)
}

/// Like [`advance`] for several streams, of which each has a checkpoint, in the given order. Returns for each if it was moved.
pub(crate) async fn advance_all(
    connection: &mut PgConnection,
    projection: &str,
    spans: &[(StreamName, u64, u64)],
) -> Result<Vec<bool>, Error> {
    columns! { (stream, from, to) in spans =>
        streams = stream.to_string(),
        froms = from.cast_signed(),
        tos = to.cast_signed(),
    }
    // Locked first, because the update may choose another order.
    let moved = sqlx::query_scalar!(
        r#"WITH locked AS MATERIALIZED (
           SELECT newest.place, new.number, new.from_seq, new.to_seq
           FROM unnest($2::text[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS new (stream, from_seq, to_seq, number)
           CROSS JOIN LATERAL (
             SELECT w.ctid AS place FROM checkpoint w
             WHERE w.projection = $1 AND w.projection BETWEEN (SELECT $1) AND (SELECT $1)
               AND w.stream BETWEEN new.stream AND new.stream
             ORDER BY w.stream DESC LIMIT 1 FOR UPDATE
           ) AS newest
         )
         UPDATE checkpoint c SET seq = locked.to_seq FROM locked
         WHERE c.ctid = locked.place AND c.seq = locked.from_seq RETURNING locked.number AS "number!""#,
        projection,
        &streams,
        &froms,
        &tos
    )
    .fetch_all(connection)
    .await?;
    Ok((1..).zip(spans).map(|(number, _)| moved.contains(&number)).collect())
}

/// Stores an event whose processing keeps failing. The caller must move the checkpoint past the event in the same transaction.
pub(crate) async fn dead_letter(
    connection: &mut PgConnection,
    projection: &str,
    stream: StreamName,
    seq: u64,
    message: &[u8],
    cause: &str,
) -> Result<(), Error> {
    sqlx::query!(
        "INSERT INTO dead_event (projection, stream, seq, message, cause) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING",
        projection,
        stream.to_string(),
        seq.cast_signed(),
        message,
        cause
    )
    .execute(&mut *connection)
    .await?;
    failure::forget(connection, stream, seq).await
}
