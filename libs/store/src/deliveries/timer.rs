use std::time::Duration;

use domain::{AppId, DeliveryId, Reason, SendId, StreamName, Timestamp, UserNumber};
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::{Deliveries, Error};

/// Longer than any timer can be due.
pub const EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
const POSTPONED: Duration = Duration::from_secs(1);
const UNREADABLE_POSTPONED: Duration = Duration::from_secs(60);
/// The message that reaches the limit is still returned, but none after it.
const TAKEN_BYTES: i64 = 8 * 1024 * 1024;

/// The id must never have been used before: the message is published with this id, and the stream drops a message with an id that it has
/// seen within its duplicate window.
#[derive(Clone, Debug)]
pub struct NewTimer {
    pub id: Uuid,
    pub due_at: Timestamp,
    pub stream: StreamName,
    pub message: Vec<u8>,
    pub app: AppId,
    pub send_id: Option<SendId>,
    pub user: Option<UserNumber>,
    /// None if no delivery waits for the timer.
    pub wait: Option<Wait>,
}

/// A delivery that waits for a timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub delivery: DeliveryId,
    /// One of [`Reason::WAITING`].
    pub reason: Reason,
    /// Provider that is to be called; None if it is not chosen yet.
    pub provider: Option<String>,
    /// Code of the answer for which the delivery waits.
    pub code: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTimer {
    pub id: Uuid,
    pub due_at: Timestamp,
    pub stream: StreamName,
    pub message: Vec<u8>,
}

/// Timers that are due, locked until [`DueTimers::done`]. If the value is dropped without `done`, the timers stay due.
#[derive(Debug)]
pub struct DueTimers {
    transaction: Transaction<'static, Postgres>,
    ids: Vec<Uuid>,
    /// Earliest first.
    pub timers: Vec<DueTimer>,
}

impl Deliveries<'_> {
    pub async fn set_timers(self, timers: &[NewTimer]) -> Result<(), Error> {
        let mut connection = self.0.pool.acquire().await?;
        insert(&mut connection, timers).await
    }

    /// Locks and returns up to `most` due timers that no other process has locked, or fewer if their messages reach 8 MiB. A timer whose
    /// stream is unknown to this release is postponed by 60 seconds instead.
    pub async fn due_timers(self, most: u32) -> Result<DueTimers, Error> {
        self.due_timers_but(most, &[], EVER).await
    }

    /// Counts the timers that are due, up to `most`. Returns when the oldest was due as well.
    pub async fn overdue_timers(self, most: i64) -> Result<(u64, Option<Timestamp>), Error> {
        let row = sqlx::query!(
            r#"SELECT count(*) AS "count!", min(due_at) AS oldest
             FROM (SELECT due_at FROM timer WHERE due_at <= now() ORDER BY due_at LIMIT $1) AS due"#,
            most
        )
        .fetch_one(&self.0.pool)
        .await?;
        Ok((row.count.cast_unsigned(), row.oldest.map(Into::into)))
    }

    /// Like [`due_timers`](Self::due_timers), but without timers that belong to a send and publish to a stream in `closed`; these stay due.
    /// Timers that belong to no send, such as the timer of an erasure, are returned for all streams. Timers that became due earlier than
    /// `within` ago are left out: while a transaction is open, PostgreSQL keeps the index entries of all timers that were removed since.
    pub async fn due_timers_but(
        self,
        most: u32,
        closed: &[StreamName],
        within: Duration,
    ) -> Result<DueTimers, Error> {
        let mut transaction = self.0.begin().await?;
        let rows = sqlx::query!(
            "WITH due AS MATERIALIZED (
               SELECT id, due_at, stream, message FROM timer
               WHERE due_at <= now() AND due_at > now() - $4::float8 * interval '1 second' AND (stream <> ALL($3) OR send_id IS NULL) ORDER BY due_at LIMIT $1
               FOR UPDATE SKIP LOCKED
             ), summed AS (
               SELECT *, sum(octet_length(message)) OVER (ORDER BY due_at, id) - octet_length(message) AS before
               FROM due
             )
             SELECT id, due_at, stream, message FROM summed WHERE before < $2 ORDER BY due_at, id",
            i64::from(most),
            TAKEN_BYTES,
            &closed.iter().map(StreamName::to_string).collect::<Vec<_>>(),
            within.as_secs_f64()
        )
        .fetch_all(&mut *transaction)
        .await?;
        let mut timers = Vec::with_capacity(rows.len());
        let mut unreadable = Vec::new();
        for row in rows {
            match row.stream.parse() {
                Ok(stream) => {
                    let (id, due_at, message) = (row.id, row.due_at.into(), row.message);
                    timers.push(DueTimer { id, due_at, stream, message });
                }
                Err(error) => {
                    tracing::error!(timer = %row.id, row.stream, %error, "a timer names an unknown stream; postponing the timer");
                    unreadable.push(row.id);
                }
            }
        }
        postpone(&mut transaction, &unreadable, UNREADABLE_POSTPONED).await?;
        let ids = timers.iter().map(|timer| timer.id).collect();
        Ok(DueTimers { transaction, ids, timers })
    }
}

impl DueTimers {
    /// Removes the timers in `published` and postpones the others by one second, so that they do not block timers that can be published.
    /// After an error, all timers stay due, and messages that were already published are published again with the same ids.
    pub async fn done(mut self, published: &[Uuid]) -> Result<(), Error> {
        if !published.is_empty() {
            sqlx::query!("DELETE FROM timer WHERE id = ANY($1)", published)
                .execute(&mut *self.transaction)
                .await?;
        }
        self.ids.retain(|id| !published.contains(id));
        postpone(&mut self.transaction, &self.ids, POSTPONED).await?;
        self.transaction.commit().await?;
        Ok(())
    }
}

async fn postpone(connection: &mut PgConnection, timers: &[Uuid], delay: Duration) -> Result<(), Error> {
    if timers.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "UPDATE timer SET due_at = now() + $2::float8 * interval '1 second' WHERE id = ANY($1)",
        timers,
        delay.as_secs_f64()
    )
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn insert(connection: &mut PgConnection, timers: &[NewTimer]) -> Result<(), Error> {
    if timers.is_empty() {
        return Ok(());
    }
    columns! { timer in timers =>
        id = timer.id,
        due_at = instant(timer.due_at),
        stream = timer.stream.to_string(),
        message = timer.message.as_slice(),
        app_id = timer.app.0,
        send_id = timer.send_id.map(|id| id.0),
        user_number = timer.user.map(|user| user.0),
        delivery_id = timer.wait.as_ref().map(|wait| wait.delivery.0),
        wait_reason = timer.wait.as_ref().map(|wait| wait.reason.as_str()),
        provider = timer.wait.as_ref().and_then(|wait| wait.provider.as_deref()),
        code = timer.wait.as_ref().and_then(|wait| wait.code.as_deref()),
    }
    sqlx::query!(
        "INSERT INTO timer (id, due_at, stream, message, app_id, send_id, user_number, delivery_id, wait_reason, provider, code)
         SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::bytea[], $5::bigint[], $6::uuid[], $7::bigint[],
           $8::uuid[], $9::text[], $10::text[], $11::text[])",
        &id,
        &due_at,
        &stream,
        &message as &[&[u8]],
        &app_id,
        &send_id as &[Option<Uuid>],
        &user_number as &[Option<i64>],
        &delivery_id as &[Option<Uuid>],
        &wait_reason as &[Option<&str>],
        &provider as &[Option<&str>],
        &code as &[Option<&str>]
    )
    .execute(connection)
    .await?;
    Ok(())
}
