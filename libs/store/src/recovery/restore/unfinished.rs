//! Sends of which some chunks may still have to be planned, or their plans published.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::send::CHUNK_RECIPIENTS;
use domain::{AppId, SendId};
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::Error;
use crate::database::columns::{columns, integer};
use crate::deliveries::timer::{self, NewTimer};
use crate::recovery::restore::{Restore, plans};
use crate::sends::chunk::Chunk;

#[derive(Clone, Debug)]
pub struct UnfinishedSend {
    /// With the number of its next chunk to process.
    pub send: Chunk,
    /// False if all chunks of the send have been processed.
    pub is_open: bool,
    /// True if this chunk is frozen, and further subscribers of the send's topics may follow.
    pub is_expanding: bool,
}

impl Restore {
    /// Lists up to `limit` sends whose body is stored, in key order.
    pub async fn unfinished(
        &mut self,
        after: Option<(AppId, SendId)>,
        limit: i64,
    ) -> Result<Vec<UnfinishedSend>, Error> {
        let rows = sqlx::query_as!(
            StoredRow,
            r#"SELECT r.app_id, r.send_id, r.accepted_at, r.body AS "body!: Json<domain::SendRequest>",
               ARRAY(SELECT turn FROM plan p WHERE (p.app_id, p.send_id) = (r.app_id, r.send_id)) AS "frozen!"
             FROM request r
             WHERE r.body IS NOT NULL AND ($1::bigint IS NULL OR (r.app_id, r.send_id) > ($1, $2))
             ORDER BY r.app_id, r.send_id LIMIT $3"#,
            after.map(|(app, _)| app.0),
            after.map(|(_, send_id)| send_id.0),
            limit
        )
        .fetch_all(&mut self.connection)
        .await?;
        Ok(rows.into_iter().map(unfinished_send).collect())
    }

    /// Sets the timers that start the next chunks, and removes the bodies that no further chunk needs. Before that, creates missing users
    /// that have deliveries of these sends, with the user number in the delivery, so that planning makes the same decisions again. Returns
    /// the number of created users.
    pub async fn plan_open(&mut self, sends: &[UnfinishedSend], timers: &[NewTimer]) -> Result<u64, Error> {
        let mut transaction = self.connection.begin().await?;
        let mut users = 0;
        for unfinished in sends.iter().filter(|unfinished| unfinished.is_open) {
            users += add_users(&mut transaction, &unfinished.send).await?;
        }
        set_timers(&mut transaction, timers).await?;
        let done: Vec<_> =
            sends.iter().filter(|unfinished| !unfinished.send.send.needs_stored_body()).collect();
        columns! { unfinished in done =>
            app_id = unfinished.send.app.0,
            send_id = unfinished.send.send_id.0,
        }
        sqlx::query!(
            "UPDATE request r SET body = NULL FROM unnest($1::bigint[], $2::uuid[]) AS done (app_id, send_id)
             WHERE (r.app_id, r.send_id) = (done.app_id, done.send_id)",
            &app_id,
            &send_id
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(users)
    }
}

async fn add_users(connection: &mut PgConnection, send: &Chunk) -> Result<u64, Error> {
    let named = sqlx::query!(
        "SELECT DISTINCT recipient_index, user_number FROM delivery
         WHERE app_id = $1 AND send_id = $2 AND recipient_index >= 0",
        send.app.0,
        send.send_id.0
    )
    .fetch_all(&mut *connection)
    .await?;
    let first = send.chunk as usize * CHUNK_RECIPIENTS;
    let recipient = |index: i32| {
        let index = usize::try_from(index).ok()?;
        match &send.expansion {
            Some(expansion) if index >= first => expansion.recipients.get(index - first),
            _ => send.send.recipients.get(index),
        }
    };
    let named = named.iter().filter_map(|row| Some((row.user_number, recipient(row.recipient_index)?)));
    let users = named
        .filter(|(_, recipient)| !recipient.is_erased())
        .map(|(number, recipient)| ((send.app.0, number), recipient.identifier.as_str()))
        .collect();
    plans::add_users(connection, &users).await
}

/// Replaces timers with the same ids, which an interrupted restore may have set.
pub(super) async fn set_timers(connection: &mut PgConnection, timers: &[NewTimer]) -> Result<(), Error> {
    sqlx::query!(
        "DELETE FROM timer WHERE id = ANY($1)",
        &timers.iter().map(|timer| timer.id).collect::<Vec<_>>()
    )
    .execute(&mut *connection)
    .await?;
    timer::insert(connection, timers).await
}

struct StoredRow {
    app_id: i64,
    send_id: Uuid,
    accepted_at: DateTime<Utc>,
    body: Json<domain::SendRequest>,
    frozen: Vec<i32>,
}

/// Determines the next chunk to process, which starts the chunk after it. If all chunks whose recipients the send names are frozen, the
/// plan of the last one may not have been published, and further subscribers of its topics may follow. It is then processed again, but only
/// if the send has several chunks or is scheduled.
fn unfinished_send(row: StoredRow) -> UnfinishedSend {
    let Json(send) = row.body;
    let named = integer(send.chunks());
    let frozen: HashSet<i32> = row.frozen.into_iter().collect();
    let open = (0..).find(|chunk| !frozen.contains(chunk)).unwrap_or(named);
    let next = if open < named { Some(open) } else { send.needs_stored_body().then_some(open - 1) };
    let number = next.and_then(|next| u32::try_from(next).ok()).unwrap_or_default();
    let (app, send_id) = (AppId(row.app_id), SendId(row.send_id));
    let chunk = Chunk::listed(app, send_id, number, row.accepted_at.into(), Arc::new(send));
    let is_expanding = open >= named && chunk.send.has_topics();
    UnfinishedSend { send: chunk, is_open: next.is_some(), is_expanding }
}
