//! What the service itself says of every send, over the API and in its tables.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use sqlx::PgPool;

use crate::journal::Journal;
use crate::send::{RECIPIENTS, SENDS, recipients, title, user};
use crate::system::System;

/// The deliveries of all emails: by subject and address, the delivery's id.
pub(crate) type Deliveries = BTreeMap<(String, String), String>;

/// Every confirmed send is complete, and there is nothing else.
pub(crate) async fn agrees(system: &System, journal: &Journal) -> Deliveries {
    for (send, request) in journal.requests() {
        let told = system.api.get(&format!("/v3/requests/{request}")).await;
        assert_eq!(told["status"], "completed", "send {send}: {told}");
        let counts = &told["counts"];
        assert_eq!(counts["inApp"], json!({"delivered": RECIPIENTS}), "send {send}: {told}");
        assert_eq!(counts["email"], json!({"sent": RECIPIENTS}), "send {send}: {told}");
        let told = system.api.get(&format!("/v3/requests/{request}/deliveries?channel=email")).await;
        let named: BTreeSet<&str> =
            array(&told["data"]).map(|row| row["recipient"].as_str().unwrap()).collect();
        let wanted: Vec<String> = recipients(send).map(user).collect();
        assert_eq!(named, wanted.iter().map(String::as_str).collect(), "send {send}");
        for delivery in array(&told["data"]) {
            let sent = array(&delivery["attempts"]).filter(|attempt| attempt["outcome"] == "sent").count();
            assert_eq!((&delivery["status"], sent), (&json!("sent"), 1), "send {send}: {delivery}");
        }
    }
    only_what_was_confirmed(&system.database, journal).await;
    nothing_is_left_over(&system.database).await;
    deliveries(&system.database).await
}

fn array(value: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    value.as_array().unwrap().iter()
}

async fn only_what_was_confirmed(database: &PgPool, journal: &Journal) {
    let requests: Vec<(String, String)> =
        sqlx::query_as("SELECT send_id::text, title FROM request").fetch_all(database).await.unwrap();
    let planned: BTreeMap<String, String> = requests.into_iter().collect();
    let promised = journal
        .requests()
        .map(|(send, request)| (request.to_owned(), title(send)))
        .collect::<BTreeMap<_, _>>();
    assert_eq!(planned, promised, "requests");
    assert_eq!(count(database, "SELECT count(*) FROM inbox_item").await, SENDS * RECIPIENTS);
}

/// The counters are what a recount finds, and nothing was set aside.
async fn nothing_is_left_over(database: &PgPool) {
    let wrong_counters = "
        SELECT count(*) FROM inbox_counter AS kept
        FULL JOIN (
            SELECT app_id, user_number, count(*) AS total, count(*) FILTER (WHERE clicked_at IS NULL) AS unread,
                   count(*) FILTER (WHERE seen_at IS NULL) AS unseen
            FROM inbox_item WHERE deleted_at IS NULL GROUP BY app_id, user_number
        ) AS counted USING (app_id, user_number)
        WHERE (kept.total, kept.unread, kept.unseen) IS DISTINCT FROM (counted.total, counted.unread, counted.unseen)";
    assert_eq!(count(database, wrong_counters).await, 0, "counters that a recount denies");
    for table in ["dead_event", "parked", "message_failure", "timer"] {
        let rows: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}")))
            .fetch_one(database)
            .await
            .unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

async fn count(database: &PgPool, query: &'static str) -> usize {
    let count: i64 = sqlx::query_scalar(query).fetch_one(database).await.unwrap();
    usize::try_from(count).unwrap()
}

async fn deliveries(database: &PgPool) -> Deliveries {
    let rows: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT r.title, d.target, d.id::text FROM delivery d JOIN request r USING (app_id, send_id)",
    )
    .fetch_all(database)
    .await
    .unwrap();
    assert_eq!(rows.len(), SENDS * RECIPIENTS, "deliveries");
    rows.into_iter().map(|(title, target, id)| ((title, target), id)).collect()
}
