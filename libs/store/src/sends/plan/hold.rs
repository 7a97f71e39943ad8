//! Holding what the planning of chunks writes, before any of it is written: one user's row, or an erasure of one app, must
//! not keep the chunks of others waiting.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use sqlx::{PgConnection, Postgres, Row, Transaction};

use crate::sends::chunk::Chunk;
use crate::sends::plan::Freeze;
use crate::{Error, Store, erasure};

/// How long a statement waits for a lock that is not known to be busy beforehand, while chunks of several apps wait with it.
const TOGETHER: Duration = Duration::from_millis(100);
/// How long it waits if the chunks are of one app alone.
const ALONE: Duration = Duration::from_secs(5);

/// A transaction that holds the users whose profiles free chunks write, and keeps erasures of their apps off.
#[derive(Debug)]
pub struct Hold {
    transaction: Transaction<'static, Postgres>,
    busy: Vec<bool>,
}

impl Store {
    /// Holds what the chunks write, without waiting for any user's row or for an erasure: a chunk that needs what is locked
    /// elsewhere is busy, and must be left out of what is frozen.
    ///
    /// # Errors
    /// The database failed.
    pub async fn hold_free(&self, chunks: &[Chunk]) -> Result<Hold, Error> {
        let mut transaction = self.begin().await?;
        limit_waits(&mut transaction, TOGETHER).await?;
        let apps = erasure::try_hold_off(&mut transaction, chunks.iter().map(|chunk| chunk.app)).await?;
        let free = |chunk: &Chunk| !apps.contains(&chunk.app);
        let users = busy_users(&mut transaction, chunks.iter().filter(|chunk| free(chunk))).await?;
        let is_busy = |chunk: &Chunk| !free(chunk) || written(chunk).any(|user| users.contains(&user));
        let busy = chunks.iter().map(is_busy).collect();
        Ok(Hold { transaction, busy })
    }

    /// Holds what the chunks write, waiting up to 5 s for each lock.
    ///
    /// # Errors
    /// The database failed, or a lock was not free in time ([`Error::is_lock_timeout`]).
    pub async fn hold_all(&self, chunks: &[Chunk]) -> Result<Hold, Error> {
        let mut transaction = self.begin().await?;
        limit_waits(&mut transaction, ALONE).await?;
        erasure::hold_off(&mut transaction, chunks.iter().map(|chunk| chunk.app)).await?;
        let users: BTreeSet<_> = chunks.iter().flat_map(written).collect();
        if !users.is_empty() {
            let (apps, identifiers): (Vec<_>, Vec<_>) = users.into_iter().unzip();
            sqlx::query(
                "SELECT FROM app_user u JOIN unnest($1::bigint[], $2::text[]) AS named (app_id, identifier)
                   USING (app_id, identifier)
                 ORDER BY app_id, number FOR NO KEY UPDATE OF u",
            )
            .bind(apps)
            .bind(identifiers)
            .execute(&mut *transaction)
            .await?;
        }
        Ok(Hold { transaction, busy: vec![false; chunks.len()] })
    }
}

impl Hold {
    /// Whether the chunk at `index` needs what is locked elsewhere.
    #[must_use]
    pub fn is_busy(&self, index: usize) -> bool {
        self.busy.get(index).copied().unwrap_or(false)
    }

    /// Begins to freeze chunks, none of which is busy: writes their headers in key order. A header that exists already
    /// belongs to the transaction that wrote it, whose decisions then hold.
    ///
    /// # Errors
    /// The database failed.
    pub async fn freeze(self, chunks: &[Chunk]) -> Result<Freeze<'_>, Error> {
        Freeze::begin(self.transaction, chunks).await
    }
}

/// Users that a chunk writes.
fn written(chunk: &Chunk) -> impl Iterator<Item = (i64, &str)> {
    let recipients = chunk.send.chunk(chunk.chunk).iter().filter(|recipient| recipient.profile.is_some());
    recipients.map(|recipient| (chunk.app.0, recipient.identifier.as_str()))
}

/// Locks the rows of the users that chunks write, as far as they exist and are free; returns the others that exist.
async fn busy_users<'t>(
    connection: &mut PgConnection,
    chunks: impl Iterator<Item = &'t Chunk>,
) -> Result<HashSet<(i64, &'t str)>, Error> {
    let users: BTreeSet<_> = chunks.flat_map(written).collect();
    if users.is_empty() {
        return Ok(HashSet::new());
    }
    let users: Vec<_> = users.into_iter().collect();
    let (apps, identifiers): (Vec<_>, Vec<_>) = users.iter().copied().unzip();
    // Both parts see the same users. One that is created or erased meanwhile counts as busy at worst.
    let rows = sqlx::query(
        "WITH named AS (
           SELECT * FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS named (app_id, identifier, place)
         ), locked AS (
           SELECT place FROM app_user u JOIN named USING (app_id, identifier)
           ORDER BY app_id, number FOR NO KEY UPDATE OF u SKIP LOCKED
         )
         SELECT place FROM app_user JOIN named USING (app_id, identifier)
         WHERE place NOT IN (SELECT place FROM locked)",
    )
    .bind(apps)
    .bind(identifiers)
    .fetch_all(connection)
    .await?;
    let mut busy = HashSet::with_capacity(rows.len());
    for row in rows {
        let place: i64 = row.try_get("place")?;
        busy.extend(usize::try_from(place - 1).ok().and_then(|place| users.get(place)));
    }
    Ok(busy)
}

/// Limits how long statements of this transaction wait for a lock.
async fn limit_waits(connection: &mut PgConnection, limit: Duration) -> Result<(), Error> {
    sqlx::query("SELECT set_config('lock_timeout', $1, true)")
        .bind(format!("{}ms", limit.as_millis()))
        .execute(connection)
        .await?;
    Ok(())
}

/// Limits the waits of a transaction that belongs to one message of many.
pub(crate) async fn limit_waits_together(connection: &mut PgConnection) -> Result<(), Error> {
    limit_waits(connection, TOGETHER).await
}
