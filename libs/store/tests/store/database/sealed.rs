//! Encrypted columns: all are listed, and rows that change during a rotation are skipped.

use store::database::sealed::{SEALED, SealedRecord, SealedTable};

use crate::{Fixture, fixture};

/// Returns a ciphertext with the header of the master key that has the id `key`.
fn sealed(key: u8, text: &str) -> Vec<u8> {
    [&[1][..], &[key; 8], text.as_bytes()].concat()
}

fn app_secret() -> &'static SealedTable {
    SEALED.iter().find(|table| table.name == "app_secret").unwrap()
}

async fn secret(fixture: &Fixture, sealed: &[u8]) {
    sqlx::query("INSERT INTO app_secret (app_id, digest, sealed) SELECT id, 'digest', $1 FROM app")
        .bind(sealed)
        .execute(&fixture.pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn every_sealed_column_of_the_schema_is_listed() {
    let fixture = fixture().await;
    let columns: Vec<(String, String)> = sqlx::query_as(
        "SELECT table_name::text, column_name::text FROM information_schema.columns
         WHERE table_schema = 'public' AND (column_name LIKE '%sealed%' OR column_name LIKE '%secret%')
         ORDER BY table_name",
    )
    .fetch_all(&fixture.pool)
    .await
    .unwrap();
    let found: Vec<_> = columns.iter().map(|(table, column)| (table.as_str(), column.as_str())).collect();
    let mut known: Vec<_> = SEALED.iter().map(|table| (table.name, "sealed")).collect();
    known.sort_unstable();
    assert_eq!(found, known, "name the column `sealed`, and add its table to SEALED");
    for table in SEALED {
        assert!(fixture.store.database().count_sealed(table).await.unwrap().is_empty(), "{}", table.name);
        let page =
            fixture.store.database().sealed_otherwise(table, b"", SealedRecord::START, 10).await.unwrap();
        assert!(page.is_empty());
        assert_eq!(fixture.store.database().reseal(table, &[]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn records_of_other_keys_are_paged_and_replaced_only_if_unchanged() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    sqlx::query("DELETE FROM app_secret").execute(&fixture.pool).await.unwrap();
    for text in ["a", "b", "c"] {
        secret(&fixture, &sealed(1, text)).await;
    }
    secret(&fixture, &sealed(2, "new")).await;
    let header = sealed(2, "");
    let first = fixture
        .store
        .database()
        .sealed_otherwise(app_secret(), &header, SealedRecord::START, 2)
        .await
        .unwrap();
    let texts: Vec<_> = first.iter().map(|record| record.sealed.clone()).collect();
    assert_eq!(texts, [sealed(1, "a"), sealed(1, "b")]);
    assert_eq!(first[0].context, format!("app-secret:{app}"));
    let rest =
        fixture.store.database().sealed_otherwise(app_secret(), &header, &first[1].place, 2).await.unwrap();
    assert_eq!(rest.len(), 1);

    sqlx::query("UPDATE app_secret SET sealed = $1 WHERE sealed = $2")
        .bind(sealed(1, "changed"))
        .bind(sealed(1, "b"))
        .execute(&fixture.pool)
        .await
        .unwrap();
    let new: Vec<_> = first.into_iter().map(|record| (record, sealed(2, "resealed"))).collect();
    assert_eq!(fixture.store.database().reseal(app_secret(), &new).await.unwrap(), 1);
    let counts = fixture.store.database().count_sealed(app_secret()).await.unwrap();
    let counts: Vec<_> = counts.iter().map(|count| (count.header[1], count.records)).collect();
    assert_eq!(counts, [(1, 2), (2, 2)]);
}
