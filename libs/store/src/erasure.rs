//! Erasing users: the row that records an erasure, and how planning, readers and replays leave erased users out.
//!
//! The passes of `remains` remove the rest of a user's data. An advisory lock excludes erasing and planning in the same
//! app from each other: planning an earlier send either finds the user, and the passes find the rows that it writes by
//! the user's number, or it finds the erasure.

mod messages;
mod passes;
mod remains;
mod shadows;

pub use passes::Pass;

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use domain::{AppId, Digest, Timestamp, UserNumber};
use sqlx::{PgConnection, Postgres, Row, Transaction};

use crate::database::instant::instant;
use crate::deliveries::timer::{self, NewTimer};
use crate::sends::chunk::Chunk;
use crate::{Error, Store, database::audit};

/// Limit on the rows that one statement changes.
const STEP: i64 = 1_000;

/// SHA-256 over app and identifier.
macro_rules! digest {
    ($app:literal, $identifier:literal) => {
        concat!("sha256(convert_to(", $app, " || E'\\n' || ", $identifier, ", 'UTF8'))")
    };
}
pub(crate) use digest;

/// An erasure under way. If dropped without [`Erasure::commit`], it is rolled back.
#[derive(Debug)]
pub struct Erasure {
    transaction: Transaction<'static, Postgres>,
    app: AppId,
    user: UserNumber,
    digest: Option<Digest>,
}

impl Store {
    /// Starts erasing a user; None if the app has no such user. Sends and events accepted up to `at` do not re-create the
    /// user.
    pub async fn erase_user(
        &self,
        app: AppId,
        identifier: &str,
        at: Timestamp,
    ) -> Result<Option<Erasure>, Error> {
        if self.known_identifiers(app, &[identifier]).await?.is_empty() {
            return Ok(None);
        }
        self.blank_while_unknown(app, identifier).await?;
        let mut transaction = self.begin().await?;
        sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('erasure', $1))")
            .bind(app.0)
            .execute(&mut *transaction)
            .await?;
        let erased: Option<(i64, Option<Vec<u8>>)> = sqlx::query_as(concat!(
            "WITH gone AS (
               DELETE FROM app_user WHERE app_id = $1 AND identifier = $2 RETURNING app_id, number, identifier
             )
             INSERT INTO erased (app_id, user_number, digest, erased_at)
             SELECT app_id, number, ",
            digest!("app_id", "identifier"),
            ", $3 FROM gone RETURNING user_number, digest"
        ))
        .bind(app.0)
        .bind(identifier)
        .bind(instant(at))
        .fetch_optional(&mut *transaction)
        .await?;
        let Some((user, digest)) = erased else {
            return Ok(None);
        };
        let user = UserNumber(user);
        let digest = digest.and_then(|digest| digest.try_into().ok()).map(Digest);
        remains::stop(&mut transaction, &[(app, user)]).await?;
        Ok(Some(Erasure { transaction, app, user, digest }))
    }

    /// Blanks the plan rows of sends that named the user before the user existed: these rows have no user number.
    pub(crate) async fn blank_while_unknown(&self, app: AppId, identifier: &str) -> Result<(), Error> {
        loop {
            let blanked = sqlx::query(
                "WITH found AS (
                   SELECT app_id, send_id, recipient_index FROM planned_recipient
                   WHERE app_id = $1 AND identifier = $2 AND user_number IS NULL LIMIT $3 FOR UPDATE
                 ), titles AS (
                   UPDATE request q SET title = NULL FROM found
                   WHERE (q.app_id, q.send_id) = (found.app_id, found.send_id) AND q.recipients = 1
                 ), files AS (
                   DELETE FROM attachment f USING found JOIN request r USING (app_id, send_id)
                   WHERE (f.app_id, f.send_id) = (found.app_id, found.send_id) AND r.recipients = 1
                 )
                 UPDATE planned_recipient r SET identifier = '' FROM found
                 WHERE (r.app_id, r.send_id, r.recipient_index)
                   = (found.app_id, found.send_id, found.recipient_index)",
            )
            .bind(app.0)
            .bind(identifier)
            .bind(STEP)
            .execute(&self.pool)
            .await?;
            if blanked.rows_affected() < STEP.unsigned_abs() {
                return Ok(());
            }
        }
    }

    /// Returns all users ever erased; a replay of the inbox leaves them out.
    pub async fn erased_users(&self) -> Result<Vec<(AppId, UserNumber)>, Error> {
        let rows: Vec<(i64, i64)> =
            sqlx::query_as("SELECT app_id, user_number FROM erased").fetch_all(&self.pool).await?;
        Ok(rows.into_iter().map(|(app, user)| (AppId(app), UserNumber(user))).collect())
    }
}

impl Erasure {
    /// Number of the user; never used again.
    #[must_use]
    pub fn user(&self) -> UserNumber {
        self.user
    }

