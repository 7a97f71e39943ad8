use std::collections::HashMap;

use domain::plan::{Decision, PlannedDelivery};
use domain::send::CHUNK_RECIPIENTS;
use domain::{DeliveryId, Expansion, Reason, SendId, Status, UserNumber};
use sqlx::PgConnection;
use sqlx::types::Json;

use super::{Freeze, read_skips, unreadable};
use crate::Error;
use crate::database::columns::integer;
use crate::sends::chunk::Chunk;
use crate::sends::expansion;
use crate::sends::planned_chunk::Decisions;

impl Freeze {
    /// If a chunk was frozen for other subscribers than those that it has here, returns its send, and leaves out the remaining chunks.
    ///
    /// Leaves out deliveries that a worker has already processed. Includes deliveries that were cancelled or could not be rendered before
    /// their first attempt, because their outcomes may still be unpublished. The caller publishes a job for each of them, and the worker
    /// that receives the job publishes the outcome. If rendering fails again, the dispatcher publishes the outcome instead.
    pub async fn read_stored_decisions(&mut self) -> Result<Option<SendId>, Error> {
        let Freeze { transaction, chunks } = self;
        for planned in chunks.iter_mut().filter(|planned| !planned.is_new) {
            planned.decisions = stored_decisions(transaction, &planned.chunk).await?;
            if !planned.is_of_recipients() || !has_stored_end(transaction, &planned.chunk).await? {
                return Ok(Some(planned.chunk.send_id));
            }
        }
        Ok(None)
    }
}

async fn stored_decisions(connection: &mut PgConnection, chunk: &Chunk) -> Result<Decisions, Error> {
    let rows = sqlx::query!(
        "SELECT recipient_index, identifier, user_number, in_app, skips, details FROM planned_recipient
         WHERE app_id = $1 AND send_id = $2 AND recipient_index >= $3 AND recipient_index < $4 ORDER BY recipient_index",
        chunk.app.0,
        chunk.send_id.0,
        first_index(chunk.chunk),
        first_index(chunk.chunk.saturating_add(1))
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut waiting = waiting_deliveries(connection, chunk).await?;
    rows.into_iter()
        .map(|row| {
            let decision = Decision {
                identifier: row.identifier,
                user: row.user_number.map(UserNumber),
                in_app: row.in_app,
                deliveries: waiting.remove(&row.recipient_index).unwrap_or_default(),
                skips: read_skips(&row.skips, row.details.as_deref())?,
                missing: Vec::new(),
            };
            Ok((u32::try_from(row.recipient_index).unwrap_or_default(), decision))
        })
        .collect()
}

/// Returns true if the stored expansion of a chunk ended where that of `chunk` ends. Always true if the send names the recipients of the
/// chunk.
async fn has_stored_end(connection: &mut PgConnection, chunk: &Chunk) -> Result<bool, Error> {
    let Some(end) = expansion::stored(chunk) else {
        return Ok(true);
    };
    let stored = sqlx::query_scalar!(
        r#"SELECT expansion AS "expansion: Json<Expansion>" FROM plan
           WHERE app_id = $1 AND send_id = $2 AND turn = $3"#,
        chunk.app.0,
        chunk.send_id.0,
        integer(chunk.chunk)
    )
    .fetch_optional(connection)
    .await?;
    Ok(stored.flatten().is_some_and(|stored| stored.0 == end.0))
}

async fn waiting_deliveries(
    connection: &mut PgConnection,
    chunk: &Chunk,
) -> Result<HashMap<i32, Vec<PlannedDelivery>>, Error> {
    let rows = sqlx::query!(
        "SELECT recipient_index, id, channel, target FROM delivery
         WHERE app_id = $1 AND send_id = $2 AND recipient_index >= $3 AND recipient_index < $4
           AND attempt = 1 AND target <> ''
           AND (status = ANY($5) OR status = $6 AND reason = $7)",
        chunk.app.0,
        chunk.send_id.0,
        first_index(chunk.chunk),
        first_index(chunk.chunk.saturating_add(1)),
        &[Status::Queued, Status::Cancelled].map(Status::as_str) as &[&str],
        Status::Failed.as_str(),
        Reason::TemplateError.as_str()
    )
    .fetch_all(connection)
    .await?;
    let mut deliveries: HashMap<i32, Vec<PlannedDelivery>> = HashMap::new();
    for row in rows {
        deliveries.entry(row.recipient_index).or_default().push(PlannedDelivery {
            id: DeliveryId(row.id),
            channel: row.channel.parse().map_err(unreadable)?,
            target: row.target,
        });
    }
    Ok(deliveries)
}

fn first_index(chunk: u32) -> i32 {
    integer(chunk).saturating_mul(integer(CHUNK_RECIPIENTS))
}
