//! Erasure of users.
//!
//! [`Erasures::erase_user`] deletes the user at once. Later passes (module `passes`) remove the user's data from other rows. An advisory
//! lock prevents an erasure and the planning of a send in the same app from running at the same time. If the planning commits before the
//! erasure, the passes find its rows by the user's number. If the planning starts after the erasure, it leaves out the user.

mod messages;
mod passes;
mod remains;
mod shadows;

pub use passes::Pass;

use std::collections::{HashMap, HashSet};

use domain::{Action, Actor, AppId, Digest, Timestamp, UserNumber};
use sqlx::{PgConnection, Postgres, Transaction};

use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::deliveries::timer::{self, NewTimer};
use crate::sends::chunk::Chunk;
use crate::{Erasures, Error, database::audit::AuditEntry};

const STEP: i64 = 1_000;

/// An erasure in an open transaction. If the value is dropped without [`Erasure::commit`], the transaction is rolled back.
#[derive(Debug)]
pub struct Erasure {
    transaction: Transaction<'static, Postgres>,
    app: AppId,
    user: UserNumber,
    digest: Option<Digest>,
}

impl Erasures<'_> {
    /// None if the app has no such user. A send that was accepted at or before `at` does not create the user again.
    pub async fn erase_user(
        self,
        app: AppId,
        identifier: &str,
        at: Timestamp,
    ) -> Result<Option<Erasure>, Error> {
        if self.0.directory().known_identifiers(app, &[identifier]).await?.is_empty() {
            return Ok(None);
        }
        self.blank_while_unknown(app, identifier).await?;
        let mut transaction = self.0.begin().await?;
        sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('erasure', $1))", app.0)
            .execute(&mut *transaction)
            .await?;
        let erased = sqlx::query!(
            r#"WITH gone AS (
                 DELETE FROM app_user WHERE app_id = $1 AND identifier = $2 RETURNING app_id, number, identifier
               )
               INSERT INTO erased (app_id, user_number, digest, erased_at)
               SELECT app_id, number, sha256(convert_to(app_id || E'\n' || identifier, 'UTF8')), $3 FROM gone
               RETURNING user_number, digest"#,
            app.0,
            identifier,
            instant(at)
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(erased) = erased else { return Ok(None) };
        let user = UserNumber(erased.user_number);
        let digest = erased.digest.and_then(|digest| digest.try_into().ok()).map(Digest);
        remains::stop(&mut transaction, &[(app, user)]).await?;
        Ok(Some(Erasure { transaction, app, user, digest }))
    }

    /// Removes the identifier from rows of `planned_recipient` that were written before the user was created: they have no user number, so
    /// the passes cannot find them. If the user was the only recipient of a send, also removes the send's title and files.
    pub(crate) async fn blank_while_unknown(self, app: AppId, identifier: &str) -> Result<(), Error> {
        loop {
            let blanked = sqlx::query!(
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
                app.0,
                identifier,
                STEP
            )
            .execute(&self.0.pool)
            .await?;
            if blanked.rows_affected() < STEP.unsigned_abs() {
                return Ok(());
            }
        }
    }

    /// Users that were ever erased. A replay of the inbox leaves them out.
    pub async fn erased_users(self) -> Result<Vec<(AppId, UserNumber)>, Error> {
        let rows = sqlx::query!("SELECT app_id, user_number FROM erased").fetch_all(&self.0.pool).await?;
        Ok(rows.into_iter().map(|row| (AppId(row.app_id), UserNumber(row.user_number))).collect())
    }
}

impl Erasure {
    /// Never reused.
    #[must_use]
    pub fn user(&self) -> UserNumber {
        self.user
    }

    /// SHA-256 digest of the app id, a line feed and the user's identifier; None if it is not stored.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Sets the timer that publishes the erasure to the inbox, and commits. The timer must not contain the user's number, because erasing
    /// deletes the timers that contain it. After an error, the user may still have been erased; a repeated erasure then finds no user.
    pub async fn commit(mut self, timer: &NewTimer, actor: &Actor) -> Result<(), Error> {
        // The audit log contains no personal data, so it names the user by number.
        let subject = format!("user {}", self.user);
        AuditEntry::new(self.app, actor, Action::UserErase, &subject).write(&mut self.transaction).await?;
        timer::insert(&mut self.transaction, std::slice::from_ref(timer)).await?;
        self.transaction.commit().await?;
        Ok(())
    }
}

