//! The store behind PgBouncer.

use std::time::Duration;

use local_servers::PgBouncer;
use sqlx::PgPool;
use store::{Error, Settings, Store};
use testkit::eventually;

use crate::fixture;

fn settings(url: &str) -> Settings {
    Settings { url: url.to_owned(), max_connections: 4 }
}

#[tokio::test]
async fn session_mode_works_and_keeps_the_time_limits() {
    let fixture = fixture().await;
    let pooler = PgBouncer::start(fixture.database.url(), "session").await.unwrap();
    let store = Store::connect(&settings(pooler.url())).await.unwrap();
    store.refuse_shared_sessions().await.unwrap();
    store.migrate().await.unwrap();
    store.ping().await.unwrap();

    let direct = PgPool::connect(fixture.database.url()).await.unwrap();
    let mut holder = direct.begin().await.unwrap();
    sqlx::query("LOCK TABLE app").execute(&mut *holder).await.unwrap();
    let refused = eventually(Duration::from_secs(60), "the lock timeout has ended the wait", async || {
        store.control().app_by_key("any").await.err()
    })
    .await;
    assert!(refused.is_lock_timeout(), "{refused}");
}

/// Repeats the check, because it depends on timing: the pooler gives the second connection the session of the first only if
/// the first has already released it.
#[tokio::test]
async fn transaction_mode_is_refused() {
    let fixture = fixture().await;
    let pooler = PgBouncer::start(fixture.database.url(), "transaction").await.unwrap();
    for _ in 0..20 {
        let store = Store::connect(&settings(pooler.url())).await.unwrap();
        let refused = store.refuse_shared_sessions().await.unwrap_err();
        assert!(matches!(refused, Error::SharedSessions) && refused.is_permanent_refusal(), "{refused}");
        assert!(refused.to_string().contains("session mode"), "{refused}");
    }
}
