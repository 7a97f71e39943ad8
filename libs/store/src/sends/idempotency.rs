//! Idempotency keys: which send a caller's key stands for.

use std::collections::HashMap;

use domain::{AppId, Lane, SendId};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::database::batch::Batcher;
use crate::{Error, Store};

/// Callers that share a statement at most.
const BATCH: usize = 256;

/// What a caller wants a key to stand for.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The app whose key it is.
    pub app: AppId,
    /// The caller's key.
    pub key: String,
    /// The send that it stands for, if the key is free.
    pub send: Reserved,
}

/// What a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The send.
    pub send_id: SendId,
    /// Digest of the request's body.
    pub body_hash: [u8; 32],
    /// The lane that it was, or is to be, published to.
    pub lane: Lane,
}

/// Reserves keys, many concurrent callers in one statement.
pub type Reservations = Batcher<Reservation, Reserved>;

impl Store {
    /// The batcher for [`Store::reserve_keys`], and the task that serves it.
    pub fn reservations(&self) -> (Reservations, impl Future<Output = ()> + Send + use<>) {
        let store = self.clone();
        Batcher::new(BATCH, move |wanted| {
            let store = store.clone();
            async move { store.reserve_keys(&wanted).await }
        })
    }

    /// Reserves each key, in the order given, unless it stands for another send already. A key is free when it was
    /// never used, or more than 24 hours ago. Answers what each key stands for now.
    ///
    /// # Errors
    /// The database failed; nothing is reserved.
    pub async fn reserve_keys(&self, wanted: &[Reservation]) -> Result<Vec<Reserved>, Error> {
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
                    .ok_or_else(|| Error::Unreadable("a key that was not stored".to_owned()))
            })
            .collect()
    }

    /// What a key stands for; None when it is free.
    ///
    /// # Errors
    /// The database failed.
    pub async fn reserved_key(&self, app: AppId, key: &str) -> Result<Option<Reserved>, Error> {
        let row = sqlx::query(
            "SELECT app_id, key, send_id, body_hash, lane FROM idempotency_key
             WHERE app_id = $1 AND key = $2 AND created_at >= now() - interval '24 hours'",
        )
        .bind(app.0)
        .bind(key)
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(read_reserved).transpose()?.map(|(_, reserved)| reserved))
    }

    /// Removes up to `most` keys that have become free, and returns how many.
    ///
    /// # Errors
    /// The database failed.
    pub async fn forget_free_keys(&self, most: u32) -> Result<u64, Error> {
        let removed = sqlx::query(
            "DELETE FROM idempotency_key WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM idempotency_key WHERE created_at < now() - interval '24 hours'
               ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
        )
        .bind(i64::from(most))
        .execute(&self.pool)
        .await?;
        Ok(removed.rows_affected())
    }

    async fn reserve_distinct(
        &self,
        wanted: impl Iterator<Item = &Reservation>,
    ) -> Result<HashMap<(AppId, String), Reserved>, Error> {
        let wanted: Vec<&Reservation> = wanted.collect();
        // Sorted, so that two batches never wait for each other's rows. The update, which changes nothing while the
        // stored key is in force, is what makes the row of a concurrent batch come back.
        let rows = sqlx::query(
            "INSERT INTO idempotency_key AS stored (app_id, key, send_id, body_hash, lane)
             SELECT * FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::bytea[], $5::text[]) ORDER BY 1, 2
             ON CONFLICT (app_id, key) DO UPDATE SET (send_id, body_hash, lane, created_at) = (
                 SELECT excluded.send_id, excluded.body_hash, excluded.lane, excluded.created_at
                 WHERE stored.created_at < now() - interval '24 hours'
                 UNION ALL
                 SELECT stored.send_id, stored.body_hash, stored.lane, stored.created_at
                 WHERE stored.created_at >= now() - interval '24 hours')
             RETURNING app_id, key, send_id, body_hash, lane",
        )
        .bind(wanted.iter().map(|wanted| wanted.app.0).collect::<Vec<_>>())
        .bind(wanted.iter().map(|wanted| wanted.key.as_str()).collect::<Vec<_>>())
        .bind(wanted.iter().map(|wanted| wanted.send.send_id.0).collect::<Vec<_>>())
        .bind(wanted.iter().map(|wanted| wanted.send.body_hash.as_slice()).collect::<Vec<_>>())
        .bind(wanted.iter().map(|wanted| wanted.send.lane.as_str()).collect::<Vec<_>>())
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(read_reserved).collect()
    }
}

fn read_reserved(row: &PgRow) -> Result<((AppId, String), Reserved), Error> {
    let (hash, lane): (&[u8], &str) = (row.try_get("body_hash")?, row.try_get("lane")?);
    let reserved = Reserved {
        send_id: SendId(row.try_get("send_id")?),
        body_hash: hash.try_into().map_err(|_| Error::Unreadable("a body hash".to_owned()))?,
        lane: lane.parse().map_err(|_| Error::Unreadable(format!("lane {lane}")))?,
    };
    Ok(((AppId(row.try_get("app_id")?), row.try_get("key")?), reserved))
}
