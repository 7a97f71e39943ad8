//! The minimum work of writing inbox items: four connections insert 500 rows at a time into a copy of the inbox table.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sqlx::{Connection, PgConnection};
use store::inbox::projection::NewItem;

const ROWS: usize = 500;

pub(crate) async fn prepare(database_url: &str) {
    let mut connection = PgConnection::connect(database_url).await.unwrap();
    let statement = "CREATE TABLE bare_item (LIKE inbox_item INCLUDING ALL)";
    sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Inserts the rows of each partition over its own connection, and returns the duration.
pub(crate) async fn insert(database_url: &str, rows: Vec<Vec<NewItem>>) -> Duration {
    let mut connections = Vec::new();
    for rows in rows {
        connections.push((PgConnection::connect(database_url).await.unwrap(), rows));
    }
    let begin = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for (mut connection, rows) in connections {
        running.spawn(async move {
            for chunk in rows.chunks(ROWS) {
                insert_chunk(&mut connection, chunk).await;
            }
        });
    }
    running.join_all().await;
    begin.elapsed()
}

async fn insert_chunk(connection: &mut PgConnection, rows: &[NewItem]) {
    sqlx::query(
        "INSERT INTO bare_item (app_id, user_number, id, send_id, category_id, created_at, event_id, content)
         SELECT app_id, user_number, id, send_id, category_id, created_at, event_id, content::json
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[], $6::timestamptz[], $7::uuid[],
           $8::text[]) AS new (app_id, user_number, id, send_id, category_id, created_at, event_id, content)",
    )
    .bind(rows.iter().map(|row| row.app.0).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.user.0).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.id.0).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.send_id.0).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.category.map(|category| category.0)).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| DateTime::<Utc>::from(row.created_at)).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.event_id).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| &*row.content).collect::<Vec<_>>())
    .execute(connection)
    .await
    .unwrap();
}
