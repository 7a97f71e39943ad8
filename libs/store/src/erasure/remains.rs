//! Removal of the data of erased users from the rows of sends.
//!
//! Most rows of a send stay, without personal data, so that the counts that the API shows for the send do not change. Rows that another
//! transaction has locked are skipped to avoid deadlocks. A later pass finds them.

use domain::{AppId, UserNumber};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, PgPool, Postgres};

use crate::Error;
use crate::database::columns::columns;
use crate::erasure::STEP;

/// Declares an enum with an SQL statement for each variant. Its parameters are the app ids and numbers of the users, and [`STEP`].
macro_rules! removals {
    ($($(#[$meta:meta])* $name:ident => $sql:literal),+ $(,)?) => {
        #[derive(Clone, Copy)]
        enum Removal { $($(#[$meta])* $name),+ }

        impl Removal {
            fn statement<'q>(self, apps: &[i64], users: &[i64]) -> Query<'q, Postgres, PgArguments> {
                match self { $(Removal::$name => sqlx::query!($sql, apps, users, STEP)),+ }
            }
        }
    };
}

/// Removals that prevent further calls to providers, and to the webhook endpoints of apps.
const STOPPING: [Removal; 5] =
    [Removal::Timers, Removal::Parked, Removal::Awaiting, Removal::Waiting, Removal::Webhooks];
const CLEARING: [Removal; 7] = [
    Removal::Early,
    Removal::Deliveries,
    Removal::Suppressions,
    Removal::Attempts,
    Removal::Recipients,
    Removal::Titles,
    Removal::Files,
];

/// Runs each statement once, so each changes at most 1000 rows.
pub(super) async fn stop(connection: &mut PgConnection, users: &[(AppId, UserNumber)]) -> Result<(), Error> {
    columns! { (app, user) in users =>
        app_id = app.0,
        user_number = user.0,
    }
    for removal in STOPPING {
        removal.statement(&app_id, &user_number).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Skips rows that another transaction has locked.
pub(super) async fn clear(pool: &PgPool, users: &[(AppId, UserNumber)]) -> Result<(), Error> {
    columns! { (app, user) in users =>
        app_id = app.0,
        user_number = user.0,
    }
    for removal in STOPPING.into_iter().chain(CLEARING) {
        all_steps(pool, || removal.statement(&app_id, &user_number)).await?;
    }
    Ok(())
}

pub(super) async fn all_steps<'q>(
    pool: &PgPool,
    statement: impl Fn() -> Query<'q, Postgres, PgArguments>,
) -> Result<(), Error> {
    let mut connection = pool.acquire().await?;
    while statement().execute(&mut *connection).await?.rows_affected() == STEP.unsigned_abs() {}
    Ok(())
}

removals! {
    Timers =>
        "DELETE FROM timer WHERE id IN (
           SELECT t.id FROM timer t JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             USING (app_id, user_number)
           LIMIT $3 FOR UPDATE OF t SKIP LOCKED
         )",
    Parked =>
        "DELETE FROM parked WHERE id IN (
           SELECT p.id FROM parked p JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             USING (app_id, user_number)
           LIMIT $3 FOR UPDATE OF p SKIP LOCKED
         )",
    Awaiting =>
        "DELETE FROM awaiting_receipt WHERE (app_id, delivery_id) IN (
           SELECT k.app_id, k.delivery_id FROM awaiting_receipt k
           JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
           LIMIT $3 FOR UPDATE OF k SKIP LOCKED
         )",
    /// Ends a delivery if it waits for an attempt, is parked, or has an expired lease. If its call may have started and must not be
    /// repeated, it ends as `unknown`, as the next claim would end it, because `Timers` may have deleted its only job.
    Waiting =>
        "UPDATE delivery d SET status = CASE WHEN d.calling THEN 'unknown' ELSE 'skipped' END,
           reason = CASE WHEN d.calling THEN 'outcome_unknown' ELSE 'recipient_erased' END,
           lease_until = NULL, settled_at = now()
         FROM (
           SELECT w.app_id, w.id FROM delivery w JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             USING (app_id, user_number)
           WHERE w.status IN ('queued', 'retrying', 'parked') OR w.status = 'sending' AND w.lease_until <= now()
           LIMIT $3 FOR UPDATE OF w SKIP LOCKED
         ) AS waiting WHERE (d.app_id, d.id) = (waiting.app_id, waiting.id)",
    /// The bodies name the user.
    Webhooks =>
        "DELETE FROM webhook_message WHERE (app_id, endpoint_id, id) IN (
           SELECT w.app_id, w.endpoint_id, w.id
           FROM webhook_message w JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             USING (app_id, user_number)
           LIMIT $3 FOR UPDATE OF w SKIP LOCKED
         )",
    /// Removes the provider's text from early receipts. Must run before `Attempts`: some early receipts are found by the
    /// provider's message id in the row of an attempt, and `Attempts` removes this id.
    Early =>
        r#"UPDATE early_receipt e SET answer = jsonb_set(e.answer, '{message}', '""')
         FROM (
           SELECT r.id FROM early_receipt r
           WHERE r.answer->>'message' <> '' AND r.id = ANY(ARRAY(
             SELECT early.id
             FROM unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             JOIN delivery d ON (d.app_id, d.user_number) = (gone.app_id, gone.user_number)
             CROSS JOIN LATERAL (
               SELECT n.id FROM early_receipt n WHERE n.app_id = d.app_id AND n.delivery_id = d.id
               UNION ALL
               SELECT n.id FROM attempt a
               JOIN early_receipt n ON n.app_id = a.app_id AND n.provider = a.provider AND n.provider_id = a.provider_id
                 AND n.delivery_id IS NULL
               WHERE a.app_id = d.app_id AND a.delivery_id = d.id AND a.awaits_receipt
             ) AS early
           ))
           LIMIT $3 FOR UPDATE OF r SKIP LOCKED
         ) AS told WHERE e.id = told.id"#,
    /// Deletes the suppressions that these deliveries caused.
    Deliveries =>
        "WITH found AS (
           SELECT f.app_id, f.id, f.channel, f.target
           FROM delivery f JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
           WHERE f.target <> '' OR f.provider_id IS NOT NULL LIMIT $3 FOR UPDATE OF f SKIP LOCKED
         ), lifted AS (
           DELETE FROM suppression s USING found
           WHERE (s.app_id, s.channel, s.target) = (found.app_id, found.channel, found.target) AND s.delivery_id = found.id
         )
         UPDATE delivery d SET target = '', provider_id = NULL FROM found WHERE (d.app_id, d.id) = (found.app_id, found.id)",
    /// Suppressions by deliveries that have been removed because of their age.
    Suppressions =>
        "DELETE FROM suppression s USING (
           SELECT f.app_id, f.channel, f.target
           FROM suppression f JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
           LIMIT $3 FOR UPDATE OF f SKIP LOCKED
         ) AS found WHERE (s.app_id, s.channel, s.target) = (found.app_id, found.channel, found.target)",
    /// The texts of providers may quote addresses.
    Attempts =>
        "UPDATE attempt a SET provider_message = '', provider_id = NULL, receipt_message = left(a.receipt_message, 0)
         FROM (
           SELECT m.app_id, m.delivery_id, m.number
           FROM delivery d JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
           JOIN attempt m ON (m.app_id, m.delivery_id) = (d.app_id, d.id)
           WHERE m.provider_message <> '' OR m.provider_id IS NOT NULL OR m.receipt_message <> '' LIMIT $3 FOR UPDATE OF m SKIP LOCKED
         ) AS made WHERE (a.app_id, a.delivery_id, a.number) = (made.app_id, made.delivery_id, made.number)",
    Recipients =>
        "UPDATE planned_recipient r SET identifier = '', in_app = false,
           skips = CASE WHEN r.in_app THEN array_prepend('inApp:recipient_erased', r.skips) ELSE r.skips END
         FROM (
           SELECT n.app_id, n.send_id, n.recipient_index
           FROM planned_recipient n JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
             USING (app_id, user_number)
           WHERE n.identifier <> '' OR n.in_app LIMIT $3 FOR UPDATE OF n SKIP LOCKED
         ) AS named
         WHERE (r.app_id, r.send_id, r.recipient_index) = (named.app_id, named.send_id, named.recipient_index)",
    /// The title may name a recipient, so it goes when all recipients are erased. Sends whose body is still stored have chunks that are not
    /// planned yet.
    Titles =>
        "UPDATE request q SET title = NULL
         FROM (
           SELECT t.app_id, t.send_id FROM request t
           WHERE t.title IS NOT NULL AND t.body IS NULL AND (t.app_id, t.send_id) IN (
               SELECT app_id, send_id FROM planned_recipient
               JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
             )
             AND NOT EXISTS (
               SELECT FROM planned_recipient other
               WHERE (other.app_id, other.send_id) = (t.app_id, t.send_id) AND other.identifier <> ''
             )
           LIMIT $3 FOR UPDATE OF t SKIP LOCKED
         ) AS titled WHERE (q.app_id, q.send_id) = (titled.app_id, titled.send_id)",
    Files =>
        "DELETE FROM attachment WHERE (app_id, send_id, number) IN (
           SELECT f.app_id, f.send_id, f.number FROM attachment f JOIN request q USING (app_id, send_id)
           WHERE q.body IS NULL AND (f.app_id, f.send_id) IN (
               SELECT app_id, send_id FROM planned_recipient
               JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
             )
             AND NOT EXISTS (
               SELECT FROM planned_recipient other
               WHERE (other.app_id, other.send_id) = (f.app_id, f.send_id) AND other.identifier <> ''
             )
           LIMIT $3 FOR UPDATE OF f SKIP LOCKED
         )",
}
