//! Freezing chunks: a transaction stores the decisions of a chunk, which never change afterwards.

pub(crate) mod locks;
mod render_failure;
mod stored;

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use domain::plan::{Decision, PlannedDelivery};
use domain::{AppId, Channel, Expansion, Reason, SendId, UserNumber};
use sqlx::types::Json;
use sqlx::{PgConnection, Postgres, Transaction};

use crate::database::columns::{columns, integer};
use crate::database::instant::instant;
use crate::sends::chunk::Chunk;
use crate::sends::facts::{self, Facts};
use crate::sends::planned_chunk::PlannedChunk;
use crate::sends::send::{self, NewRequest};
use crate::{Error, Sends, deliveries::attachment, sends::expansion};

pub use locks::{BusyLocks, ChunkLocks};
pub use render_failure::RenderFailure;

/// An open transaction that freezes chunks. If the value is dropped without [`Freeze::commit`], nothing is written.
#[derive(Debug)]
pub struct Freeze {
    transaction: Transaction<'static, Postgres>,
    /// In the order in which they were given. The caller makes the decisions of the new ones.
    pub chunks: Vec<PlannedChunk>,
}

impl Sends<'_> {
    /// Waits for the locks that are needed; see [`Sends::lock_all_chunks`] and [`ChunkLocks::freeze`].
    pub async fn freeze(self, chunks: &[Chunk]) -> Result<Freeze, Error> {
        self.lock_all_chunks(chunks).await?.freeze(chunks.to_vec()).await
    }
}

impl Freeze {
    async fn begin(
        mut transaction: Transaction<'static, Postgres>,
        chunks: Vec<Chunk>,
    ) -> Result<Freeze, Error> {
        columns! { chunk in chunks =>
            apps = chunk.app.0,
            sends = chunk.send_id.0,
            numbers = integer(chunk.chunk),
            expansions = expansion::stored(chunk),
        }
        let rows = sqlx::query!(
            "INSERT INTO plan (app_id, send_id, turn, expansion)
             SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::jsonb[])
               AS new (app_id, send_id, turn, expansion)
             ORDER BY app_id, send_id, turn
             ON CONFLICT DO NOTHING RETURNING app_id, send_id, turn",
            &apps,
            &sends,
            &numbers,
            &expansions as &[Option<Json<Expansion>>]
        )
        .fetch_all(&mut *transaction)
        .await?;
        let mut inserted: HashSet<_> =
            rows.into_iter().map(|row| (AppId(row.app_id), SendId(row.send_id), row.turn)).collect();
        let chunks = chunks.into_iter().map(|chunk| {
            // If `chunks` contains the same chunk twice, only the first one counts as new.
            let is_new = inserted.remove(&(chunk.app, chunk.send_id, integer(chunk.chunk)));
            PlannedChunk::new(chunk, is_new)
        });
        Ok(Freeze { transaction, chunks: chunks.collect() })
    }

    /// Merges the inline profiles of the new chunks and creates their missing categories, unless their send is cancelled. Then reads the
    /// facts that are needed to make the decisions and to render the content, into the chunks and into the result. Until the transaction
    /// ends, the sends cannot be cancelled.
    pub async fn write_profiles_and_read_facts(&mut self) -> Result<Facts, Error> {
        facts::write_profiles_and_read(&mut self.transaction, &mut self.chunks).await
    }

    /// Stores the decisions of the new chunks, all or none. Returns all chunks.
    pub async fn commit(mut self, facts: &Facts) -> Result<Vec<PlannedChunk>, Error> {
        let new: Vec<_> = self.chunks.iter().filter(|planned| planned.is_new).collect();
        write_requests(&mut self.transaction, facts, &new).await?;
        let chunks = new.iter().map(|planned| &planned.chunk);
        expansion::add_to_requests(&mut self.transaction, chunks).await?;
        write_decisions(&mut self.transaction, &new).await?;
        self.transaction.commit().await?;
        Ok(self.chunks)
    }
}

async fn write_requests(
    transaction: &mut Transaction<'static, Postgres>,
    facts: &Facts,
    new: &[&PlannedChunk],
) -> Result<(), Error> {
    let first: Vec<_> = new
        .iter()
        .filter(|planned| planned.chunk.chunk == 0)
        .map(|planned| (planned, facts.without_erased(&planned.chunk)))
        .collect();
    let requests: Vec<_> = first
        .iter()
        .map(|(planned, without_erased)| (planned, without_erased.as_ref().unwrap_or(&planned.chunk)))
        .map(|(planned, chunk)| NewRequest {
            chunk,
            category: planned.category.as_ref().map(|category| category.id),
            template: planned.template.as_ref().map(|template| (template.id, template.version)),
            body: chunk.send.needs_stored_body().then(|| &*chunk.send),
            delivery_ids: Some(facts.delivery_ids(chunk)),
        })
        .collect();
    send::write_requests(transaction, &requests).await?;
    for chunk in first.iter().filter_map(|(_, without_erased)| without_erased.as_ref()) {
        if chunk.send.has_only_erased_recipients() {
            attachment::remove(transaction, chunk.app, chunk.send_id).await?;
        }
    }
    Ok(())
}

