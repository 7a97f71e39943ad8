//! What is left of erased users in tables that a rebuild or a comparison of the inbox left unfinished.
//!
//! Whoever is at work on such tables compares them with the live ones, and would find a difference where rows are gone: a
//! pass leaves them alone, and the erasure is not done until then.

use domain::{AppId, UserNumber};
use sqlx::PgPool;

use super::messages::{DeadEvents, clear_dead_events, dead_events};
use super::remains;
use crate::Error;

/// The statements for the tables of one schema.
struct Shadow {
    schema: &'static str,
    /// Either kind of item has an index of its own.
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

/// Removes all that is left there. False where somebody is at work on them.
pub(super) async fn clear(pool: &PgPool, users: &[(AppId, UserNumber)]) -> Result<bool, Error> {
    // The lock that whoever is at work holds; given back with the end of the statement.
    let found: Vec<(String, bool)> = sqlx::query_as(
        "SELECT n.nspname::text, pg_try_advisory_xact_lock(hashtextextended(n.nspname, 0))
         FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'dead_event'
         WHERE n.nspname = ANY($1)",
    )
    .bind(SHADOWS.each_ref().map(|shadow| shadow.schema))
    .fetch_all(pool)
    .await?;
    for (schema, _) in found.iter().filter(|(_, is_free)| *is_free) {
        for shadow in SHADOWS.iter().filter(|shadow| shadow.schema == schema) {
            match clear_one(pool, shadow, users).await {
                Err(error) if is_gone(&error) => {}
                cleared => cleared?,
            }
        }
    }
    Ok(found.iter().all(|(_, is_free)| *is_free))
}

async fn clear_one(pool: &PgPool, shadow: &Shadow, users: &[(AppId, UserNumber)]) -> Result<(), Error> {
    for statement in shadow.rows {
        remains::all_steps(pool, statement, users).await?;
    }
    clear_dead_events(pool, &shadow.dead_events).await
}

/// Somebody dropped the tables meanwhile, or put them in the place of the live ones.
fn is_gone(error: &Error) -> bool {
    const UNDEFINED: [&str; 2] = ["42P01", "3F000"];
    matches!(error, Error::Database(sqlx::Error::Database(error))
        if error.code().is_some_and(|code| UNDEFINED.contains(&&*code)))
}
