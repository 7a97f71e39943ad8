//! Messages whose processing fails. The store counts their failures, and a message that keeps failing is parked, so that it
//! does not block other messages.

use domain::{AppId, SendId, StreamName};
use sqlx::PgExecutor;
use uuid::Uuid;

use crate::{Database, Error};

/// Number of failures after which a message is parked; outages do not count as failures.
pub const MAX_FAILURES: i32 = 5;

/// A message to park.
#[derive(Clone, Debug)]
pub struct ParkRequest<'a> {
    /// Id of the parked row.
    pub id: Uuid,
    /// The app; None if it could not be decoded from the message.
    pub app: Option<AppId>,
    /// The send; None if the message belongs to no send or could not be decoded.
    pub send_id: Option<SendId>,
    /// Stream of the message; a redrive publishes the message to this stream again.
    pub stream: StreamName,
    /// Sequence number of the message in the stream.
    pub seq: u64,
    /// The encoded message.
    pub message: &'a [u8],
    /// Cause of the failure, without personal data.
    pub cause: &'a str,
}

impl Database<'_> {
    /// Counts a failure caused by the message itself (decoding failed, processing panicked, or PostgreSQL rejected its
    /// data) and returns the number of failures so far. Callers do not count outages.
    pub async fn count_failure(self, stream: StreamName, seq: u64, cause: &str) -> Result<i32, Error> {
        let failures = sqlx::query_scalar!("INSERT INTO message_failure (stream, seq, failures, cause) VALUES ($1, $2, 1, $3)
             ON CONFLICT (stream, seq) DO UPDATE SET failures = message_failure.failures + 1, cause = excluded.cause
             RETURNING failures", stream.to_string(), seq.cast_signed(), cause)
        .fetch_one(&self.0.pool)
        .await?;
        Ok(failures)
    }

    /// Deletes the failure count of a message that has now been processed.
    pub async fn forget_failure(self, stream: StreamName, seq: u64) -> Result<(), Error> {
        forget(&self.0.pool, stream, seq).await
    }

    /// Parks a message after its last failure and deletes its failure count. The caller may then acknowledge the message.
    ///
    /// # Errors
    /// The database failed; the message is not parked.
    pub async fn set_aside(self, message: &ParkRequest<'_>) -> Result<(), Error> {
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