pub(crate) async fn write_decisions(
    connection: &mut PgConnection,
    new: &[&PlannedChunk],
) -> Result<(), Error> {
    let decided = new.iter().flat_map(|PlannedChunk { chunk, decisions, .. }| {
        decisions.iter().map(move |(index, decision)| (chunk, *index, decision))
    });
    let decided: Vec<_> = decided.collect();
    let deliveries = decided.iter().flat_map(|&(chunk, index, decision)| {
        decision.deliveries.iter().map(move |delivery| (chunk, index, decision.user, delivery))
    });
    let deliveries: Vec<_> = deliveries.collect();
    columns! { (chunk, index, decision) in decided =>
        apps = chunk.app.0,
        sends = chunk.send_id.0,
        chunks = integer(chunk.chunk),
        indexes = integer(*index),
        identifiers = decision.identifier.as_str(),
        users = decision.user.map(|user| user.0),
        in_app = decision.in_app,
        skips = texts(decision.skips.iter().map(|(channel, reason)| (channel, reason.known_before()))),
        details = details_of(decision),
    }
    columns! { (chunk, index, user, delivery) in deliveries =>
        delivery_apps = chunk.app.0,
        ids = delivery.id.0,
        delivery_sends = chunk.send_id.0,
        delivery_indexes = integer(*index),
        delivery_users = user.map(|user| user.0),
        channels = delivery.channel.as_str(),
        targets = delivery.target.as_str(),
        expiries = chunk.send.expires_at.map(instant),
    }
    let written = sqlx::query_file!(
        "src/sends/plan/decisions.sql",
        &apps,
        &sends,
        &chunks,
        &indexes,
        &identifiers as &[&str],
        &users as &[Option<i64>],
        &in_app,
        &skips,
        &details as &[Option<String>],
        &delivery_apps,
        &ids,
        &delivery_sends,
        &delivery_indexes,
        &delivery_users as &[Option<i64>],
        &channels as &[&str],
        &targets as &[&str],
        &expiries as &[Option<DateTime<Utc>>]
    )
    .execute(&mut *connection)
    .await?;
    if written.rows_affected() < deliveries.len() as u64 {
        place_restored(connection, &deliveries).await?;
    }
    Ok(())
}

/// Jobs of earlier releases, from which a restore has created deliveries, did not contain the index of the recipient.
async fn place_restored(
    connection: &mut PgConnection,
    rows: &[(&Chunk, u32, Option<UserNumber>, &PlannedDelivery)],
) -> Result<(), Error> {
    columns! { (chunk, index, _, delivery) in rows =>
        apps = chunk.app.0,
        ids = delivery.id.0,
        indexes = integer(*index),
    }
    sqlx::query!(
        "UPDATE delivery d SET recipient_index = new.recipient_index
         FROM unnest($1::bigint[], $2::uuid[], $3::int[]) AS new (app_id, id, recipient_index)
         WHERE (d.app_id, d.id) = (new.app_id, new.id) AND d.recipient_index < 0",
        &apps,
        &ids,
        &indexes
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Form `channel:reason`, separated by commas.
fn texts<'a>(reasons: impl Iterator<Item = (&'a Channel, Reason)>) -> String {
    let texts: Vec<_> = reasons.map(|(channel, reason)| format!("{channel}:{reason}")).collect();
    texts.join(",")
}

/// Reasons of skips that the previous release cannot read, and missing variables as `missing:variable`, which it ignores.
fn details_of(decision: &Decision) -> Option<String> {
    let details = decision.skips.iter().filter_map(|(channel, reason)| Some((channel, reason.detail()?)));
    let missing = decision.missing.iter().map(|variable| format!("missing:{variable}"));
    let all: Vec<_> =
        Some(texts(details)).filter(|details| !details.is_empty()).into_iter().chain(missing).collect();
    Some(all.join(",")).filter(|details| !details.is_empty())
}

/// Parses elements of the form `channel:reason`. `details` has those for reasons that the previous release cannot read.
pub(crate) fn read_skips(
    skips: &[String],
    details: Option<&[String]>,
) -> Result<Vec<(Channel, Reason)>, Error> {
    let split =
        |text: &str| text.split_once(':').map(|(channel, reason)| (channel.to_owned(), reason.to_owned()));
    let details: Vec<_> = details.unwrap_or_default().iter().filter_map(|text| split(text)).collect();
    let read = |text: &String| {
        let (channel, reason) = split(text).ok_or_else(|| unreadable(format!("skip {text:?}")))?;
        let detail = details.iter().find(|(of, _)| *of == channel).map(|(_, detail)| detail.as_str());
        let reason: Reason = reason.parse().map_err(unreadable)?;
        Ok((channel.parse().map_err(unreadable)?, reason.with_detail(detail)))
    };
    skips.iter().map(read).collect()
}

fn unreadable(cause: impl std::fmt::Display) -> Error {
    Error::Unreadable(cause.to_string())
}
