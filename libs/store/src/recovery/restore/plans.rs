//! Restore of the plans of chunks from the log, and of the users that the plans name.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::event::{ChunkPlanned, Shape};
use domain::plan::Decision;
use domain::send::{CHUNK_RECIPIENTS, Recipient};
use domain::{AppId, SendId, UserNumber};
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection, Row};

use crate::Error;
use crate::erasure::digest;
use crate::recovery::restore::{Restore, number};
use crate::sends::chunk::Chunk;
use crate::sends::plan::{self, Decisions};

/// A planned chunk found in the log.
#[derive(Clone, Debug)]
pub struct FoundPlan {
    pub app: AppId,
    pub send_id: SendId,
    pub planned: ChunkPlanned,
}

/// Numbers of objects that were restored from plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoredPlans {
    /// Number of restored chunks.
    pub chunks: u64,
    /// Number of created users.
    pub users: u64,
}

/// A chunk that can be frozen again, with its plan from the log.
type PlannedChunk<'a> = (Chunk, &'a ChunkPlanned);

impl Restore {
    /// Freezes chunks again: stores their decisions, as found in the log. Skips a chunk if its send is unknown, the log does
    /// not contain its decisions, or one of its jobs is missing. A skipped chunk is planned again later.
    ///
    /// # Errors
    /// Returns an error and freezes no chunk if the database fails.
    pub async fn add_plans(&mut self, plans: &[FoundPlan]) -> Result<RestoredPlans, Error> {
        let mut transaction = self.connection.begin().await?;
        let chunks = restorable(&mut transaction, plans).await?;
        let users = chunks.iter().flat_map(named_users).collect();
        let users = add_users(&mut transaction, &users).await?;
        freeze(&mut transaction, &chunks).await?;
        let decisions: Vec<Decisions> = chunks.iter().map(decisions).collect();
        let decided: Vec<_> =
            chunks.iter().zip(&decisions).map(|((chunk, _), made)| (0, chunk, made)).collect();
        plan::write_recipients(&mut transaction, &decided).await?;
        transaction.commit().await?;
        Ok(RestoredPlans { chunks: chunks.len() as u64, users })
    }
}

/// Returns the chunks that can be restored and are not frozen yet. Each chunk is in the result once.
async fn restorable<'a>(
    connection: &mut PgConnection,
    plans: &'a [FoundPlan],
) -> Result<Vec<PlannedChunk<'a>>, Error> {
    let rows = sqlx::query(
        "SELECT place, r.accepted_at, r.body
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::bigint[])
           WITH ORDINALITY AS named (app_id, send_id, turn, deliveries, place)
         JOIN request r USING (app_id, send_id)
         WHERE r.body IS NOT NULL AND NOT EXISTS (
           SELECT FROM plan p WHERE (p.app_id, p.send_id, p.turn) = (named.app_id, named.send_id, named.turn)
         ) AND deliveries <= (
           SELECT count(*) FROM delivery d WHERE (d.app_id, d.send_id) = (named.app_id, named.send_id)
             AND d.recipient_index >= named.turn * $5 AND d.recipient_index < (named.turn + 1) * $5
         )
         ORDER BY place",
    )
    .bind(plans.iter().map(|found| found.app.0).collect::<Vec<_>>())
    .bind(plans.iter().map(|found| found.send_id.0).collect::<Vec<_>>())
    .bind(plans.iter().map(|found| number(found.planned.chunk)).collect::<Vec<_>>())
    .bind(plans.iter().map(|found| i64::from(found.planned.deliveries)).collect::<Vec<_>>())
    .bind(i32::try_from(CHUNK_RECIPIENTS).unwrap_or(i32::MAX))
    .fetch_all(connection)
    .await?;
    let mut chunks = Vec::with_capacity(rows.len());
    let mut seen = HashSet::new();
    for row in rows {
        let place: i64 = row.try_get("place")?;
        let Some(found) = usize::try_from(place - 1).ok().and_then(|place| plans.get(place)) else {
            continue;
        };
        let Json(send): Json<domain::SendRequest> = row.try_get("body")?;
        let accepted_at: DateTime<Utc> = row.try_get("accepted_at")?;
        let FoundPlan { app, send_id, planned } = found;
        let decided = planned.decided.as_ref().map_or(0, |decided| decided.recipients.len());
        if decided > 0
            && decided == send.chunk(planned.chunk).len()
            && seen.insert((app, send_id, planned.chunk))
        {
            let chunk = Chunk {
                app: *app,
                send_id: *send_id,
                chunk: planned.chunk,
                accepted_at: accepted_at.into(),
                send: Arc::new(send),
            };
            chunks.push((chunk, planned));
        }
    }
    Ok(chunks)
}

