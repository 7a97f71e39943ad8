use std::collections::{BTreeMap, HashSet};

use sqlx::{Connection as _, PgConnection};

use crate::Error;
use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::recovery::restore::Restore;
use crate::sends::cancellation_key;
use crate::sends::chunk::Chunk;
use crate::sends::send::{self, NewRequest};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoredSends {
    pub requests: u64,
    pub keys: u64,
}

impl Restore {
    /// Adds accepted sends; `accepted` contains the first chunk of each. Restores the idempotency key unless it has expired.
    /// [`Restore::plan_open`] later removes the body if it is not needed. If the backup contains the send as a parked message, removes this
    /// message, so that the send is planned again.
    pub async fn add_sends(&mut self, accepted: &[Chunk]) -> Result<RestoredSends, Error> {
        let mut seen = HashSet::with_capacity(accepted.len());
        let accepted: Vec<&Chunk> =
            accepted.iter().filter(|chunk| seen.insert((chunk.app, chunk.send_id))).collect();
        let mut transaction = self.connection.begin().await?;
        let requests = write_requests(&mut transaction, &accepted).await?;
        let keys = write_keys(&mut transaction, &accepted).await?;
        write_cancellation_keys(&mut transaction, &accepted).await?;
        transaction.commit().await?;
        Ok(RestoredSends { requests, keys })
    }
}

async fn write_requests(connection: &mut PgConnection, accepted: &[&Chunk]) -> Result<u64, Error> {
    let requests: Vec<_> = accepted
        .iter()
        .map(|chunk| NewRequest {
            chunk,
            category: None,
            template: None,
            body: Some(&chunk.send),
            delivery_ids: None,
        })
        .collect();
    let written = send::write_requests_if_new(connection, &requests).await?;
    columns! { chunk in accepted =>
        app_id = chunk.app.0,
        send_id = chunk.send_id.0,
    }
    sqlx::query!(
        "DELETE FROM parked p USING unnest($1::bigint[], $2::uuid[]) AS again (app_id, send_id)
         WHERE (p.app_id, p.send_id) = (again.app_id, again.send_id) AND p.stream = ANY($3)",
        &app_id,
        &send_id,
        &send::streams()
    )
    .execute(connection)
    .await?;
    Ok(written)
}

async fn write_cancellation_keys(connection: &mut PgConnection, accepted: &[&Chunk]) -> Result<(), Error> {
    // The keys are reviewed while their requests exist, so that any time from now on will do.
    let until = |chunk: &Chunk| chunk.send.send_at.unwrap_or(chunk.accepted_at).max(chunk.accepted_at);
    let keyed: Vec<_> =
        accepted.iter().map(|chunk| (chunk.app, chunk.send_id, &*chunk.send, until(chunk))).collect();
    cancellation_key::insert(connection, &keyed).await
}

async fn write_keys(connection: &mut PgConnection, accepted: &[&Chunk]) -> Result<u64, Error> {
    let mut keys = BTreeMap::new();
    for chunk in accepted {
        if let Some(named) = &chunk.send.idempotency {
            keys.entry((chunk.app.0, named.key.as_str())).or_insert((named.body_hash.0, chunk));
        }
    }
    columns! { ((app, name), (hash, chunk)) in keys =>
        app_id = *app,
        key = *name,
        send_id = chunk.send_id.0,
        body_hash = hash.as_slice(),
        lane = chunk.send.lane.as_str(),
        created_at = instant(chunk.accepted_at),
    }
    let written = sqlx::query!(
        "INSERT INTO idempotency_key AS stored (app_id, key, send_id, body_hash, lane, created_at)
         SELECT * FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::bytea[], $5::text[], $6::timestamptz[])
           AS new (app_id, key, send_id, body_hash, lane, created_at)
         WHERE created_at >= now() - interval '24 hours'
         ON CONFLICT (app_id, key) DO UPDATE SET (send_id, body_hash, lane, created_at)
             = (excluded.send_id, excluded.body_hash, excluded.lane, excluded.created_at)
           WHERE stored.created_at < excluded.created_at - interval '24 hours'",
        &app_id,
        &key as &[&str],
        &send_id,
        &body_hash as &[&[u8]],
        &lane as &[&str],
        &created_at
    )
    .execute(connection)
    .await?;
    Ok(written.rows_affected())
}
