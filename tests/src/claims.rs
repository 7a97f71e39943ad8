//! Records of all claims of deliveries, which triggers in the database write.

use chrono::{DateTime, Utc};
use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

/// Triggers that record every claim. An update is a claim if it gives a delivery a new token; an insert is a claim if the new row is
/// already `sending`. `at` is the start of the statement. `seen` is a snapshot that a statement trigger stores before the
/// claim reads suppressions, so a suppression in this snapshot was committed before the claim.
const CLAIMS: &str = "
    CREATE TABLE claimed (
      delivery_id uuid NOT NULL, attempt integer NOT NULL, at timestamptz NOT NULL, seen pg_snapshot NOT NULL
    );
    CREATE FUNCTION note_seen() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM set_config('crash.seen', pg_current_snapshot()::text, true);
      RETURN NULL;
    END $$;
    CREATE TRIGGER note_seen BEFORE INSERT OR UPDATE ON delivery FOR EACH STATEMENT EXECUTE FUNCTION note_seen();
    CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO claimed
      VALUES (NEW.id, NEW.attempt, statement_timestamp(), current_setting('crash.seen')::pg_snapshot);
      RETURN NULL;
    END $$;
    CREATE TRIGGER note_claim AFTER UPDATE ON delivery FOR EACH ROW
      WHEN (NEW.status = 'sending' AND NEW.token IS NOT NULL AND NEW.token IS DISTINCT FROM OLD.token) EXECUTE FUNCTION note_claim();
    CREATE TRIGGER note_inserted_claim AFTER INSERT ON delivery FOR EACH ROW
      WHEN (NEW.status = 'sending') EXECUTE FUNCTION note_claim();";

/// Starts to record claims in the table `claimed`.
pub async fn record(database: &PgPool) {
    sqlx::raw_sql(CLAIMS).execute(database).await.unwrap();
}

/// A recorded claim: delivery, attempt, time, and true if the suppression of the target was committed before the claim. A
/// suppression is never updated, so `xmin` of its row is the transaction that created it.
pub type Claim = (Uuid, i32, DateTime<Utc>, bool);

/// Reads all recorded claims, earliest first.
pub async fn all(database: impl PgExecutor<'_>) -> Vec<Claim> {
    sqlx::query_as(
        "SELECT c.delivery_id, c.attempt, c.at, coalesce(pg_visible_in_snapshot(s.xmin::text::xid8, c.seen), false)
         FROM claimed c JOIN delivery d ON d.id = c.delivery_id
         LEFT JOIN suppression s ON (s.app_id, s.channel, s.target) = (d.app_id, d.channel, d.target)
         ORDER BY c.at",
    )
    .fetch_all(database)
    .await
    .unwrap()
}

#[cfg(test)]
mod tests {
    use testkit::Database;

    use super::*;

    const APP: &str = "INSERT INTO app (name, api_key) VALUES ('shop', 'shop')";
    const DELIVERY: &str = "
        INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
        SELECT id, gen_random_uuid(), gen_random_uuid(), 0, 1, 'email', 'ada@example.com' FROM app";
    /// A statement that creates a delivery and claims it, even if its target is suppressed.
    const CLAIMED_DELIVERY: &str = "
        INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, token)
        SELECT id, gen_random_uuid(), gen_random_uuid(), 0, 1, 'email', 'ada@example.com', 'sending', gen_random_uuid()
        FROM app";
    const SUPPRESSION: &str = "
        INSERT INTO suppression (app_id, channel, target, delivery_id, code)
        SELECT app_id, channel, target, id, '550' FROM delivery LIMIT 1";
    /// A statement that claims every delivery, even of suppressed targets.
    const CLAIM: &str = "UPDATE delivery SET status = 'sending', token = gen_random_uuid()";

    /// Creates a database that records claims and has one app. The database exists until the first value is dropped.
    async fn recording() -> (Database, PgPool) {
        let database = Database::with_schema().await;
        let pool = PgPool::connect(database.url()).await.unwrap();
        record(&pool).await;
        sqlx::query(APP).execute(&pool).await.unwrap();
        (database, pool)
    }

    async fn late(pool: &PgPool) -> Vec<bool> {
        all(pool).await.into_iter().map(|(.., is_late)| is_late).collect()
    }

    #[tokio::test]
    async fn a_claim_counts_as_late_only_after_the_suppression_is_committed() {
        let (_database, pool) = recording().await;
        sqlx::query(DELIVERY).execute(&pool).await.unwrap();

        let mut claiming = pool.begin().await.unwrap();
        sqlx::query(CLAIM).execute(&mut *claiming).await.unwrap();
        let mut suppressing = pool.begin().await.unwrap();
        sqlx::query(SUPPRESSION).execute(&mut *suppressing).await.unwrap();
        claiming.commit().await.unwrap();
        sqlx::query(CLAIM).execute(&pool).await.unwrap();
        suppressing.commit().await.unwrap();
        sqlx::query("UPDATE delivery SET token = NULL").execute(&pool).await.unwrap();
        sqlx::query(CLAIM).execute(&pool).await.unwrap();

        assert_eq!(late(&pool).await, [false, false, true]);
    }

    #[tokio::test]
    async fn an_insert_is_recorded_as_a_claim_only_if_the_row_is_already_sending() {
        let (_database, pool) = recording().await;
        sqlx::query(DELIVERY).execute(&pool).await.unwrap();
        assert!(late(&pool).await.is_empty());

        sqlx::query(CLAIMED_DELIVERY).execute(&pool).await.unwrap();
        sqlx::query(SUPPRESSION).execute(&pool).await.unwrap();
        sqlx::query(CLAIMED_DELIVERY).execute(&pool).await.unwrap();

        assert_eq!(late(&pool).await, [false, true]);
        let claimed: Vec<(Uuid, i32)> =
            sqlx::query_as("SELECT id, attempt FROM delivery WHERE status = 'sending' ORDER BY id")
                .fetch_all(&pool)
                .await
                .unwrap();
        let mut recorded: Vec<(Uuid, i32)> =
            all(&pool).await.into_iter().map(|(delivery, attempt, ..)| (delivery, attempt)).collect();
        recorded.sort_unstable();
        assert_eq!(recorded, claimed);
    }
}
