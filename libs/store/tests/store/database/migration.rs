//! Migrations while services use the database.

use std::path::Path;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::{Connection as _, PgConnection};
use store::{Settings, Store};
use testkit::{Database, eventually};

/// Longer than the session's `lock_timeout`.
const SOON: Duration = Duration::from_secs(60);
/// A migration that drops an index of `inbox_item`, which waits for readers.
const DROPS_AN_INDEX: i64 = 49;

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_waits_too_long_for_a_lock_is_repeated() {
    let database = Database::create().await;
    let mut service = PgConnection::connect(database.url()).await.unwrap();
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut earlier = Migrator::new(migrations).await.unwrap();
    earlier.migrations.to_mut().retain(|migration| migration.version < DROPS_AN_INDEX);
    earlier.run(&mut service).await.unwrap();

    sqlx::raw_sql("BEGIN; SELECT count(*) FROM inbox_item").execute(&mut service).await.unwrap();
    let settings = Settings { url: database.url().to_owned(), max_connections: 2 };
    let store = Store::connect(&settings).await.unwrap();
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    let service_reads = async {
        let mut waiting = async |other_than: i32, what: &str| {
            eventually(SOON, what, async || {
                sqlx::query_scalar::<_, i32>(
                    "SELECT pid FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> $1",
                )
                .bind(other_than)
                .fetch_optional(&mut observer)
                .await
                .unwrap()
            })
            .await
        };
        let first = waiting(0, "the migration waits for the reader").await;
        waiting(first, "the migration waits again, in another session").await;
        sqlx::raw_sql("COMMIT").execute(&mut service).await.unwrap();
    };
    let (migrated, ()) = tokio::join!(store.migrate(), service_reads);
    migrated.unwrap();

    let newest: i64 = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(&mut service)
        .await
        .unwrap();
    assert!(newest > DROPS_AN_INDEX);
}
