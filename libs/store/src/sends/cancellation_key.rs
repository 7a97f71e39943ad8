//! Cancellation keys. A caller gives several sends the same key, and cancels them together.
//!
//! The key of a send is stored before the send enters the log. A cancellation marks the keys first and then cancels the sends that are
//! planned. Planning and scheduling lock the key of their send in share mode, so they see the mark, or the cancellation sees their request.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{AppId, DeliveryIds, SendId, Timestamp};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::deliveries::cancellation;
use crate::sends::chunk::Chunk;
use crate::sends::facts::Facts;
use crate::sends::planned_chunk::PlannedChunk;
use crate::sends::send::{self, NewRequest};
use crate::{Error, Sends};

/// Added to the retention of the log: a key is written shortly before its send enters the log.
const MARGIN: Duration = Duration::from_secs(3600);

/// The sends of a cancellation.
#[derive(Clone, Copy, Debug)]
pub struct KeyedSends<'a> {
    pub app: AppId,
    pub key: &'a str,
    /// None for the sends of all templates, and those without.
    pub template: Option<&'a str>,
}

impl Sends<'_> {
    /// Stores the cancellation key of a send, if it has one. The key is kept at least until `from` plus `retention` plus one hour, and
    /// longer while the request exists. Safe to repeat.
    pub async fn keep_cancellation_key(
        self,
        app: AppId,
        send_id: SendId,
        send: &domain::SendRequest,
        from: Timestamp,
        retention: Duration,
    ) -> Result<(), Error> {
        let mut connection = self.0.pool.acquire().await?;
        let keyed = [(app, send_id, send, from + retention + MARGIN)];
        insert(&mut connection, &keyed).await?;
        Ok(())
    }

    /// Marks up to `most` sends whose cancellation has not ended, including those that an interrupted call marked. Returns them. The caller
    /// must cancel them, call [`Sends::end_cancellation`], and repeat this until no send is left.
    pub async fn mark_cancelled(self, sends: KeyedSends<'_>, most: u32) -> Result<Vec<SendId>, Error> {
        let marked = sqlx::query_scalar!(
            "UPDATE cancellation_key SET cancelled_at = coalesce(cancelled_at, now())
             WHERE (app_id, send_id) IN (
               SELECT app_id, send_id FROM cancellation_key
               WHERE app_id = $1 AND key = $2 AND ($3::text IS NULL OR template = $3) AND NOT ended
               ORDER BY send_id LIMIT $4 FOR UPDATE
             ) RETURNING send_id",
            sends.app.0,
            sends.key,
            sends.template,
            i64::from(most)
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(marked.into_iter().map(SendId).collect())
    }

    pub async fn has_cancellation_key(self, sends: KeyedSends<'_>) -> Result<bool, Error> {
        let found = sqlx::query_scalar!(
            r#"SELECT EXISTS (
                 SELECT FROM cancellation_key WHERE app_id = $1 AND key = $2 AND ($3::text IS NULL OR template = $3)
               ) AS "found!""#,
            sends.app.0,
            sends.key,
            sends.template
        )
        .fetch_one(&self.0.pool)
        .await?;
        Ok(found)
    }

    /// Ends the cancellation of marked sends. Those that planning will cancel are cancelled after a restore from a backup, too.
    pub async fn end_cancellation(self, app: AppId, sends: &[SendId]) -> Result<(), Error> {
        let ids: Vec<Uuid> = sends.iter().map(|send| send.0).collect();
        let mut transaction = self.0.begin().await?;
        let ended = sqlx::query_scalar!(
            "UPDATE cancellation_key SET ended = true WHERE app_id = $1 AND send_id = ANY($2) AND NOT ended RETURNING send_id",
            app.0,
            &ids
        )
        .fetch_all(&mut *transaction)
        .await?;
        let rows = sqlx::query!(
            r#"SELECT k.send_id, k.cancelled_at AS "cancelled_at!" FROM cancellation_key k
               LEFT JOIN request r USING (app_id, send_id)
               WHERE k.app_id = $1 AND k.send_id = ANY($2) AND k.cancelled_at IS NOT NULL
                 AND (r.send_id IS NULL OR r.cancelled_at = k.cancelled_at)"#,
            app.0,
            &ended
        )
        .fetch_all(&mut *transaction)
        .await?;
        for row in rows {
            cancellation::publish(&mut transaction, app, SendId(row.send_id), row.cancelled_at.into())
                .await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Looks at up to `most` keys whose retention has ended, and removes those whose request does not exist. The others are kept for
    /// another day. Returns the number of keys that were looked at.
    ///
    /// The caller must ensure that the log contains no unprocessed send that is older than the retention.
    pub async fn review_old_cancellation_keys(self, most: u32) -> Result<u64, Error> {
        // PostgreSQL may answer EXISTS from a hash of the whole table, but not these subqueries.
        let reviewed = sqlx::query_scalar!(
            r#"WITH old AS MATERIALIZED (
                 SELECT app_id, send_id, ctid AS place FROM cancellation_key WHERE keep_until < now()
                 ORDER BY keep_until LIMIT $1 FOR UPDATE SKIP LOCKED
               ), judged AS MATERIALIZED (
                 SELECT o.place,
                   (SELECT true FROM request r WHERE r.app_id = o.app_id AND r.send_id = o.send_id) IS NOT NULL
                   OR (SELECT true FROM parked p WHERE p.app_id = o.app_id AND p.send_id = o.send_id LIMIT 1) IS NOT NULL
                   AS is_needed
                 FROM old o
               ), kept AS (
                 UPDATE cancellation_key SET keep_until = now() + interval '1 day'
                 WHERE ctid = ANY(ARRAY(SELECT place FROM judged WHERE is_needed))
               ), removed AS (
                 DELETE FROM cancellation_key
                 WHERE ctid = ANY(ARRAY(SELECT place FROM judged WHERE NOT is_needed))
               )
               SELECT count(*) AS "looked_at!" FROM judged"#,
            i64::from(most)
        )
        .fetch_one(&self.0.pool)
        .await?;
        Ok(reviewed.unsigned_abs())
    }
}

