//! Restoring the requests and idempotency keys of accepted sends.

use std::collections::{BTreeMap, HashSet};

use domain::{AppId, SendId, Timestamp};
use sqlx::{Connection as _, PgConnection};

use crate::Error;
use crate::database::instant::instant;
use crate::recovery::restore::Restore;
use crate::sends::chunk::Chunk;
use crate::sends::send::{self, NewRequest};

/// Number of rows restored from accepted sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoredSends {
    /// Number of requests that were created or whose body was restored.
    pub requests: u64,
    /// Number of restored idempotency keys.
    pub keys: u64,
}

impl Restore {
    /// Removes the parked messages of sends that were redriven later: messages that were parked before the time in
    /// `stored`, at which the log stored the send. Returns the number of removed messages.
    ///
    /// # Errors
    /// The database failed; no message is removed.
    pub async fn reopen_sends(&mut self, stored: &[(AppId, SendId, Timestamp)]) -> Result<u64, Error> {
        let reopened = sqlx::query(
            "DELETE FROM parked p USING unnest($1::bigint[], $2::uuid[], $3::timestamptz[]) AS again (app_id, send_id, at)
             WHERE (p.app_id, p.send_id) = (again.app_id, again.send_id) AND p.stream = ANY($4) AND p.parked_at < again.at",
        )
        .bind(stored.iter().map(|(app, ..)| app.0).collect::<Vec<_>>())
        .bind(stored.iter().map(|(_, send_id, _)| send_id.0).collect::<Vec<_>>())
        .bind(stored.iter().map(|(.., at)| instant(*at)).collect::<Vec<_>>())
        .bind(send::streams())
        .execute(&mut self.connection)
        .await?;
        Ok(reopened.rows_affected())
    }

    /// Adds accepted sends, each given as its first chunk. Writes the request with its body, which [`Restore::go_on`]
    /// removes if it is not needed, and the idempotency key, unless it has expired. Sends that are parked stay parked and
    /// get no request.
    ///
    /// # Errors
    /// The database failed; no send is added.
    pub async fn add_sends(&mut self, accepted: &[Chunk]) -> Result<RestoredSends, Error> {
        let mut seen = HashSet::with_capacity(accepted.len());
        let accepted: Vec<&Chunk> =
            accepted.iter().filter(|chunk| seen.insert((chunk.app, chunk.send_id))).collect();
        let mut transaction = self.connection.begin().await?;
        let requests = write_requests(&mut transaction, &accepted).await?;
        let keys = write_keys(&mut transaction, &accepted).await?;
        transaction.commit().await?;
        Ok(RestoredSends { requests, keys })
    }
}

/// Adds requests. The body of an existing request is restored only if one of its deliveries may wait for a job that was
/// never published, because processing the chunk again requires the body.
async fn write_requests(connection: &mut PgConnection, accepted: &[&Chunk]) -> Result<u64, Error> {
    let requests: Vec<_> = accepted
        .iter()
        .map(|chunk| NewRequest { chunk, category: None, template: None, body: Some(&chunk.send) })
        .collect();
    if requests.is_empty() {
        return Ok(0);
    }
    send::insert(
        connection,
        "INSERT INTO request (app_id, send_id, accepted_at, send_at, expires_at, lane, title, recipients,
           category_id, template_id, template_version, body)
         SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[],
           $6::text[], $7::text[], $8::int[], $9::bigint[], $10::bigint[], $11::int[], $12::json[])
           AS new (app_id, send_id, accepted_at, send_at, expires_at, lane, title, recipients, category_id, template_id,
             template_version, body)
         WHERE NOT EXISTS (
           SELECT FROM parked p WHERE (p.app_id, p.send_id) = (new.app_id, new.send_id) AND p.stream LIKE 'SEND%'
         )
         ON CONFLICT (app_id, send_id) DO UPDATE SET body = excluded.body
           WHERE request.body IS NULL AND EXISTS (
             SELECT FROM delivery d WHERE (d.app_id, d.send_id) = (request.app_id, request.send_id)
               AND d.status = 'queued' AND d.attempt = 1
           )",
        &requests,
    )
    .await
}

async fn write_keys(connection: &mut PgConnection, accepted: &[&Chunk]) -> Result<u64, Error> {
    let mut keys = BTreeMap::new();
    for chunk in accepted {
        if let Some(named) = &chunk.send.idempotency {
            keys.entry((chunk.app.0, named.key.as_str())).or_insert((named.body_hash.0, chunk));
        }
    }
    let written = sqlx::query(
        "INSERT INTO idempotency_key AS stored (app_id, key, send_id, body_hash, lane, created_at)
         SELECT * FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::bytea[], $5::text[], $6::timestamptz[])
           AS new (app_id, key, send_id, body_hash, lane, created_at)
         WHERE created_at >= now() - interval '24 hours'
         ON CONFLICT (app_id, key) DO UPDATE SET (send_id, body_hash, lane, created_at)
             = (excluded.send_id, excluded.body_hash, excluded.lane, excluded.created_at)
           WHERE stored.created_at < excluded.created_at - interval '24 hours'",
    )
    .bind(keys.keys().map(|(app, _)| *app).collect::<Vec<_>>())
    .bind(keys.keys().map(|(_, key)| *key).collect::<Vec<_>>())
    .bind(keys.values().map(|(_, chunk)| chunk.send_id.0).collect::<Vec<_>>())
    .bind(keys.values().map(|(hash, _)| hash.as_slice()).collect::<Vec<_>>())
    .bind(keys.values().map(|(_, chunk)| chunk.send.lane.as_str()).collect::<Vec<_>>())
    .bind(keys.values().map(|(_, chunk)| instant(chunk.accepted_at)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(written.rows_affected())
}
