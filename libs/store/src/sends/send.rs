//! Sends as the dispatcher keeps them: the request row, and the body while chunks of it are still to come.

use chrono::{DateTime, Utc};
use domain::id::TemplateId;
use domain::structure::json_memory;
use domain::{AppId, CategoryId, Lane, SendId, StreamName, Timestamp};
use sqlx::types::Json;
use sqlx::{PgConnection, Row};

use crate::database::instant::instant;
use crate::deliveries::timer::{self, NewTimer};
use crate::erasure;
use crate::sends::chunk::Chunk;
use crate::sends::plan::hold::limit_waits_together;
use crate::{Error, Store, deliveries::attachment};

/// A request row to be written.
pub(crate) struct NewRequest<'a> {
    pub(crate) chunk: &'a Chunk,
    pub(crate) category: Option<CategoryId>,
    pub(crate) template: Option<(TemplateId, i32)>,
    pub(crate) body: Option<&'a domain::SendRequest>,
}

/// A send whose chunks are read back from its request row.
#[derive(Clone, Debug)]
pub struct KeptSend {
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// Its body; None once its last chunk has been acted on.
    pub send: Option<domain::SendRequest>,
    /// About how many bytes the body takes in memory.
    pub size: usize,
}

impl Store {
    /// Keeps a send for later: its request row with the body, and the timer that continues it. Repeats do nothing.
    /// Recipients that were erased meanwhile are left out of the body.
    ///
    /// Says whether the send waits for its timer: not where its first chunk is frozen by now, whose message may be the one
    /// in hand. Whoever acknowledges that acts on the chunk first.
    ///
    /// # Errors
    /// The database failed; then neither is written.
    pub async fn schedule(&self, chunk: &Chunk, timer: &NewTimer) -> Result<bool, Error> {
        let mut transaction = self.begin().await?;
        limit_waits_together(&mut transaction).await?;
        let without_erased = erasure::without_erased(&mut transaction, chunk).await?;
        let chunk = without_erased.as_ref().unwrap_or(chunk);
        let request = NewRequest { chunk, category: None, template: None, body: Some(&chunk.send) };
        let written = write_requests_if_new(&mut transaction, &request).await?;
        if written {
            timer::insert(&mut transaction, std::slice::from_ref(timer)).await?;
        }
        if without_erased.as_ref().is_some_and(|chunk| chunk.send.is_for_nobody()) {
            attachment::remove(&mut transaction, chunk.app, chunk.send_id).await?;
        }
        let waits = written || !is_begun(&mut transaction, chunk).await?;
        transaction.commit().await?;
        Ok(waits)
    }

    /// The send behind a `SendContinues`; None when there is no such request.
    ///
    /// # Errors
    /// The database failed, or the body cannot be read.
    pub async fn kept_send(&self, app: AppId, send_id: SendId) -> Result<Option<KeptSend>, Error> {
        let row = sqlx::query(
            "SELECT accepted_at, body::text AS body FROM request WHERE app_id = $1 AND send_id = $2",
        )
        .bind(app.0)
        .bind(send_id.0)
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| {
            let (accepted_at, body): (DateTime<Utc>, Option<&str>) =
                (row.try_get("accepted_at")?, row.try_get("body")?);
            let send = body.map(serde_json::from_str).transpose();
            let send = send.map_err(|error| Error::Unreadable(error.to_string()))?;
            let size = body.map_or(0, |body| json_memory(body.as_bytes()));
            Ok(KeptSend { accepted_at: accepted_at.into(), send, size })
        })
        .transpose()
    }

    /// Drops the body of a send whose last chunk has been acted on.
    ///
    /// # Errors
    /// The database failed.
    pub async fn drop_body(&self, app: AppId, send_id: SendId) -> Result<(), Error> {
        sqlx::query("UPDATE request SET body = NULL WHERE app_id = $1 AND send_id = $2 AND body IS NOT NULL")
            .bind(app.0)
            .bind(send_id.0)
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}

/// Whether the first chunk of a send is frozen.
async fn is_begun(connection: &mut PgConnection, chunk: &Chunk) -> Result<bool, Error> {
    let is_begun = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM plan WHERE app_id = $1 AND send_id = $2 AND turn = 0)",
    )
    .bind(chunk.app.0)
    .bind(chunk.send_id.0)
    .fetch_one(connection)
    .await?;
    Ok(is_begun)
}

/// The names of the streams that sends travel in.
pub(crate) fn streams() -> Vec<String> {
    Lane::ALL.iter().map(|&lane| StreamName::Send(lane).to_string()).collect()
}

/// Writes request rows; those of scheduled sends are there already and gain what was decided since.
pub(crate) async fn write_requests(
    connection: &mut PgConnection,
    requests: &[NewRequest<'_>],
) -> Result<(), Error> {
    if requests.is_empty() {
        return Ok(());
    }
    insert(
        connection,
        "INSERT INTO request (app_id, send_id, accepted_at, send_at, expires_at, lane, title, recipients,
           category_id, template_id, template_version, body)
         SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[],
           $6::text[], $7::text[], $8::int[], $9::bigint[], $10::bigint[], $11::int[], $12::json[])
         ON CONFLICT (app_id, send_id) DO UPDATE SET category_id = excluded.category_id,
           template_id = excluded.template_id, template_version = excluded.template_version",
        requests,
    )
    .await?;
    Ok(())
}

async fn write_requests_if_new(
    connection: &mut PgConnection,
    request: &NewRequest<'_>,
) -> Result<bool, Error> {
    let written = insert(
        connection,
        "INSERT INTO request (app_id, send_id, accepted_at, send_at, expires_at, lane, title, recipients,
           category_id, template_id, template_version, body)
         SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[],
           $6::text[], $7::text[], $8::int[], $9::bigint[], $10::bigint[], $11::int[], $12::json[])
         ON CONFLICT (app_id, send_id) DO NOTHING",
        std::slice::from_ref(request),
    )
    .await?;
    Ok(written > 0)
}

pub(crate) async fn insert(
    connection: &mut PgConnection,
    sql: &'static str,
    requests: &[NewRequest<'_>],
) -> Result<u64, Error> {
    let chunks = || requests.iter().map(|request| request.chunk);
    let outcome = sqlx::query(sql)
        .bind(chunks().map(|chunk| chunk.app.0).collect::<Vec<_>>())
        .bind(chunks().map(|chunk| chunk.send_id.0).collect::<Vec<_>>())
        .bind(chunks().map(|chunk| instant(chunk.accepted_at)).collect::<Vec<_>>())
        .bind(chunks().map(|chunk| chunk.send.send_at.map(instant)).collect::<Vec<_>>())
        .bind(chunks().map(|chunk| chunk.send.expires_at.map(instant)).collect::<Vec<_>>())
        .bind(chunks().map(|chunk| chunk.send.lane.as_str()).collect::<Vec<_>>())
        .bind(chunks().map(|chunk| chunk.send.content.title.as_deref()).collect::<Vec<_>>())
        .bind(
            chunks()
                .map(|chunk| i32::try_from(chunk.send.recipients.len()).unwrap_or(i32::MAX))
                .collect::<Vec<_>>(),
        )
        .bind(requests.iter().map(|request| request.category.map(|id| id.0)).collect::<Vec<_>>())
        .bind(requests.iter().map(|request| request.template.map(|(id, _)| id.0)).collect::<Vec<_>>())
        .bind(requests.iter().map(|request| request.template.map(|(_, version)| version)).collect::<Vec<_>>())
        .bind(requests.iter().map(|request| request.body.map(Json)).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(outcome.rows_affected())
}
