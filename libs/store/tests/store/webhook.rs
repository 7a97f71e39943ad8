//! Endpoints of apps: what the audit log says of them, and what it costs to take their messages.

use std::time::Duration;

use domain::webhook::WebhookEvent;
use sqlx::PgPool;
use store::webhook::Pace;
use testkit::eventually;

use crate::fixture;

const PACE: Pace = Pace {
    lease: Duration::from_secs(60),
    per_endpoint: 8,
    per_app: 16,
    failures: 3,
    pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(60),
};

#[tokio::test]
async fn the_audit_log_names_an_endpoint_without_its_tokens() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let urls = [
        "https://ada:canary@hooks.example.com:8443/canary?token=canary#canary",
        "https://a.example.com?canary",
    ];
    let mut ids = Vec::new();
    for url in urls {
        let draft = fixture.store.put_endpoint(app, url, WebhookEvent::ALL).await.unwrap().unwrap();
        ids.push(draft.id());
        draft.commit(Some(b"sealed"), "test").await.unwrap();
    }
    let hour = Duration::from_secs(3600);
    assert!(fixture.store.rotate_webhook_secret(app, ids[0], b"new", hour, "test").await.unwrap());
    assert!(fixture.store.remove_endpoint(app, ids[0], "test").await.unwrap());
    let audit = "SELECT action, subject FROM audit WHERE action LIKE 'webhook.%' ORDER BY id";
    let rows: Vec<(String, String)> = sqlx::query_as(audit).fetch_all(&fixture.pool).await.unwrap();
    let first = format!("{} https://hooks.example.com:8443", ids[0]);
    let expected = [
        ("webhook.set", first.clone()),
        ("webhook.set", format!("{} https://a.example.com", ids[1])),
        ("webhook.secret.rotate", first.clone()),
        ("webhook.remove", first),
    ];
    assert_eq!(rows, expected.map(|(action, subject)| (action.to_owned(), subject)));
}

/// Scans of the messages, and rows and index entries that were read in them, by sessions that have ended.
async fn reads(pool: &PgPool) -> (i64, i64) {
    let read =
        "SELECT (SELECT seq_scan + idx_scan FROM pg_stat_user_tables WHERE relname = 'webhook_message'),
        (SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'webhook_message')
        + (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'webhook_message')";
    sqlx::query_as(read).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn taking_messages_costs_by_what_is_taken_and_not_by_what_waits() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let draft = fixture.store.put_endpoint(app, "https://hooks.example.com", WebhookEvent::ALL).await;
    draft.unwrap().unwrap().commit(Some(b"sealed"), "test").await.unwrap();
    // As a new installation after a storm: much waits, more is done, and nobody has looked at the table yet.
    for (status, settled_at) in [("sent", "now()"), ("pending", "NULL")] {
        let insert = format!(
            "INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body, status, settled_at)
             SELECT app_id, id, gen_random_uuid(), md5((n % 4000)::text)::uuid, 'delivery.sent', '{{}}', '{status}',
               {settled_at}
             FROM webhook_endpoint, generate_series(1, 8000) AS n"
        );
        sqlx::query(sqlx::AssertSqlSafe(insert)).execute(&fixture.pool).await.unwrap();
    }
    let (scans, before) = reads(&fixture.pool).await;
    let taken = fixture.store.take_webhooks(100, PACE).await.unwrap();
    assert_eq!(taken.len(), 8);
    // A session tells what it has read at its end at the latest.
    fixture.store.close().await;
    let after = eventually(Duration::from_secs(60), "the reads are counted", async || {
        let (now, read) = reads(&fixture.pool).await;
        (now > scans).then_some(read)
    })
    .await;
    assert!(after - before < 400, "{} rows were read to take 8 of 8,000", after - before);
}