/// Waits until no erasure is running in the given apps, and blocks new erasures there until the transaction ends.
pub(crate) async fn block_erasures(
    connection: &mut PgConnection,
    apps: impl Iterator<Item = AppId>,
) -> Result<(), Error> {
    sqlx::query!(
        "SELECT pg_advisory_xact_lock_shared(hashtextextended('erasure', app_id))
         FROM (SELECT DISTINCT app_id FROM unnest($1::bigint[]) AS named (app_id)) AS named",
        &apps.map(|app| app.0).collect::<Vec<_>>()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Like [`block_erasures`], but does not wait. Returns the apps in which an erasure is running or waits for the lock.
pub(crate) async fn try_block_erasures(
    connection: &mut PgConnection,
    apps: impl Iterator<Item = AppId>,
) -> Result<HashSet<AppId>, Error> {
    let tried = sqlx::query!(
        r#"SELECT app_id AS "app_id!", pg_try_advisory_xact_lock_shared(hashtextextended('erasure', app_id)) AS "is_held!"
           FROM (SELECT DISTINCT app_id FROM unnest($1::bigint[]) AS named (app_id)) AS named"#,
        &apps.map(|app| app.0).collect::<Vec<_>>()
    )
    .fetch_all(connection)
    .await?;
    Ok(tried.into_iter().filter(|row| !row.is_held).map(|row| AppId(row.app_id)).collect())
}

/// Times of the latest erasures, by app and identifier.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErasedRecipients(HashMap<AppId, HashMap<String, Timestamp>>);

impl ErasedRecipients {
    /// `since` is the earliest time at which one of the sends was accepted. Usually no user of these apps has been erased since then, and
    /// only one short query runs.
    pub(crate) async fn read(
        connection: &mut PgConnection,
        since: Timestamp,
        named: &[(AppId, &str)],
    ) -> Result<ErasedRecipients, Error> {
        let app_id: Vec<_> = named.iter().map(|(app, _)| app.0).collect();
        let any_erased = sqlx::query_scalar!(
            r#"SELECT EXISTS (
               SELECT FROM unnest($1::bigint[]) AS named (app_id) CROSS JOIN LATERAL (
                 SELECT FROM erased e
                 WHERE e.app_id = named.app_id AND e.done_at IS NULL AND e.erased_at >= $2
                 ORDER BY e.erased_at LIMIT 1
               ) AS since
             ) AS "exists!""#,
            &app_id,
            instant(since)
        )
        .fetch_one(&mut *connection)
        .await?;
        if any_erased { Self::of(connection, named).await } else { Ok(ErasedRecipients::default()) }
    }

    /// Unlike [`ErasedRecipients::read`], looks each recipient up even if no user of its app was erased lately.
    pub(crate) async fn of(
        connection: &mut PgConnection,
        named: &[(AppId, &str)],
    ) -> Result<ErasedRecipients, Error> {
        let mut erased = ErasedRecipients::default();
        if named.is_empty() {
            return Ok(erased);
        }
        columns! { (app, name) in named =>
            app_id = app.0,
            identifier = *name,
        }
        let rows = sqlx::query!(
            r#"SELECT named.app_id AS "app_id!", named.identifier AS "identifier!", max(e.erased_at) AS "erased_at!"
               FROM unnest($1::bigint[], $2::text[]) AS named (app_id, identifier)
               JOIN erased e ON e.app_id = named.app_id AND e.done_at IS NULL
                 AND e.digest = sha256(convert_to(named.app_id || E'\n' || named.identifier, 'UTF8'))
               GROUP BY named.app_id, named.identifier"#,
            &app_id,
            &identifier as &[&str]
        )
        .fetch_all(connection)
        .await?;
        for row in rows {
            let of_app = erased.0.entry(AppId(row.app_id)).or_default();
            of_app.insert(row.identifier, row.erased_at.into());
        }
        Ok(erased)
    }

    /// Returns true if the recipient was erased at or after `accepted_at`, the time at which a send that names the recipient was accepted.
    pub(crate) fn holds(&self, app: AppId, identifier: &str, accepted_at: Timestamp) -> bool {
        self.0.get(&app).and_then(|of_app| of_app.get(identifier)).is_some_and(|at| *at >= accepted_at)
    }

    /// None if the send names no erased recipient.
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

/// None if the send names no erased recipient. Blocks erasures in the app until the transaction ends.
pub(crate) async fn without_erased(
    transaction: &mut PgConnection,
    chunk: &Chunk,
) -> Result<Option<Chunk>, Error> {
    block_erasures(transaction, std::iter::once(chunk.app)).await?;
    let named: Vec<_> = chunk.send.identifiers().map(|identifier| (chunk.app, identifier)).collect();
    let erased = ErasedRecipients::read(transaction, chunk.accepted_at, &named).await?;
    let send = erased.without(chunk.app, chunk.accepted_at, &chunk.send);
    Ok(send.map(|send| Chunk { send: send.into(), ..chunk.clone() }))
}
