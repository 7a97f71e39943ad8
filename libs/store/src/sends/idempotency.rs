//! Idempotency keys. A caller chooses a key for a send; a repeated call with the same key gets the same send.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use domain::{AppId, Lane, SendId};

use crate::database::batch::Batcher;
use crate::database::columns::columns;
use crate::{Error, Sends};

const BATCH: usize = 256;

#[derive(Clone, Debug)]
pub struct Reservation {
    pub app: AppId,
    pub key: String,
    pub send: ReservedSend,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedSend {
    pub send_id: SendId,
    /// Digest of the request's body.
    pub body_hash: [u8; 32],
    pub lane: Lane,
}

pub type Reservations = Batcher<Reservation, ReservedSend>;

impl Sends<'_> {
    /// The caller must spawn the task.
    pub fn reservations(self) -> (Reservations, impl Future<Output = ()> + Send + use<>) {
        let store = self.0.clone();
        Batcher::new(BATCH, move |wanted| {
            let store = store.clone();
            async move { store.sends().reserve_keys(&wanted).await }
        })
    }

    /// Reserves each wanted key for its send if the key is free: never used, or used more than 24 hours ago. Returns the send that each key
    /// is reserved for after the call, in the order of `wanted`. For a key that was not free, this is an earlier send.
    pub async fn reserve_keys(self, wanted: &[Reservation]) -> Result<Vec<ReservedSend>, Error> {
        let mut first: HashMap<(AppId, &str), &Reservation> = HashMap::with_capacity(wanted.len());
        for reservation in wanted {
            first.entry((reservation.app, &reservation.key)).or_insert(reservation);
        }
        let stored = self.reserve_distinct(first.values().copied()).await?;
        wanted
            .iter()
            .map(|reservation| {
                let key = (reservation.app, reservation.key.clone());
                stored
                    .get(&key)
                    .copied()
                    .ok_or_else(|| Error::Unreadable("missing idempotency key".to_owned()))
            })
            .collect()
    }

    /// None if the key is free.
    pub async fn reserved_key(self, app: AppId, key: &str) -> Result<Option<ReservedSend>, Error> {
        let row = sqlx::query_as!(
            ReservedRow,
            "SELECT app_id, key, send_id, body_hash, lane FROM idempotency_key
             WHERE app_id = $1 AND key = $2 AND created_at >= now() - interval '24 hours'",
            app.0,
            key
        )
        .fetch_optional(&self.0.pool)
        .await?;
        row.map(|row| row.reserved()).transpose()
    }

    /// Deletes keys that were used more than 24 hours ago, the oldest first. Skips keys that were used before `from`, and moves `from` to the
    /// last one.
    pub async fn forget_free_keys(self, most: u32, from: &mut Option<DateTime<Utc>>) -> Result<u64, Error> {
        let forgotten = sqlx::query!(
            r#"WITH old AS MATERIALIZED (
                 SELECT ctid AS place, created_at FROM idempotency_key
                 WHERE created_at >= coalesce($2::timestamptz, '-infinity') AND created_at < now() - interval '24 hours'
                 ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED
               ), removed AS (
                 DELETE FROM idempotency_key WHERE ctid = ANY(ARRAY(SELECT place FROM old)) RETURNING 1
               )
               SELECT (SELECT count(*) FROM removed) AS "removed!", (SELECT max(created_at) FROM old) AS up_to"#,
            i64::from(most),
            *from
        )
        .fetch_one(&self.0.pool)
        .await?;
        *from = forgotten.up_to.or(*from);
        Ok(forgotten.removed.unsigned_abs())
    }

    async fn reserve_distinct(
        self,
        wanted: impl Iterator<Item = &Reservation>,
    ) -> Result<HashMap<(AppId, String), ReservedSend>, Error> {
        let wanted: Vec<&Reservation> = wanted.collect();
        columns! { wanted in wanted =>
            apps = wanted.app.0,
            keys = wanted.key.as_str(),
            sends = wanted.send.send_id.0,
            hashes = wanted.send.body_hash.as_slice(),
            lanes = wanted.send.lane.as_str(),
        }
        // The keys are sorted so that concurrent batches do not deadlock. `DO UPDATE` makes the statement also return rows
        // that existed already or that a concurrent batch has just inserted. As long as the stored key is valid, the update
        // keeps its values.
        let rows = sqlx::query_as!(
            ReservedRow,
            "INSERT INTO idempotency_key AS stored (app_id, key, send_id, body_hash, lane)
             SELECT * FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::bytea[], $5::text[]) ORDER BY 1, 2
             ON CONFLICT (app_id, key) DO UPDATE SET (send_id, body_hash, lane, created_at) = (
                 SELECT excluded.send_id, excluded.body_hash, excluded.lane, excluded.created_at
                 WHERE stored.created_at < now() - interval '24 hours'
                 UNION ALL
                 SELECT stored.send_id, stored.body_hash, stored.lane, stored.created_at
                 WHERE stored.created_at >= now() - interval '24 hours')
             RETURNING app_id, key, send_id, body_hash, lane",
            &apps,
            &keys as &[&str],
            &sends,
            &hashes as &[&[u8]],
            &lanes as &[&str]
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter().map(|row| Ok(((row.app_id, row.key.clone()), row.reserved()?))).collect()
    }
}

struct ReservedRow {
    app_id: AppId,
    key: String,
    send_id: SendId,
    body_hash: Vec<u8>,
    lane: String,
}

impl ReservedRow {
    fn reserved(self) -> Result<ReservedSend, Error> {
        let unreadable = || Error::Unreadable("body hash is not 32 bytes".to_owned());
        Ok(ReservedSend {
            send_id: self.send_id,
            body_hash: self.body_hash.try_into().map_err(|_| unreadable())?,
            lane: self.lane.parse().map_err(|_| Error::Unreadable(format!("lane {}", self.lane)))?,
        })
    }
}
