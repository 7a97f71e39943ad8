//! Migrations while services use the database.

use std::path::Path;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::{Connection as _, PgConnection};
use store::{Settings, Store};
use testkit::{Database, eventually};

const SOON: Duration = Duration::from_secs(30);
/// A migration that builds an index and then drops another one of the same table.
const BUILDS_AND_DROPS: i64 = 49;

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_deadlocks_with_a_service_is_repeated() {
    let database = Database::create().await;
    let mut service = PgConnection::connect(database.url()).await.unwrap();
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut earlier = Migrator::new(migrations).await.unwrap();
    earlier.migrations.to_mut().retain(|migration| migration.version < BUILDS_AND_DROPS);
    earlier.run(&mut service).await.unwrap();

    // PostgreSQL ends the transaction that notices the deadlock: the migration.
    let reads = "BEGIN; SET LOCAL deadlock_timeout = '1h'; SELECT count(*) FROM inbox_item";
    sqlx::raw_sql(reads).execute(&mut service).await.unwrap();
    let settings = Settings { url: database.url().to_owned(), max_connections: 2 };
    let store = Store::connect(&settings).await.unwrap();
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    let service_continues = async {
        eventually(SOON, "the migration waits for the reader", async || {
            let waiting = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'";
            let waiting: i64 = sqlx::query_scalar(waiting).fetch_one(&mut observer).await.unwrap();
            (waiting == 1).then_some(())
        })
        .await;
        sqlx::raw_sql("UPDATE inbox_item SET state = state; COMMIT").execute(&mut service).await.unwrap();
    };
    let (migrated, ()) = tokio::join!(store.migrate(), service_continues);
    migrated.unwrap();

    let newest: i64 = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(&mut service)
        .await
        .unwrap();
    assert!(newest > BUILDS_AND_DROPS);
}
