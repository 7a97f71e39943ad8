//! Sessions of the pool.

use store::deliveries::ledger::ClaimRequest;
use testkit::eventually;

use crate::{LIMIT, fixture};

#[tokio::test]
async fn a_connection_that_broke_while_idle_is_an_outage_and_is_replaced() {
    let fixture = fixture().await;
    let store = fixture.another("").await;
    store.ping().await.unwrap();
    let terminated = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                      WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert!(fixture.count(terminated).await > 0);
    eventually(LIMIT, "the pool has a new connection", async || match store.ping().await {
        Ok(()) => Some(()),
        Err(error) => {
            assert!(error.is_unavailable(), "{error}");
            None
        }
    })
    .await;
}

#[tokio::test]
async fn pinned_plans_apply_to_every_later_session() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let store = fixture.another("").await;
    sqlx::raw_sql(
        "CREATE TABLE setting (mode text, hash text, merge text);
         CREATE FUNCTION note_settings() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           INSERT INTO setting VALUES (current_setting('plan_cache_mode'), current_setting('enable_hashjoin'),
             current_setting('enable_mergejoin'));
           RETURN NULL;
         END $$;
         CREATE TRIGGER note_settings AFTER UPDATE ON delivery FOR EACH ROW EXECUTE FUNCTION note_settings()",
    )
    .execute(&fixture.pool)
    .await
    .unwrap();
    for delivery in fixture.deliveries(app, 2).await {
        let request = ClaimRequest { app, delivery, attempt: 1, provider: None };
        store.deliveries().claim(&[request], LIMIT).await.unwrap();
        store.pin_plans();
    }
    let settings: Vec<(String, String, String)> =
        sqlx::query_as("SELECT mode, hash, merge FROM setting").fetch_all(&fixture.pool).await.unwrap();
    let of = |mode: &str, joins: &str| (mode.to_owned(), joins.to_owned(), joins.to_owned());
    assert_eq!(settings, [of("auto", "on"), of("force_generic_plan", "off")]);
}

#[tokio::test]
async fn plans_are_pinned_when_the_tables_have_statistics() {
    let fixture = fixture().await;
    let store = fixture.another("").await;
    let app = fixture.app("shop").await;
    let pinned = async || store.pin_plans_with_statistics(&["app_user", "app"]).await.unwrap();
    assert!(!pinned().await, "a table without statistics");
    let users = "INSERT INTO app_user (app_id, identifier) SELECT $1, n FROM generate_series(1, 60) n";
    sqlx::query(users).bind(app.0).execute(&fixture.pool).await.unwrap();
    sqlx::raw_sql("ANALYZE app_user; ANALYZE app").execute(&fixture.pool).await.unwrap();
    assert!(!pinned().await, "a table with one row");
    let with_unknown = store.pin_plans_with_statistics(&["app_user", "app_users"]).await.unwrap();
    assert!(!with_unknown, "a table that does not exist");
    let of_users = async || store.pin_plans_with_statistics(&["app_user"]).await.unwrap();
    assert!(of_users().await && of_users().await);
    assert!(pinned().await, "plans stay pinned");
}
