//! Failure counts of messages. A message whose processing keeps failing is parked, so that it does not block other messages.

use std::fmt;

use domain::{AppId, SendId, StreamName};
use sqlx::PgExecutor;
use uuid::Uuid;

use crate::{Database, Error};

/// Number of failures after which a message is parked.
pub const MAX_FAILURES: i32 = 5;

#[derive(Clone, Debug)]
pub struct ParkRequest<'a> {
    pub id: Uuid,
    /// None if it could not be decoded from the message.
    pub app: Option<AppId>,
    /// None if the message belongs to no send or could not be decoded.
    pub send_id: Option<SendId>,
    /// A redrive publishes the message to this stream again.
    pub stream: StreamName,
    pub seq: u64,
    pub message: &'a [u8],
    /// Without personal data.
    pub cause: &'a str,
}

/// A reader that marks the messages that may end its process. Two projections may read one stream, so each has its own marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    pub stream: StreamName,
    /// None for the consumer of a work stream.
    pub projection: Option<&'static str>,
    /// None for the whole message.
    pub event: Option<usize>,
}

impl Reader {
    #[must_use]
    pub fn consumer(stream: StreamName) -> Reader {
        Reader { stream, projection: None, event: None }
    }

    #[must_use]
    pub fn projection(projection: &'static str, stream: StreamName) -> Reader {
        Reader { stream, projection: Some(projection), event: None }
    }
}

impl fmt::Display for Reader {
    /// `SEND_bulk`, `inbox:INBOX_0` or `inbox:INBOX_0/3`, for the column `stream`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(projection) = self.projection {
            write!(f, "{projection}:")?;
        }
        write!(f, "{}", self.stream)?;
        self.event.map_or(Ok(()), |event| write!(f, "/{event}"))
    }
}

impl Database<'_> {
    /// Returns the number of failures of this message so far. The caller must count only failures caused by the message itself: decoding
    /// failed, processing panicked, or PostgreSQL rejected its data. It must not count outages.
    pub async fn count_failure(self, stream: StreamName, seq: u64, cause: &str) -> Result<i32, Error> {
        let failures = sqlx::query_scalar!("INSERT INTO message_failure (stream, seq, failures, cause) VALUES ($1, $2, 1, $3)
             ON CONFLICT (stream, seq) DO UPDATE SET failures = message_failure.failures + 1, cause = excluded.cause
             RETURNING failures", stream.to_string(), seq.cast_signed(), cause)
        .fetch_one(&self.0.pool)
        .await?;
        Ok(failures)
    }

    /// Number of processes that ended while they handled this message.
    pub async fn unended_handlings(self, reader: Reader, seq: u64) -> Result<i32, Error> {
        let unended = sqlx::query_scalar!(
            "SELECT unended FROM message_failure WHERE stream = $1 AND seq = $2",
            reader.to_string(),
            seq.cast_signed()
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(unended.unwrap_or_default())
    }

    pub async fn begin_handling(self, reader: Reader, seq: u64) -> Result<(), Error> {
        sqlx::query!(
            "INSERT INTO message_failure (stream, seq, failures, cause, unended)
             VALUES ($1, $2, 0, 'the process ended', 1)
             ON CONFLICT (stream, seq) DO UPDATE SET unended = message_failure.unended + 1",
            reader.to_string(),
            seq.cast_signed()
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Like [`begin_handling`](Self::begin_handling), but returns false and changes nothing if the number of unended handlings is no longer
    /// `unended`.
    pub async fn begin_handling_after(self, reader: Reader, seq: u64, unended: i32) -> Result<bool, Error> {
        let begun = sqlx::query!(
            "INSERT INTO message_failure (stream, seq, failures, cause, unended)
             VALUES ($1, $2, 0, 'the process ended', 1)
             ON CONFLICT (stream, seq) DO UPDATE SET unended = message_failure.unended + 1
               WHERE message_failure.unended = $3",
            reader.to_string(),
            seq.cast_signed(),
            unended
        )
        .execute(&self.0.pool)
        .await?;
        Ok(begun.rows_affected() == 1)
    }

    pub async fn end_handling(self, reader: Reader, seq: u64) -> Result<(), Error> {
        sqlx::query!(
            "UPDATE message_failure SET unended = unended - 1 WHERE stream = $1 AND seq = $2 AND unended > 0",
            reader.to_string(),
            seq.cast_signed()
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Deletes the marks of messages up to `seq` that have no failure, including marks of single events. The reader must have processed
    /// these messages.
    pub async fn forget_handlings(self, reader: Reader, seq: u64) -> Result<u64, Error> {
        let deleted = sqlx::query!(
            "DELETE FROM message_failure
             WHERE (stream = $1 OR starts_with(stream, $1 || '/')) AND seq <= $2 AND failures = 0",
            reader.to_string(),
            seq.cast_signed()
        )
        .execute(&self.0.pool)
        .await?;
        Ok(deleted.rows_affected())
    }

    pub async fn forget_failure(self, stream: StreamName, seq: u64) -> Result<(), Error> {
        forget(&self.0.pool, stream, seq).await
    }

    /// Parks a message and deletes its failure count. The caller may acknowledge the message afterwards.
    pub async fn park_message(self, message: &ParkRequest<'_>) -> Result<(), Error> {
        let mut transaction = self.0.begin().await?;
        sqlx::query!("INSERT INTO parked (id, app_id, send_id, stream, message, cause) VALUES ($1, $2, $3, $4, $5, $6)", message.id, message.app.map(|app| app.0), message.send_id.map(|id| id.0), message.stream.to_string(), message.message, message.cause)
        .execute(&mut *transaction)
        .await?;
        forget(&mut *transaction, message.stream, message.seq).await?;
        transaction.commit().await?;
        Ok(())
    }
}

pub(crate) async fn forget(database: impl PgExecutor<'_>, stream: StreamName, seq: u64) -> Result<(), Error> {
    sqlx::query!(
        "DELETE FROM message_failure WHERE stream = $1 AND seq = $2",
        stream.to_string(),
        seq.cast_signed()
    )
    .execute(database)
    .await?;
    Ok(())
}