    /// SHA-256 over the app, a line feed and the identifier.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Erases the user for `actor` and sets the timer that publishes the erasure to the inbox. The timer must not name
    /// the user, because the user's timers are deleted.
    ///
    /// # Errors
    /// The database failed; the user may or may not be erased, and repeating shows which.
    pub async fn commit(mut self, timer: &NewTimer, actor: &str) -> Result<(), Error> {
        // By number: the audit log keeps no personal data.
        let subject = format!("user {}", self.user);
        audit::record(&mut self.transaction, self.app, actor, "user.erase", &subject).await?;
        timer::insert(&mut self.transaction, std::slice::from_ref(timer)).await?;
        self.transaction.commit().await?;
        Ok(())
    }
}

/// Blocks erasures in these apps until the transaction ends.
pub(crate) async fn hold_off(
    connection: &mut PgConnection,
    apps: impl Iterator<Item = AppId>,
) -> Result<(), Error> {
    sqlx::query(
        "SELECT pg_advisory_xact_lock_shared(hashtextextended('erasure', app_id))
         FROM (SELECT DISTINCT app_id FROM unnest($1::bigint[]) AS named (app_id)) AS named",
    )
    .bind(apps.map(|app| app.0).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Blocks erasures in these apps until the transaction ends, without waiting for erasures that are under way or waiting.
/// Returns the apps that have such an erasure; these are not blocked.
pub(crate) async fn try_hold_off(
    connection: &mut PgConnection,
    apps: impl Iterator<Item = AppId>,
) -> Result<HashSet<AppId>, Error> {
    let held: Vec<(i64, bool)> = sqlx::query_as(
        "SELECT app_id, pg_try_advisory_xact_lock_shared(hashtextextended('erasure', app_id))
         FROM (SELECT DISTINCT app_id FROM unnest($1::bigint[]) AS named (app_id)) AS named",
    )
    .bind(apps.map(|app| app.0).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    Ok(held.into_iter().filter(|(_, held)| !held).map(|(app, _)| AppId(app)).collect())
}

/// Erased recipients, each with the time of the latest erasure.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErasedRecipients(HashMap<AppId, HashMap<String, Timestamp>>);

impl ErasedRecipients {
    /// Looks up the recipients of sends, the earliest of which was accepted at `since`. If no user was erased since then,
    /// which is the usual case, a single short query suffices.
    pub(crate) async fn read(
        connection: &mut PgConnection,
        since: Timestamp,
        named: &[(AppId, &str)],
    ) -> Result<ErasedRecipients, Error> {
        let apps: Vec<i64> = named.iter().map(|(app, _)| app.0).collect();
        let any_erased: bool = sqlx::query_scalar(
            "SELECT EXISTS (
               SELECT FROM unnest($1::bigint[]) AS named (app_id) CROSS JOIN LATERAL (
                 SELECT FROM erased e
                 WHERE e.app_id = named.app_id AND e.done_at IS NULL AND e.erased_at >= $2
                 ORDER BY e.erased_at LIMIT 1
               ) AS since
             )",
        )
        .bind(&apps)
        .bind(instant(since))
        .fetch_one(&mut *connection)
        .await?;
        let mut erased = ErasedRecipients::default();
        if !any_erased {
            return Ok(erased);
        }
        let rows = sqlx::query(concat!(
            "SELECT named.app_id, named.identifier, max(e.erased_at) AS erased_at
             FROM unnest($1::bigint[], $2::text[]) AS named (app_id, identifier)
             JOIN erased e ON e.app_id = named.app_id AND e.done_at IS NULL AND e.digest = ",
            digest!("named.app_id", "named.identifier"),
            " GROUP BY named.app_id, named.identifier"
        ))
        .bind(&apps)
        .bind(named.iter().map(|(_, identifier)| *identifier).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
        for row in rows {
            let at: DateTime<Utc> = row.try_get("erased_at")?;
            let of_app = erased.0.entry(AppId(row.try_get("app_id")?)).or_default();
            of_app.insert(row.try_get("identifier")?, at.into());
        }
        Ok(erased)
    }

    /// Returns true if a recipient was erased after a send that names it was accepted.
    pub(crate) fn holds(&self, app: AppId, identifier: &str, accepted_at: Timestamp) -> bool {
        self.0.get(&app).and_then(|of_app| of_app.get(identifier)).is_some_and(|at| *at >= accepted_at)
    }

    /// Returns the send without the erased recipients; None if it names none of them.
    pub(crate) fn without(
        &self,
        app: AppId,
        accepted_at: Timestamp,
        send: &domain::SendRequest,
    ) -> Option<domain::SendRequest> {
        if self.0.is_empty() {
            return None;
        }
        send.without(|identifier| self.holds(app, identifier, accepted_at))
    }
}

/// Returns the chunk without erased recipients; None if it names none. Blocks erasures in its app until the transaction
/// ends.
pub(crate) async fn without_erased(
    transaction: &mut PgConnection,
    chunk: &Chunk,
) -> Result<Option<Chunk>, Error> {
    hold_off(transaction, std::iter::once(chunk.app)).await?;
    let named: Vec<_> =
        chunk.send.recipients.iter().map(|recipient| (chunk.app, recipient.identifier.as_str())).collect();
    let erased = ErasedRecipients::read(transaction, chunk.accepted_at, &named).await?;
    let send = erased.without(chunk.app, chunk.accepted_at, &chunk.send);
    Ok(send.map(|send| Chunk { send: send.into(), ..chunk.clone() }))
}
