//! Removing the data of erased users from the rows of sends. Rows are found by user number, and each statement changes at
//! most 1000 rows.
//!
//! Rows of a send stay, without personal data, so that the send's counts do not change. Rows that another transaction has
//! locked are skipped to avoid deadlocks; a later pass finds them.

use domain::{AppId, UserNumber};
use sqlx::{PgConnection, PgPool};

use crate::Error;
use crate::erasure::STEP;

/// Statements that prevent further calls to providers and apps.
const STOPPING: [&str; 5] = [TIMERS, PARKED, AWAITING, WAITING, WEBHOOKS];
/// Statements that remove the remaining data.
const CLEARING: [&str; 6] = [EARLY, DELIVERIES, ATTEMPTS, RECIPIENTS, TITLES, FILES];

/// Prevents further calls to providers and apps. Runs each statement once, so at most 1000 rows per statement are changed.
pub(super) async fn stop(connection: &mut PgConnection, users: &[(AppId, UserNumber)]) -> Result<(), Error> {
    for statement in STOPPING {
        step(&mut *connection, statement, users).await?;
    }
    Ok(())
}

/// Removes all remaining data of the users, except rows that are locked.
pub(super) async fn clear(pool: &PgPool, users: &[(AppId, UserNumber)]) -> Result<(), Error> {
    for statement in STOPPING.into_iter().chain(CLEARING) {
        all_steps(pool, statement, users).await?;
    }
    Ok(())
}

/// Repeats a statement until it changes fewer than 1000 rows.
pub(super) async fn all_steps(
    pool: &PgPool,
    statement: &'static str,
    users: &[(AppId, UserNumber)],
) -> Result<(), Error> {
    let mut connection = pool.acquire().await?;
    while step(&mut connection, statement, users).await? == STEP.unsigned_abs() {}
    Ok(())
}

async fn step(
    connection: &mut PgConnection,
    statement: &'static str,
    users: &[(AppId, UserNumber)],
) -> Result<u64, Error> {
    let changed = sqlx::query(statement)
        .bind(users.iter().map(|(app, _)| app.0).collect::<Vec<_>>())
        .bind(users.iter().map(|(_, user)| user.0).collect::<Vec<_>>())
        .bind(STEP)
        .execute(connection)
        .await?;
    Ok(changed.rows_affected())
}

const TIMERS: &str = "
    DELETE FROM timer WHERE id IN (
      SELECT t.id FROM timer t JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
        USING (app_id, user_number)
      LIMIT $3 FOR UPDATE OF t SKIP LOCKED
    )";

const PARKED: &str = "
    DELETE FROM parked WHERE id IN (
      SELECT p.id FROM parked p JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
        USING (app_id, user_number)
      LIMIT $3 FOR UPDATE OF p SKIP LOCKED
    )";

/// Deletes jobs that are stored until a receipt arrives.
const AWAITING: &str = "
    DELETE FROM awaiting_receipt WHERE (app_id, delivery_id) IN (
      SELECT k.app_id, k.delivery_id FROM awaiting_receipt k
      JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
      LIMIT $3 FOR UPDATE OF k SKIP LOCKED
    )";

/// Sets deliveries that wait for an attempt to `skipped`. A delivery that a provider may have received is ended by its
/// worker or by the next claim.
const WAITING: &str = "
    UPDATE delivery d SET status = 'skipped', reason = 'recipient_erased', lease_until = NULL, settled_at = now()
    FROM (
      SELECT w.app_id, w.id FROM delivery w JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
        USING (app_id, user_number)
      WHERE w.status IN ('queued', 'retrying', 'parked') OR w.status = 'sending' AND w.lease_until <= now() AND NOT w.calling
      LIMIT $3 FOR UPDATE OF w SKIP LOCKED
    ) AS waiting WHERE (d.app_id, d.id) = (waiting.app_id, waiting.id)";

/// Deletes webhook messages, sent or not, because they name the user.
const WEBHOOKS: &str = "
    DELETE FROM webhook_message WHERE (app_id, endpoint_id, id) IN (
      SELECT w.app_id, w.endpoint_id, w.id
      FROM webhook_message w JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
        USING (app_id, user_number)
      LIMIT $3 FOR UPDATE OF w SKIP LOCKED
    )";

/// Removes the provider's text from early receipts. Must run before `ATTEMPTS`, because some receipts are found by the
/// provider's message id in an attempt.
const EARLY: &str = "
    UPDATE early_receipt e SET answer = jsonb_set(e.answer, '{message}', '\"\"')
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
    ) AS told WHERE e.id = told.id";

/// Removes targets and provider message ids from deliveries, and deletes the suppressions that these deliveries led to.
const DELIVERIES: &str = "
    WITH found AS (
      SELECT f.app_id, f.id, f.channel, f.target
      FROM delivery f JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
      WHERE f.target <> '' OR f.provider_id IS NOT NULL LIMIT $3 FOR UPDATE OF f SKIP LOCKED
    ), lifted AS (
      DELETE FROM suppression s USING found
      WHERE (s.app_id, s.channel, s.target) = (found.app_id, found.channel, found.target) AND s.delivery_id = found.id
    )
    UPDATE delivery d SET target = '', provider_id = NULL FROM found WHERE (d.app_id, d.id) = (found.app_id, found.id)";

/// Removes the texts of providers, which may quote addresses, from attempts.
const ATTEMPTS: &str = "
    UPDATE attempt a SET provider_message = '', provider_id = NULL, receipt_message = left(a.receipt_message, 0)
    FROM (
      SELECT m.app_id, m.delivery_id, m.number
      FROM delivery d JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number) USING (app_id, user_number)
      JOIN attempt m ON (m.app_id, m.delivery_id) = (d.app_id, d.id)
      WHERE m.provider_message <> '' OR m.provider_id IS NOT NULL OR m.receipt_message <> '' LIMIT $3 FOR UPDATE OF m SKIP LOCKED
    ) AS made WHERE (a.app_id, a.delivery_id, a.number) = (made.app_id, made.delivery_id, made.number)";

const RECIPIENTS: &str = "
    UPDATE planned_recipient r SET identifier = '', in_app = false,
      skips = CASE WHEN r.in_app THEN array_prepend('inApp:recipient_erased', r.skips) ELSE r.skips END
    FROM (
      SELECT n.app_id, n.send_id, n.recipient_index
      FROM planned_recipient n JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
        USING (app_id, user_number)
      WHERE n.identifier <> '' OR n.in_app LIMIT $3 FOR UPDATE OF n SKIP LOCKED
    ) AS named
    WHERE (r.app_id, r.send_id, r.recipient_index) = (named.app_id, named.send_id, named.recipient_index)";

/// Removes the title of a send, which may name a recipient, once all its recipients are erased. A send whose body is still
/// stored is left out, because it has chunks still to be planned.
const TITLES: &str = "
    UPDATE request q SET title = NULL
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
    ) AS titled WHERE (q.app_id, q.send_id) = (titled.app_id, titled.send_id)";

/// Deletes the files of a send under the same conditions as its title.
const FILES: &str = "
    DELETE FROM attachment WHERE (app_id, send_id, number) IN (
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
    )";
