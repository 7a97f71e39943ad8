use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use domain::event::{ChunkPlanned, Shape};
use domain::plan::Decision;
use domain::send::{CHUNK_RECIPIENTS, Recipient};
use domain::{AppId, Expansion, SendId, UserNumber};
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};

use crate::Error;
use crate::database::columns::{columns, integer};
use crate::recovery::restore::Restore;
use crate::sends::chunk::Chunk;
use crate::sends::expansion;
use crate::sends::plan;
use crate::sends::planned_chunk::{Decisions, PlannedChunk};

#[derive(Clone, Debug)]
pub struct FoundPlan {
    pub app: AppId,
    pub send_id: SendId,
    pub planned: ChunkPlanned,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoredPlans {
    pub chunks: u64,
    pub users: u64,
}

/// A chunk that can be frozen again, with its plan from the log.
type FoundChunk<'a> = (Chunk, &'a ChunkPlanned);

impl Restore {
    /// Freezes chunks again. Skips a chunk if its send is unknown, the log does not contain its decisions, or one of its jobs is missing. A
    /// skipped chunk is planned again later.
    pub async fn add_plans(&mut self, plans: &[FoundPlan]) -> Result<RestoredPlans, Error> {
        let mut transaction = self.connection.begin().await?;
        let chunks = restorable(&mut transaction, plans).await?;
        let users = chunks.iter().flat_map(named_users).collect();
        let users = add_users(&mut transaction, &users).await?;
        freeze(&mut transaction, &chunks).await?;
        let planned = chunks.into_iter().map(|found| {
            let decisions = decisions(&found);
            PlannedChunk { decisions, ..PlannedChunk::new(found.0, true) }
        });
        let planned: Vec<_> = planned.collect();
        plan::write_decisions(&mut transaction, &planned.iter().collect::<Vec<_>>()).await?;
        transaction.commit().await?;
        Ok(RestoredPlans { chunks: planned.len() as u64, users })
    }
}

/// Leaves out chunks that are frozen, and repeated ones.
async fn restorable<'a>(
    connection: &mut PgConnection,
    plans: &'a [FoundPlan],
) -> Result<Vec<FoundChunk<'a>>, Error> {
    columns! { found in plans =>
        app_id = found.app.0,
        send_id = found.send_id.0,
        chunk = integer(found.planned.chunk),
        deliveries = i64::from(found.planned.deliveries),
    }
    let rows = sqlx::query!(
        r#"SELECT place AS "place!", r.accepted_at, r.body AS "body!: Json<domain::SendRequest>"
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::bigint[])
           WITH ORDINALITY AS named (app_id, send_id, turn, deliveries, place)
         JOIN request r USING (app_id, send_id)
         WHERE r.body IS NOT NULL AND NOT EXISTS (
           SELECT FROM plan p WHERE (p.app_id, p.send_id, p.turn) = (named.app_id, named.send_id, named.turn)
         ) AND deliveries <= (
           SELECT count(*) FROM delivery d WHERE (d.app_id, d.send_id) = (named.app_id, named.send_id)
             AND d.recipient_index >= named.turn * $5 AND d.recipient_index < (named.turn + 1) * $5
         )
         ORDER BY place"#,
        &app_id,
        &send_id,
        &chunk,
        &deliveries,
        integer(CHUNK_RECIPIENTS)
    )
    .fetch_all(connection)
    .await?;
    let mut chunks = Vec::with_capacity(rows.len());
    let mut seen = HashSet::new();
    for row in rows {
        let Some(found) = usize::try_from(row.place - 1).ok().and_then(|place| plans.get(place)) else {
            continue;
        };
        let Json(send) = row.body;
        let FoundPlan { app, send_id, planned } = found;
        let (number, accepted_at) = (planned.chunk, row.accepted_at.into());
        let expansion = planned.expansion.clone().map(Arc::new);
        let chunk = Chunk { expansion, ..Chunk::listed(*app, *send_id, number, accepted_at, Arc::new(send)) };
        if planned
            .decided
            .as_ref()
            .is_some_and(|decided| decided.recipients.len() == chunk.recipients().len())
            && (chunk.send.has_topics() || !chunk.recipients().is_empty())
            && seen.insert((app, send_id, planned.chunk))
        {
            chunks.push((chunk, planned));
        }
    }
    Ok(chunks)
}

