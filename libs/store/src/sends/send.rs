//! The row of a send in the table `request` contains its body until the last chunk is processed.

use chrono::{DateTime, Utc};
use domain::id::TemplateId;
use domain::{CategoryId, DeliveryIds, Lane, StreamName};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::database::columns::{columns, integer};
use crate::database::instant::instant;
use crate::deliveries::timer::{self, NewTimer};
use crate::erasure;
use crate::sends::cancellation_key;
use crate::sends::chunk::Chunk;
use crate::sends::expansion;
use crate::sends::plan::locks::TOGETHER;
use crate::sends::stored_send::is_first_chunk_frozen;
use crate::{Error, Sends, deliveries::attachment};

pub(crate) struct NewRequest<'a> {
    pub(crate) chunk: &'a Chunk,
    pub(crate) category: Option<CategoryId>,
    pub(crate) template: Option<(TemplateId, i32)>,
    pub(crate) body: Option<&'a domain::SendRequest>,
    /// None if the jobs in the log decide how ids are derived.
    pub(crate) delivery_ids: Option<DeliveryIds>,
}

impl Sends<'_> {
    /// Stores a send and the timer that continues it, both or neither. Leaves out erased recipients. Safe to repeat.
    ///
    /// Returns true if the send waits for its timer, and false if its first chunk is already frozen. If the result is false, the caller
    /// must process the chunk before it acknowledges the message that contains the send. A process that received the message earlier may
    /// have stopped right after it froze the chunk.
    pub async fn schedule(self, chunk: &Chunk, timer: &NewTimer) -> Result<bool, Error> {
        let mut transaction = self.0.begin_with_limit(TOGETHER).await?;
        let without_erased = erasure::without_erased(&mut transaction, chunk).await?;
        let chunk = without_erased.as_ref().unwrap_or(chunk);
        let request = NewRequest {
            chunk,
            category: None,
            template: None,
            body: Some(&chunk.send),
            delivery_ids: Some(DeliveryIds::TimeOrdered),
        };
        let written = write_requests_if_new(&mut transaction, &[request]).await? > 0;
        if written {
            let mut timer = timer.clone();
            if cancellation_key::cancel_if_marked(&mut transaction, chunk).await? {
                timer.due_at = chunk.accepted_at;
            }
            timer::insert(&mut transaction, &[timer]).await?;
        }
        if without_erased.as_ref().is_some_and(|chunk| chunk.send.has_only_erased_recipients()) {
            attachment::remove(&mut transaction, chunk.app, chunk.send_id).await?;
        }
        let waits = written || !is_first_chunk_frozen(&mut transaction, chunk).await?;
        transaction.commit().await?;
        Ok(waits)
    }
}

pub(crate) fn streams() -> Vec<String> {
    Lane::ALL.iter().map(|&lane| StreamName::Send(lane).to_string()).collect()
}

/// In existing rows, for instance that of a scheduled send, only the category and template version are updated.
pub(crate) async fn write_requests(
    connection: &mut PgConnection,
    requests: &[NewRequest<'_>],
) -> Result<(), Error> {
    if requests.is_empty() {
        return Ok(());
    }
    insert(connection, requests, Existing::Pinned).await?;
    Ok(())
}

/// Returns the number of written rows.
pub(crate) async fn write_requests_if_new(
    connection: &mut PgConnection,
    requests: &[NewRequest<'_>],
) -> Result<u64, Error> {
    insert(connection, requests, Existing::Kept).await
}

#[derive(Clone, Copy)]
enum Existing {
    Kept,
    /// The row gets the new category and template version.
    Pinned,
}

async fn insert(
    connection: &mut PgConnection,
    requests: &[NewRequest<'_>],
    existing: Existing,
) -> Result<u64, Error> {
    columns! { NewRequest { chunk, category, template, body, delivery_ids } in requests =>
        app_id = chunk.app.0,
        send_id = chunk.send_id.0,
        accepted_at = instant(chunk.accepted_at),
        send_at = chunk.send.send_at.map(instant),
        expires_at = chunk.send.expires_at.map(instant),
        lane = chunk.send.lane.as_str(),
        title = chunk.send.content.title.as_deref(),
        recipients = integer(chunk.send.recipients.len()),
        category_id = category.map(|id| id.0),
        template_id = template.map(|(id, _)| id.0),
        template_version = template.map(|(_, version)| version),
        stored = body.map(Json),
        ids = delivery_ids.map(DeliveryIds::number),
        topics = expansion::topics_without_recipients(&chunk.send),
        expanding = chunk.send.has_topics(),
    }
    // Defined here, so that it can use the columns by their names. The argument is the action for rows that already exist.
    macro_rules! insert_requests {
        ($action:literal) => {
            sqlx::query!(
                "INSERT INTO request (app_id, send_id, accepted_at, send_at, expires_at, lane, title, recipients,
                   category_id, template_id, template_version, body, delivery_ids, topics, expanding)
                 SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[],
                   $6::text[], $7::text[], $8::int[], $9::bigint[], $10::bigint[], $11::int[], $12::json[],
                   $13::smallint[], $14::jsonb[], $15::bool[])
                 ON CONFLICT (app_id, send_id) "
                    + $action,
                &app_id,
                &send_id,
                &accepted_at,
                &send_at as &[Option<DateTime<Utc>>],
                &expires_at as &[Option<DateTime<Utc>>],
                &lane as &[&str],
                &title as &[Option<&str>],
                &recipients,
                &category_id as &[Option<i64>],
                &template_id as &[Option<i64>],
                &template_version as &[Option<i32>],
                &stored as &[Option<Json<&domain::SendRequest>>],
                &ids as &[Option<i16>],
                &topics as &[Option<Json<Vec<(&str, u32)>>>],
                &expanding
            )
        };
    }
    let statement = match existing {
        Existing::Kept => insert_requests!("DO NOTHING"),
        Existing::Pinned => insert_requests!(
            "DO UPDATE SET category_id = excluded.category_id, template_id = excluded.template_id,
               template_version = excluded.template_version, delivery_ids = excluded.delivery_ids"
        ),
    };
    Ok(statement.execute(connection).await?.rows_affected())
}
