//! The list of transactions because of which PostgreSQL keeps old versions of rows.

use sqlx::{Connection, Executor, PgConnection};
use store::database::snapshot::HolderKind;

use crate::{Fixture, fixture};

impl Fixture {
    /// Number of sessions that hold a snapshot. Each must have an age.
    async fn holders(&self) -> usize {
        let holders = self.store.database().snapshot_holders().await.unwrap();
        assert!(
            holders.iter().all(|holder| holder.kind == HolderKind::Session && holder.age.is_some()),
            "{holders:?}"
        );
        holders.len()
    }
}

#[tokio::test]
async fn open_transactions_are_listed_from_their_first_snapshot_to_their_end() {
    let fixture = fixture().await;
    let mut reader = PgConnection::connect(fixture.database.url()).await.unwrap();
    assert_eq!(fixture.holders().await, 0);
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    assert_eq!(fixture.holders().await, 0, "it has no snapshot yet");
    reader.execute("SELECT FROM app").await.unwrap();
    let listed = fixture.store.database().snapshot_holders().await.unwrap();
    assert_eq!(listed.len(), 1);
    let mut writer = PgConnection::connect(fixture.database.url()).await.unwrap();
    writer.execute("BEGIN; CREATE TABLE other (n int)").await.unwrap();
    assert_eq!(fixture.holders().await, 2);
    writer.execute("ROLLBACK").await.unwrap();
    let again = fixture.store.database().snapshot_holders().await.unwrap();
    assert_eq!(again[0].key, listed[0].key);
    assert!(again[0].age > listed[0].age);
    reader.execute("COMMIT").await.unwrap();
    assert_eq!(fixture.holders().await, 0);
}