/// Lists the recipients of a chunk for whom the log contains a decision. Each element is the recipient's index in the send, the recipient,
/// the user, and the decision without its deliveries.
fn decided<'a>(
    (chunk, planned): &'a FoundChunk<'_>,
) -> impl Iterator<Item = (u32, &'a Recipient, Option<UserNumber>, &'a Shape)> {
    let first = chunk.chunk.saturating_mul(u32::try_from(CHUNK_RECIPIENTS).unwrap_or(u32::MAX));
    let decided = planned.decided.iter().flat_map(|decided| decided.each());
    let recipients = chunk.recipients().iter();
    (first..)
        .zip(recipients)
        .zip(decided)
        .filter_map(|((index, recipient), (user, shape))| Some((index, recipient, user, shape?)))
}

fn named_users<'a>(chunk: &'a FoundChunk<'_>) -> impl Iterator<Item = ((i64, i64), &'a str)> {
    let app = chunk.0.app;
    decided(chunk)
        .filter(|(_, recipient, ..)| !recipient.is_erased())
        .filter_map(move |(_, recipient, user, _)| Some(((app.0, user?.0), recipient.identifier.as_str())))
}

fn decisions(chunk: &FoundChunk<'_>) -> Decisions {
    decided(chunk)
        .map(|(index, recipient, user, shape)| {
            let identifier = if shape.is_of_erased() { String::new() } else { recipient.identifier.clone() };
            let skips = shape.skips.clone();
            (
                index,
                Decision {
                    identifier,
                    user,
                    in_app: shape.in_app,
                    deliveries: Vec::new(),
                    skips,
                    missing: Vec::new(),
                },
            )
        })
        .collect()
}

/// Creates missing users with the given numbers. Does not create erased users again, but stores their digests with their erasures, so that
/// the planning of earlier sends leaves them out.
pub(super) async fn add_users(
    connection: &mut PgConnection,
    users: &BTreeMap<(i64, i64), &str>,
) -> Result<u64, Error> {
    columns! { ((app, user), name) in users =>
        app_id = *app,
        number = *user,
        identifier = *name,
    }
    let created = sqlx::query_scalar!(
        r#"WITH named AS (
           SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS named (app_id, number, identifier)
         ), recognised AS (
           UPDATE erased e SET digest = sha256(convert_to(named.app_id || E'\n' || named.identifier, 'UTF8')) FROM named
           WHERE (e.app_id, e.user_number) = (named.app_id, named.number) AND e.digest IS NULL AND e.done_at IS NULL
         ), created AS (
           INSERT INTO app_user (app_id, number, identifier) OVERRIDING SYSTEM VALUE
           SELECT * FROM named
           WHERE NOT EXISTS (SELECT FROM erased e WHERE (e.app_id, e.user_number) = (named.app_id, named.number))
           ON CONFLICT DO NOTHING RETURNING 1
         )
         SELECT count(*) AS "created!" FROM created"#,
        &app_id,
        &number,
        &identifier as &[&str]
    )
    .fetch_one(connection)
    .await?;
    Ok(created.cast_unsigned())
}

/// Stores the category and the template version of each chunk in its request if the request has none.
async fn freeze(connection: &mut PgConnection, chunks: &[FoundChunk<'_>]) -> Result<(), Error> {
    let template = |planned: &ChunkPlanned| planned.decided.as_ref()?.template;
    let category = |planned: &ChunkPlanned| planned.decided.as_ref()?.category;
    columns! { (chunk, planned) in chunks =>
        app_id = chunk.app.0,
        send_id = chunk.send_id.0,
        turn = integer(chunk.chunk),
        categories = category(planned).map(|id| id.0),
        templates = template(planned).map(|(id, _)| id.0),
        versions = template(planned).map(|(_, version)| version),
        expansions = expansion::stored(chunk),
    }
    sqlx::query!(
        "WITH named AS (
           SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::bigint[], $5::bigint[], $6::int[], $7::jsonb[])
             AS named (app_id, send_id, turn, category, template, version, expansion)
         ), pinned AS (
           UPDATE request r SET category_id = coalesce(r.category_id, named.category),
             template_id = coalesce(r.template_id, named.template),
             template_version = coalesce(r.template_version, named.version)
           FROM named WHERE (r.app_id, r.send_id) = (named.app_id, named.send_id)
         )
         INSERT INTO plan (app_id, send_id, turn, expansion) SELECT app_id, send_id, turn, expansion FROM named",
        &app_id,
        &send_id,
        &turn,
        &categories as &[Option<i64>],
        &templates as &[Option<i64>],
        &versions as &[Option<i32>],
        &expansions as &[Option<Json<Expansion>>]
    )
    .execute(&mut *connection)
    .await?;
    expansion::add_to_requests(connection, chunks.iter().map(|(chunk, _)| chunk)).await
}
