//! Removal of erased users from the tables of an unfinished inbox rebuild or verification.
//!
//! A running rebuild or verification compares these tables with the live tables, and would report removed rows as differences. Therefore a
//! pass does not change the tables while they are in use, and the erasure is complete only after a later pass has searched them.

use domain::{AppId, UserNumber};
use sqlx::PgPool;

use super::messages::{DeadEvents, clear_dead_events, dead_events};
use super::{STEP, remains};
use crate::Error;
use crate::database::columns::columns;

struct Shadow {
    schema: &'static str,
    /// Existing items, deleted items and counters. Existing and deleted items have separate indexes.
    rows: [&'static str; 3],
    dead_events: DeadEvents,
}

macro_rules! items {
    ($schema:literal, $deleted:literal) => {
        concat!(
            "DELETE FROM ",
            $schema,
            ".inbox_item WHERE (app_id, id) IN (
               SELECT i.app_id, i.id FROM ",
            $schema,
            ".inbox_item i JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
                 USING (app_id, user_number)
               WHERE i.deleted_at ",
            $deleted,
            " LIMIT $3 FOR UPDATE OF i SKIP LOCKED)"
        )
    };
}

macro_rules! shadow {
    ($schema:literal) => {
        Shadow {
            schema: $schema,
            rows: [
                items!($schema, "IS NULL"),
                items!($schema, "IS NOT NULL"),
                concat!(
                    "DELETE FROM ",
                    $schema,
                    ".inbox_counter WHERE (app_id, user_number) IN (
                       SELECT c.app_id, c.user_number FROM ",
                    $schema,
                    ".inbox_counter c JOIN unnest($1::bigint[], $2::bigint[]) AS gone (app_id, user_number)
                         USING (app_id, user_number)
                       LIMIT $3 FOR UPDATE OF c SKIP LOCKED)"
                ),
            ],
            dead_events: dead_events!($schema, ".dead_event"),
        }
    };
}

const SHADOWS: [Shadow; 2] = [shadow!("inbox_rebuild"), shadow!("inbox_verify")];

/// Returns false if another process is using one of the schemas.
pub(super) async fn clear(pool: &PgPool, users: &[(AppId, UserNumber)]) -> Result<bool, Error> {
    // A process that uses the tables holds this lock in its session. This statement tries to acquire the lock; PostgreSQL
    // releases it at the end of the statement.
    let found = sqlx::query!(
        r#"SELECT n.nspname::text AS "schema!", pg_try_advisory_xact_lock(hashtextextended(n.nspname, 0)) AS "is_free!"
           FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'dead_event'
           WHERE n.nspname = ANY($1::text[])"#,
        &SHADOWS.each_ref().map(|shadow| shadow.schema) as &[&str]
    )
    .fetch_all(pool)
    .await?;
    for row in found.iter().filter(|row| row.is_free) {
        for shadow in SHADOWS.iter().filter(|shadow| shadow.schema == row.schema) {
            match clear_one(pool, shadow, users).await {
                Err(error) if is_undefined(&error) => {}
                cleared => cleared?,
            }
        }
    }
    Ok(found.iter().all(|row| row.is_free))
}

async fn clear_one(pool: &PgPool, shadow: &Shadow, users: &[(AppId, UserNumber)]) -> Result<(), Error> {
    columns! { (app, user) in users =>
        app_id = app.0,
        user_number = user.0,
    }
    for statement in shadow.rows {
        remains::all_steps(pool, || sqlx::query(statement).bind(&app_id).bind(&user_number).bind(STEP))
            .await?;
    }
    clear_dead_events(pool, &shadow.dead_events).await
}

/// The tables no longer exist, because they were dropped or have become the live tables.
fn is_undefined(error: &Error) -> bool {
    const UNDEFINED: [&str; 2] = ["42P01", "3F000"];
    matches!(error, Error::Database(sqlx::Error::Database(error))
        if error.code().is_some_and(|code| UNDEFINED.contains(&&*code)))
}
