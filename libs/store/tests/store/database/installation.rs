//! The installation: partitions, streams and the identity of the database.

use domain::{StreamName, Timestamp};
use sqlx::{AssertSqlSafe, PgPool};
use store::database::installation::KnownStream;
use testkit::eventually;

use crate::{LIMIT, NOW, fixture};

#[tokio::test]
async fn the_first_call_fixes_the_number_of_partitions() {
    let fixture = fixture().await;
    assert_eq!(fixture.store.database().partitions().await.unwrap(), None);
    let (one, other) =
        tokio::join!(fixture.store.database().fix_partitions(4), fixture.store.database().fix_partitions(2));
    assert_eq!(one.unwrap(), other.unwrap());
    let fixed = fixture.store.database().partitions().await.unwrap().unwrap();
    assert_eq!(fixture.store.database().fix_partitions(7).await.unwrap(), fixed);
}

#[tokio::test]
async fn a_recorded_stream_is_never_overwritten() {
    let fixture = fixture().await;
    let stream = |name, created_at| KnownStream { name, created_at };
    let (inbox, later) = (StreamName::Inbox(0), Timestamp::from_millis(NOW.millis() + 1));
    fixture.store.database().record_streams(&[stream(inbox, NOW)]).await.unwrap();
    fixture
        .store
        .database()
        .record_streams(&[stream(inbox, later), stream(StreamName::Outcome, later)])
        .await
        .unwrap();
    let recorded = fixture.store.database().recorded_streams().await.unwrap();
    let expected = [("INBOX_0".to_owned(), NOW), ("OUTCOME".to_owned(), later)];
    assert_eq!(recorded, expected.into());
}

#[tokio::test]
async fn a_process_refuses_connections_to_a_replaced_database() {
    let fixture = fixture().await;
    fixture.store.ping().await.unwrap();
    let options = fixture.pool.connect_options().as_ref().clone();
    let name = options.get_database().unwrap().to_owned();
    let server = PgPool::connect_with(options.clone().database("postgres")).await.unwrap();
    fixture.pool.close().await;
    let away = format!("{name}_away");
    eventually(LIMIT, "all sessions are closed", async || {
        sqlx::query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1")
            .bind(&name)
            .execute(&server)
            .await
            .unwrap();
        let rename = format!("ALTER DATABASE {name} RENAME TO {away}");
        sqlx::query(AssertSqlSafe(rename)).execute(&server).await.ok()
    })
    .await;
    sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&server).await.unwrap();

    let refused = fixture.store.ping().await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    PgPool::connect_with(options).await.unwrap().close().await;
    sqlx::query(AssertSqlSafe(format!("DROP DATABASE {away} WITH (FORCE)"))).execute(&server).await.unwrap();
}
