//! Locks for the planning of chunks. A transaction acquires these locks before its first write. It can therefore leave out chunks whose
//! locks another transaction holds, so that the chunks of other apps do not wait for these locks.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use domain::AppId;
use sqlx::{PgConnection, Postgres, Transaction};

use crate::sends::chunk::Chunk;
use crate::sends::plan::Freeze;
use crate::{Error, Sends, erasure};

/// Lock timeout of a transaction that plans chunks of several apps, for locks that a statement cannot skip with `SKIP LOCKED`.
pub(crate) const TOGETHER: Duration = Duration::from_millis(100);
/// Lock timeout of a transaction whose chunks all belong to one app.
const ALONE: Duration = Duration::from_secs(5);

/// An open transaction that has locked the users for whom the chunks contain inline profiles, and blocks erasures in the apps of the
/// chunks.
#[derive(Debug)]
pub struct ChunkLocks(Transaction<'static, Postgres>);

/// Locks that other transactions hold. A chunk that needs one of them must not be frozen.
#[derive(Debug, Default)]
pub struct BusyLocks {
    /// Apps in which erasures could not be blocked.
    apps: HashSet<AppId>,
    users: HashMap<AppId, HashSet<String>>,
}

impl Sends<'_> {
    /// Does not wait for locks that another transaction holds, but returns them.
    pub async fn lock_free_chunks(self, chunks: &[Chunk]) -> Result<(ChunkLocks, BusyLocks), Error> {
        let mut transaction = self.0.begin_with_limit(TOGETHER).await?;
        let apps =
            erasure::try_block_erasures(&mut transaction, chunks.iter().map(|chunk| chunk.app)).await?;
        let free = chunks.iter().filter(|chunk| !apps.contains(&chunk.app));
        let users = busy_users(&mut transaction, free).await?;
        Ok((ChunkLocks(transaction), BusyLocks { apps, users }))
    }

    /// Waits up to 5 seconds for each lock.
    ///
    /// # Errors
    /// Returns an error if a lock does not become free in time ([`Error::is_lock_timeout`]).
    pub async fn lock_all_chunks(self, chunks: &[Chunk]) -> Result<ChunkLocks, Error> {
        let mut transaction = self.0.begin_with_limit(ALONE).await?;
        erasure::block_erasures(&mut transaction, chunks.iter().map(|chunk| chunk.app)).await?;
        let users: BTreeSet<_> = chunks.iter().flat_map(written_users).collect();
        if !users.is_empty() {
            let (apps, identifiers): (Vec<_>, Vec<_>) = users.into_iter().unzip();
            sqlx::query!(
                "SELECT FROM app_user u JOIN unnest($1::bigint[], $2::text[]) AS named (app_id, identifier)
                   USING (app_id, identifier)
                 ORDER BY app_id, number FOR NO KEY UPDATE OF u",
                &apps,
                &identifiers as &[&str]
            )
            .execute(&mut *transaction)
            .await?;
        }
        Ok(ChunkLocks(transaction))
    }
}

impl BusyLocks {
    #[must_use]
    pub fn are_needed_by(&self, chunk: &Chunk) -> bool {
        let is_locked =
            |identifier| self.users.get(&chunk.app).is_some_and(|users| users.contains(identifier));
        self.apps.contains(&chunk.app) || written_users(chunk).any(|(_, identifier)| is_locked(identifier))
    }
}

impl ChunkLocks {
    /// The caller must leave out chunks that need [`BusyLocks`]. Inserts a row into the table `plan` for each chunk, in key order. If a
    /// chunk already has a row, another transaction has frozen it, and its stored decisions do not change.
    pub async fn freeze(self, chunks: Vec<Chunk>) -> Result<Freeze, Error> {
        Freeze::begin(self.0, chunks).await
    }
}

fn written_users(chunk: &Chunk) -> impl Iterator<Item = (i64, &str)> {
    let recipients = chunk.recipients().iter().filter(|recipient| recipient.profile.is_some());
    recipients.map(|recipient| (chunk.app.0, recipient.identifier.as_str()))
}

/// Locks the users for whom the chunks contain inline profiles. Returns those that another transaction has locked.
async fn busy_users<'t>(
    connection: &mut PgConnection,
    chunks: impl Iterator<Item = &'t Chunk>,
) -> Result<HashMap<AppId, HashSet<String>>, Error> {
    let users: BTreeSet<_> = chunks.flat_map(written_users).collect();
    if users.is_empty() {
        return Ok(HashMap::new());
    }
    let users: Vec<_> = users.into_iter().collect();
    let (apps, identifiers): (Vec<_>, Vec<_>) = users.iter().copied().unzip();
    // Both parts of the statement use the same snapshot. Therefore a user that is created or erased concurrently is either
    // ignored or counted as busy.
    let rows = sqlx::query!(
        r#"WITH named AS (
           SELECT * FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS named (app_id, identifier, place)
         ), locked AS (
           SELECT place FROM app_user u JOIN named USING (app_id, identifier)
           ORDER BY app_id, number FOR NO KEY UPDATE OF u SKIP LOCKED
         )
         SELECT place AS "place!" FROM app_user JOIN named USING (app_id, identifier)
         WHERE place NOT IN (SELECT place FROM locked)"#,
        &apps,
        &identifiers as &[&str]
    )
    .fetch_all(connection)
    .await?;
    let mut busy: HashMap<AppId, HashSet<String>> = HashMap::new();
    for row in rows {
        if let Some((app, identifier)) = usize::try_from(row.place - 1).ok().and_then(|at| users.get(at)) {
            busy.entry(AppId(*app)).or_default().insert((*identifier).to_owned());
        }
    }
    Ok(busy)
}
