//! Timers: messages to publish at their time.

use std::time::Duration;

use domain::{AppId, SendId, StreamName, Timestamp, UserNumber};
use sqlx::{PgConnection, Postgres, Row, Transaction};
use uuid::Uuid;

use crate::database::instant::instant;
use crate::{Error, Store};

/// How long a timer that could not be published waits for its next turn.
pub const PUT_OFF: Duration = Duration::from_secs(1);
/// How long a timer that this release cannot read waits for another one.
const UNREADABLE_PUT_OFF: Duration = Duration::from_secs(60);
/// Bytes of messages, beyond which no further timer is taken at once.
const TAKEN_BYTES: i64 = 8 * 1024 * 1024;

/// A timer to be set. Every timer has a new id, under which its message is published: an earlier one would be
/// swallowed by the stream's duplicate window.
#[derive(Clone, Debug)]
pub struct NewTimer {
    /// Identity of the timer and of the message when it is published.
    pub id: Uuid,
    /// Not before this time.
    pub due_at: Timestamp,
    /// Where the message goes.
    pub stream: StreamName,
    /// The whole message.
    pub message: Vec<u8>,
    /// The app that it belongs to.
    pub app: AppId,
    /// The send that it concerns.
    pub send_id: Option<SendId>,
    /// The user that it concerns.
    pub user: Option<UserNumber>,
}

/// A timer whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTimer {
    /// Identity of the timer and of its message.
    pub id: Uuid,
    /// Where the message goes.
    pub stream: StreamName,
    /// The whole message.
    pub message: Vec<u8>,
}

/// Due timers, locked until they are done with. Dropped without [`DueTimers::done`], they stay due.
#[derive(Debug)]
pub struct DueTimers {
    transaction: Transaction<'static, Postgres>,
    ids: Vec<Uuid>,
    /// The timers, earliest first.
    pub timers: Vec<DueTimer>,
}

impl Store {
    /// Sets timers.
    ///
    /// # Errors
    /// The database failed; then none is set.
    pub async fn set_timers(&self, timers: &[NewTimer]) -> Result<(), Error> {
        let mut connection = self.pool.acquire().await?;
        insert(&mut connection, timers).await
    }

    /// Takes up to `most` due timers that nobody else holds, fewer when they are large. One that names an unknown
    /// stream is left out and put off.
    ///
    /// # Errors
    /// The database failed.
    pub async fn due_timers(&self, most: u32) -> Result<DueTimers, Error> {
        self.due_timers_but(most, &[]).await
    }

    /// As [`due_timers`](Self::due_timers), but for those that belong to a send and go into a `closed` stream: they
    /// stay due. What belongs to no send, such as word of an erasure, is taken.
    ///
    /// # Errors
    /// The database failed.
    pub async fn due_timers_but(&self, most: u32, closed: &[StreamName]) -> Result<DueTimers, Error> {
        let mut transaction = self.begin().await?;
        let rows = sqlx::query(
            "WITH due AS MATERIALIZED (
               SELECT id, due_at, stream, message FROM timer
               WHERE due_at <= now() AND (stream <> ALL($3) OR send_id IS NULL) ORDER BY due_at LIMIT $1
               FOR UPDATE SKIP LOCKED
             ), summed AS (
               SELECT *, sum(octet_length(message)) OVER (ORDER BY due_at, id) - octet_length(message) AS before
               FROM due
             )
             SELECT id, stream, message FROM summed WHERE before < $2 ORDER BY due_at, id",
        )
        .bind(i64::from(most))
        .bind(TAKEN_BYTES)
        .bind(closed.iter().map(StreamName::to_string).collect::<Vec<_>>())
        .fetch_all(&mut *transaction)
        .await?;
        let (mut timers, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let (id, stream): (Uuid, &str) = (row.try_get("id")?, row.try_get("stream")?);
            match stream.parse() {
                Ok(stream) => timers.push(DueTimer { id, stream, message: row.try_get("message")? }),
                Err(error) => {
                    tracing::error!(timer = %id, stream, %error, "a timer is of no stream that this release knows");
                    unreadable.push(id);
                }
            }
        }
        put_off(&mut transaction, &unreadable, UNREADABLE_PUT_OFF).await?;
        let ids = timers.iter().map(|timer| timer.id).collect();
        Ok(DueTimers { transaction, ids, timers })
    }
}

impl DueTimers {
    /// Removes those that were published, and puts the others off by [`PUT_OFF`]: what cannot go now must not stand
    /// before what can.
    ///
    /// # Errors
    /// The database failed; the published ones are published again then, under the same ids.
    pub async fn done(mut self, published: &[Uuid]) -> Result<(), Error> {
        if !published.is_empty() {
            sqlx::query("DELETE FROM timer WHERE id = ANY($1)")
                .bind(published)
                .execute(&mut *self.transaction)
                .await?;
        }
        self.ids.retain(|id| !published.contains(id));
        put_off(&mut self.transaction, &self.ids, PUT_OFF).await?;
        self.transaction.commit().await?;
        Ok(())
    }
}

async fn put_off(connection: &mut PgConnection, timers: &[Uuid], delay: Duration) -> Result<(), Error> {
    if timers.is_empty() {
        return Ok(());
    }
    sqlx::query("UPDATE timer SET due_at = now() + $2::float8 * interval '1 second' WHERE id = ANY($1)")
        .bind(timers)
        .bind(delay.as_secs_f64())
        .execute(connection)
        .await?;
    Ok(())
}

pub(crate) async fn insert(connection: &mut PgConnection, timers: &[NewTimer]) -> Result<(), Error> {
    if timers.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO timer (id, due_at, stream, message, app_id, send_id, user_number)
         SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::bytea[], $5::bigint[], $6::uuid[], $7::bigint[])",
    )
    .bind(timers.iter().map(|timer| timer.id).collect::<Vec<_>>())
    .bind(timers.iter().map(|timer| instant(timer.due_at)).collect::<Vec<_>>())
    .bind(timers.iter().map(|timer| timer.stream.to_string()).collect::<Vec<_>>())
    .bind(timers.iter().map(|timer| timer.message.as_slice()).collect::<Vec<_>>())
    .bind(timers.iter().map(|timer| timer.app.0).collect::<Vec<_>>())
    .bind(timers.iter().map(|timer| timer.send_id.map(|id| id.0)).collect::<Vec<_>>())
    .bind(timers.iter().map(|timer| timer.user.map(|user| user.0)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}
