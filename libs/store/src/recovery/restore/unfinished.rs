//! Sends whose chunks may still have to be planned, or whose plan may still have to be published.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::{AppId, SendId};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection, Row};

use crate::Error;
use crate::deliveries::timer::{self, NewTimer};
use crate::recovery::restore::{Restore, plans};
use crate::sends::chunk::Chunk;

/// A send whose body is stored.
#[derive(Clone, Debug)]
pub struct UnfinishedSend {
    /// The send, with the number of its next chunk to process.
    pub send: Chunk,
    /// True if this chunk must be processed; false if all chunks of the send have been processed.
    pub is_open: bool,
}

impl Restore {
    /// Lists up to `limit` sends whose body is stored, in key order, starting after the key `after`.
    ///
    /// # Errors
    /// Returns an error if the database fails, or if a body cannot be decoded.
    pub async fn unfinished(
        &mut self,
        after: Option<(AppId, SendId)>,
        limit: i64,
    ) -> Result<Vec<UnfinishedSend>, Error> {
        let rows = sqlx::query(
            "SELECT r.app_id, r.send_id, r.accepted_at, r.body,
               ARRAY(SELECT turn FROM plan p WHERE (p.app_id, p.send_id) = (r.app_id, r.send_id)) AS frozen
             FROM request r
             WHERE r.body IS NOT NULL AND ($1::bigint IS NULL OR (r.app_id, r.send_id) > ($1, $2))
             ORDER BY r.app_id, r.send_id LIMIT $3",
        )
        .bind(after.map(|(app, _)| app.0))
        .bind(after.map(|(_, send_id)| send_id.0))
        .bind(limit)
        .fetch_all(&mut self.connection)
        .await?;
        rows.iter().map(read).collect()
    }

    /// Sets the timers that start the next chunks, and removes the bodies that no further chunk needs. First creates missing
    /// users that the jobs in the log name, with their previous numbers, so that planning makes the same decisions again.
    /// Returns the number of created users.
    ///
    /// # Errors
    /// Returns an error and changes nothing if the database fails.
    pub async fn plan_open(&mut self, sends: &[UnfinishedSend], timers: &[NewTimer]) -> Result<u64, Error> {
        let mut transaction = self.connection.begin().await?;
        let mut users = 0;
        for unfinished in sends.iter().filter(|unfinished| unfinished.is_open) {
            users += add_users(&mut transaction, &unfinished.send).await?;
        }
        set_timers(&mut transaction, timers).await?;
        let done = sends.iter().filter(|unfinished| !unfinished.send.send.needs_stored_body());
        let (apps, send_ids): (Vec<i64>, Vec<_>) =
            done.map(|done| (done.send.app.0, done.send.send_id.0)).unzip();
        sqlx::query(
            "UPDATE request r SET body = NULL FROM unnest($1::bigint[], $2::uuid[]) AS done (app_id, send_id)
             WHERE (r.app_id, r.send_id) = (done.app_id, done.send_id)",
        )
        .bind(apps)
        .bind(send_ids)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(users)
    }
}

async fn add_users(connection: &mut PgConnection, send: &Chunk) -> Result<u64, Error> {
    let named: Vec<(i32, i64)> = sqlx::query_as(
        "SELECT DISTINCT recipient_index, user_number FROM delivery
         WHERE app_id = $1 AND send_id = $2 AND recipient_index >= 0",
    )
    .bind(send.app.0)
    .bind(send.send_id.0)
    .fetch_all(&mut *connection)
    .await?;
    let recipient = |index: i32| send.send.recipients.get(usize::try_from(index).ok()?);
    let named = named.into_iter().filter_map(|(index, number)| Some((number, recipient(index)?)));
    let users = named
        .filter(|(_, recipient)| !recipient.is_erased())
        .map(|(number, recipient)| ((send.app.0, number), recipient.identifier.as_str()))
        .collect();
    plans::add_users(connection, &users).await
}

/// Sets timers. Replaces timers with the same ids, which an interrupted restore may have set.
pub(super) async fn set_timers(connection: &mut PgConnection, timers: &[NewTimer]) -> Result<(), Error> {
    sqlx::query("DELETE FROM timer WHERE id = ANY($1)")
        .bind(timers.iter().map(|timer| timer.id).collect::<Vec<_>>())
        .execute(&mut *connection)
        .await?;
    timer::insert(connection, timers).await
}

/// Reads a send and determines the next chunk to process. Processing this chunk starts the chunk after it. If all chunks are
/// frozen, the plan of the last chunk may not have been published. The last chunk is then processed again, but only if the
/// send has several chunks or is scheduled.
fn read(row: &PgRow) -> Result<UnfinishedSend, Error> {
    let Json(send): Json<domain::SendRequest> = row.try_get("body")?;
    let accepted_at: DateTime<Utc> = row.try_get("accepted_at")?;
    let frozen: Vec<i32> = row.try_get("frozen")?;
    let chunks = i32::try_from(send.chunks()).unwrap_or(i32::MAX);
    let open = (0..chunks).find(|chunk| !frozen.contains(chunk));
    let next = open.or(send.needs_stored_body().then_some(chunks - 1));
    let chunk = Chunk {
        app: AppId(row.try_get("app_id")?),
        send_id: SendId(row.try_get("send_id")?),
        chunk: next.and_then(|next| u32::try_from(next).ok()).unwrap_or_default(),
        accepted_at: accepted_at.into(),
        send: Arc::new(send),
    };
    Ok(UnfinishedSend { send: chunk, is_open: next.is_some() })
}
