//! Rows that the services wrote. Columns whose values differ between runs are left out.

use serde_json::{Map, Value};
use sqlx::PgPool;
use stand_ins::outbox::Outbox;

/// Names of the tables, each with the query for the columns to compare.
const TABLES: [(&str, &str); 16] = [
    ("app_user", "SELECT number, identifier, profile FROM app_user ORDER BY number"),
    (
        "attempt",
        "SELECT delivery_id, number, provider, outcome, provider_code FROM attempt ORDER BY delivery_id, number",
    ),
    ("category", "SELECT id, identifier, name FROM category ORDER BY id"),
    ("dead_event", "SELECT projection, stream, seq, cause FROM dead_event ORDER BY projection, stream, seq"),
    (
        "delivery",
        "SELECT id, send_id, recipient_index, user_number, channel, target, status, reason, attempt, provider,
                expires_at, token IS NOT NULL AS claimed
         FROM delivery ORDER BY recipient_index, channel, id",
    ),
    ("inbox_counter", "SELECT user_number, total, unread, unseen FROM inbox_counter ORDER BY user_number"),
    (
        "inbox_item",
        "SELECT user_number, id, send_id, category_id, created_at, seen_at, clicked_at, deleted_at, state, content
         FROM inbox_item ORDER BY user_number, id",
    ),
    // Separate, so that the rows of older messages stay as they are.
    (
        "inbox_item_hidden",
        "SELECT id, archived_at, snoozed_until FROM inbox_item
         WHERE archived_at IS NOT NULL OR snoozed_until IS NOT NULL ORDER BY id",
    ),
    ("inbox_counter_hidden", "SELECT user_number, hidden FROM inbox_counter WHERE hidden <> 0 ORDER BY user_number"),
    ("message_failure", "SELECT stream, seq, failures, cause FROM message_failure ORDER BY stream, seq"),
    ("parked", "SELECT stream, send_id, delivery_id, cause FROM parked ORDER BY stream, delivery_id"),
    ("plan", "SELECT send_id, turn FROM plan ORDER BY send_id, turn"),
    (
        "planned_recipient",
        "SELECT turn, recipient_index, identifier, user_number, in_app, skips
         FROM planned_recipient ORDER BY recipient_index",
    ),
    (
        "request",
        "SELECT send_id, accepted_at, send_at, expires_at, lane, title, category_id, template_version, recipients,
                cancelled_at, body IS NOT NULL AS kept
         FROM request ORDER BY send_id",
    ),
    ("suppression", "SELECT channel, target, delivery_id FROM suppression ORDER BY channel, target"),
    (
        "webhook_message",
        "SELECT event, user_number, body::jsonb - 'timestamp' AS body FROM webhook_message
         ORDER BY event, user_number, subject",
    ),
];

/// Returns the rows of every table that has any, by table, and the emails that were sent.
pub(super) async fn all(database: &PgPool, outbox: &Outbox) -> Value {
    let mut tables = Map::new();
    for (name, query) in TABLES {
        let rows: Vec<Value> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
            "SELECT to_jsonb(compared) FROM ({query}) AS compared"
        )))
        .fetch_all(database)
        .await
        .unwrap();
        if !rows.is_empty() {
            tables.insert(name.to_owned(), Value::from(rows));
        }
    }
    let mut emails: Vec<Value> = outbox
        .captures()
        .iter()
        .map(|capture| {
            let text = String::from_utf8_lossy(&capture.raw);
            let header = |name: &str| text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
            serde_json::json!({"to": capture.to, "from": header("From: "), "subject": header("Subject: ")})
        })
        .collect();
    emails.sort_by_key(Value::to_string);
    if !emails.is_empty() {
        tables.insert("emails".to_owned(), Value::from(emails));
    }
    Value::from(tables)
}