/// Stores the keys of those sends that have one and are not stored yet. The last value is the time until which the key is kept.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    sends: &[(AppId, SendId, &domain::SendRequest, Timestamp)],
) -> Result<(), Error> {
    let keyed: Vec<_> = sends
        .iter()
        .filter_map(|(app, send_id, send, until)| {
            Some((app, send_id, send, until, send.cancellation_key.as_ref()?))
        })
        .collect();
    if keyed.is_empty() {
        return Ok(());
    }
    columns! { (app, send_id, send, until, key) in keyed =>
        app_id = app.0,
        send_ids = send_id.0,
        keys = key.as_str(),
        templates = send.template.as_ref().and_then(domain::send::TemplateRef::identifier),
        keep_until = instant(**until),
    }
    sqlx::query!(
        "INSERT INTO cancellation_key (app_id, send_id, key, template, keep_until)
         SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[])
         ON CONFLICT (app_id, send_id) DO NOTHING",
        &app_id,
        &send_ids,
        &keys as &[&str],
        &templates as &[Option<&str>],
        &keep_until
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Writes the requests of new sends whose key is marked, as cancelled. Until the transaction ends, no other send of `chunks` gets a mark.
pub(crate) async fn cancel_marked(
    connection: &mut PgConnection,
    chunks: &[PlannedChunk],
    facts: &Facts,
) -> Result<(), Error> {
    let first = chunks.iter().filter(|planned| planned.is_new && planned.chunk.chunk == 0);
    let keyed: Vec<_> = first.map(|planned| &planned.chunk).filter(|chunk| is_keyed(chunk)).collect();
    let marked = lock(connection, &keyed).await?;
    let marked: Vec<_> =
        keyed.into_iter().filter(|chunk| marked.contains(&(chunk.app.0, chunk.send_id.0))).collect();
    let without_erased: Vec<_> = marked.iter().map(|chunk| facts.without_erased(chunk)).collect();
    let requests: Vec<_> = marked
        .iter()
        .zip(&without_erased)
        .map(|(chunk, without_erased)| NewRequest {
            chunk: without_erased.as_ref().unwrap_or(chunk),
            category: None,
            template: None,
            body: chunk.send.needs_stored_body().then(|| &*without_erased.as_ref().unwrap_or(chunk).send),
            delivery_ids: Some(DeliveryIds::TimeOrdered),
        })
        .collect();
    if requests.is_empty() {
        return Ok(());
    }
    send::write_requests_if_new(connection, &requests).await?;
    copy_marks(connection, &marked).await
}

/// Cancels a send whose request was just written, if its key is marked. Returns true if it did.
pub(crate) async fn cancel_if_marked(connection: &mut PgConnection, chunk: &Chunk) -> Result<bool, Error> {
    let is_marked = is_keyed(chunk) && !lock(connection, &[chunk]).await?.is_empty();
    if is_marked {
        copy_marks(connection, &[chunk]).await?;
    }
    Ok(is_marked)
}

fn is_keyed(chunk: &Chunk) -> bool {
    chunk.send.cancellation_key.is_some()
}

/// Locks the keys of the sends, in share mode. Returns the sends whose key is marked.
async fn lock(connection: &mut PgConnection, keyed: &[&Chunk]) -> Result<BTreeSet<(i64, Uuid)>, Error> {
    let sends: BTreeSet<_> = keyed.iter().map(|chunk| (chunk.app.0, chunk.send_id.0)).collect();
    if sends.is_empty() {
        return Ok(sends);
    }
    let (apps, send_ids): (Vec<_>, Vec<_>) = sends.into_iter().unzip();
    let rows = sqlx::query!(
        r#"SELECT k.app_id, k.send_id, k.cancelled_at IS NOT NULL AS "is_marked!" FROM cancellation_key k
           JOIN unnest($1::bigint[], $2::uuid[]) AS named (app_id, send_id) USING (app_id, send_id)
           ORDER BY k.app_id, k.send_id FOR SHARE OF k"#,
        &apps,
        &send_ids
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().filter(|row| row.is_marked).map(|row| (row.app_id, row.send_id)).collect())
}

async fn copy_marks(connection: &mut PgConnection, marked: &[&Chunk]) -> Result<(), Error> {
    if marked.is_empty() {
        return Ok(());
    }
    columns! { chunk in marked =>
        apps = chunk.app.0,
        send_ids = chunk.send_id.0,
    }
    sqlx::query!(
        "UPDATE request r SET cancelled_at = k.cancelled_at FROM cancellation_key k
         JOIN unnest($1::bigint[], $2::uuid[]) AS named (app_id, send_id) USING (app_id, send_id)
         WHERE (r.app_id, r.send_id) = (k.app_id, k.send_id) AND r.cancelled_at IS NULL",
        &apps,
        &send_ids
    )
    .execute(connection)
    .await?;
    Ok(())
}