/// Lists the recipients of a chunk for whom the log contains a decision. Each element is the recipient's index in the send,
/// the recipient, the user, and the decision without its deliveries.
fn decided<'a>(
    (chunk, planned): &'a PlannedChunk<'_>,
) -> impl Iterator<Item = (u32, &'a Recipient, Option<UserNumber>, &'a Shape)> {
    let first = chunk.chunk.saturating_mul(u32::try_from(CHUNK_RECIPIENTS).unwrap_or(u32::MAX));
    let decided = planned.decided.iter().flat_map(|decided| decided.each());
    let recipients = chunk.send.chunk(chunk.chunk).iter();
    (first..)
        .zip(recipients)
        .zip(decided)
        .filter_map(|((index, recipient), (user, shape))| Some((index, recipient, user, shape?)))
}

fn named_users<'a>(chunk: &'a PlannedChunk<'_>) -> impl Iterator<Item = ((i64, i64), &'a str)> {
    let app = chunk.0.app;
    decided(chunk)
        .filter(|(_, recipient, ..)| !recipient.is_erased())
        .filter_map(move |(_, recipient, user, _)| Some(((app.0, user?.0), recipient.identifier.as_str())))
}

fn decisions(chunk: &PlannedChunk<'_>) -> Decisions {
    decided(chunk)
        .map(|(index, recipient, user, shape)| {
            let identifier = if shape.is_of_erased() { String::new() } else { recipient.identifier.clone() };
            let skips = shape.skips.clone();
            (index, Decision { identifier, user, in_app: shape.in_app, deliveries: Vec::new(), skips })
        })
        .collect()
}

/// Creates users that do not exist, with the given app, number and identifier. Returns the number of created users. Does not
/// create erased users again, but stores their digests with their erasures, so that the planning of earlier sends leaves
/// them out.
pub(super) async fn add_users(
    connection: &mut PgConnection,
    users: &BTreeMap<(i64, i64), &str>,
) -> Result<u64, Error> {
    let apps: Vec<i64> = users.keys().map(|(app, _)| *app).collect();
    let numbers: Vec<i64> = users.keys().map(|(_, number)| *number).collect();
    let identifiers: Vec<&str> = users.values().copied().collect();
    let created: i64 = sqlx::query_scalar(concat!(
        "WITH named AS (
           SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS named (app_id, number, identifier)
         ), recognised AS (
           UPDATE erased e SET digest = ",
        digest!("named.app_id", "named.identifier"),
        " FROM named
           WHERE (e.app_id, e.user_number) = (named.app_id, named.number) AND e.digest IS NULL AND e.done_at IS NULL
         ), created AS (
           INSERT INTO app_user (app_id, number, identifier) OVERRIDING SYSTEM VALUE
           SELECT * FROM named
           WHERE NOT EXISTS (SELECT FROM erased e WHERE (e.app_id, e.user_number) = (named.app_id, named.number))
           ON CONFLICT DO NOTHING RETURNING 1
         )
         SELECT count(*) FROM created"
    ))
    .bind(&apps)
    .bind(&numbers)
    .bind(&identifiers)
    .fetch_one(connection)
    .await?;
    Ok(created.cast_unsigned())
}

/// Inserts the plan rows of the chunks. Stores the category and the template version of each chunk in its request if the
/// request has none.
async fn freeze(connection: &mut PgConnection, chunks: &[PlannedChunk<'_>]) -> Result<(), Error> {
    let template = |planned: &ChunkPlanned| planned.decided.as_ref()?.template;
    let category = |planned: &ChunkPlanned| planned.decided.as_ref()?.category;
    sqlx::query(
        "WITH named AS (
           SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::bigint[], $5::bigint[], $6::int[])
             AS named (app_id, send_id, turn, category, template, version)
         ), pinned AS (
           UPDATE request r SET category_id = coalesce(r.category_id, named.category),
             template_id = coalesce(r.template_id, named.template),
             template_version = coalesce(r.template_version, named.version)
           FROM named WHERE (r.app_id, r.send_id) = (named.app_id, named.send_id)
         )
         INSERT INTO plan (app_id, send_id, turn) SELECT app_id, send_id, turn FROM named",
    )
    .bind(chunks.iter().map(|(chunk, _)| chunk.app.0).collect::<Vec<_>>())
    .bind(chunks.iter().map(|(chunk, _)| chunk.send_id.0).collect::<Vec<_>>())
    .bind(chunks.iter().map(|(chunk, _)| number(chunk.chunk)).collect::<Vec<_>>())
    .bind(chunks.iter().map(|(_, planned)| category(planned).map(|id| id.0)).collect::<Vec<_>>())
    .bind(chunks.iter().map(|(_, planned)| template(planned).map(|(id, _)| id.0)).collect::<Vec<_>>())
    .bind(chunks.iter().map(|(_, planned)| template(planned).map(|(_, version)| version)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}
