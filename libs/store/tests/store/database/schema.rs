//! The schema version, and repeated and concurrent migrations.

use domain::Status;
use store::{Settings, Store};
use testkit::Database;

use crate::fixture;

#[tokio::test]
async fn the_version_is_that_of_the_last_migration() {
    let database = Database::create().await;
    let settings = Settings { url: database.url().to_owned(), max_connections: 2 };
    let (first, second) =
        (Store::connect(&settings).await.unwrap(), Store::connect(&settings).await.unwrap());
    assert_eq!(first.schema_version().await.unwrap(), None);
    let (one, other) = tokio::join!(first.migrate(), second.migrate());
    one.unwrap();
    other.unwrap();
    let version = first.schema_version().await.unwrap();
    assert!(version >= Some(4), "{version:?}");
    first.migrate().await.unwrap();
    assert_eq!(second.schema_version().await.unwrap(), version);
}

#[tokio::test]
async fn the_database_accepts_exactly_the_statuses_of_the_domain() {
    let fixture = fixture().await;
    let outcomes =
        ["sent", "retry", "failed", "target_gone", "pause_provider", "unknown"].map(str::to_owned).to_vec();
    let cases = [
        ("delivery_status", Status::STORED.iter().map(ToString::to_string).collect()),
        ("attempt_outcome", outcomes),
        ("webhook_message_status", ["pending", "delivered", "failed"].map(str::to_owned).to_vec()),
    ];
    for (constraint, mut expected) in cases {
        let (definition, validated): (String, bool) = sqlx::query_as(
            "SELECT pg_get_constraintdef(oid), convalidated FROM pg_constraint WHERE conname = $1",
        )
        .bind(constraint)
        .fetch_one(&fixture.pool)
        .await
        .unwrap();
        assert!(validated, "{definition}");
        let mut found: Vec<String> = definition.split('\'').skip(1).step_by(2).map(str::to_owned).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{constraint}");
    }
}

/// Unique keys without the app: names and operators of the whole installation, streams, and rows whose id is unique by itself.
const WITHOUT_APP: [&str; 25] = [
    "admin_token (digest)",
    "admin_token (id)",
    "admin_token (name)",
    "app (api_key)",
    "app (id)",
    "app (name)",
    "app_link_key (id)",
    "audit (id)",
    "checkpoint (projection, stream)",
    "dead_event (projection, stream, seq)",
    "early_receipt (id)",
    "installation (singleton)",
    "log_mark (stream)",
    "message_failure (stream, seq)",
    "operator (email)",
    "operator (id)",
    "operator_code (digest)",
    "operator_grant (id)",
    "operator_grant (operator_id, COALESCE(app_id, (0)::bigint), by_claim)",
    "operator_identity (issuer, subject)",
    "operator_identity (operator_id, issuer)",
    "operator_session (digest)",
    "parked (id)",
    "stream_identity (name)",
    "timer (id)",
];

/// A database can be distributed by app only if every key contains the app.
#[tokio::test]
async fn every_key_of_an_apps_data_begins_with_the_app() {
    let fixture = fixture().await;
    let keys: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname || ' ' || regexp_replace(pg_get_indexdef(i.indexrelid), '^.* USING btree | WITH [(].*$', '', 'g')
         FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
         WHERE i.indisunique AND c.relnamespace = 'public'::regnamespace AND c.relname <> '_sqlx_migrations'",
    )
    .fetch_all(&fixture.pool)
    .await
    .unwrap();
    let (with, mut without): (Vec<_>, Vec<_>) =
        keys.into_iter().partition(|key| key.contains(" (app_id, ") || key.ends_with(" (app_id)"));
    without.sort();
    assert!(with.len() > 30, "{with:?}");
    assert_eq!(without, WITHOUT_APP);
}
