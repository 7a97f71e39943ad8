//! Copying the inbox of a backup into a shadow, page by page.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::Shadow;
use crate::inbox::projection::INBOX;
use crate::{Error, Store};

/// Maximum number of rows that one transaction copies.
const PAGE: i64 = 5_000;

/// A row of `inbox_item`, with its content as JSON text.
#[derive(sqlx::FromRow)]
struct Item {
    app_id: i64,
    user_number: i64,
    id: i64,
    send_id: Uuid,
    category_id: Option<i64>,
    created_at: DateTime<Utc>,
    seen_at: Option<DateTime<Utc>>,
    clicked_at: Option<DateTime<Utc>>,
    deleted_at: Option<DateTime<Utc>>,
    state: Option<String>,
    content: Option<String>,
    event_id: Uuid,
}

impl Shadow {
    /// Estimates the number of item rows in a database from PostgreSQL's statistics, because counting the rows of a large
    /// inbox takes minutes. Returns 0 if the table has no statistics yet, for instance right after a restore.
    pub async fn estimated_items(of: &Store) -> Result<u64, Error> {
        let items: i64 = sqlx::query_scalar(
            "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'inbox_item'::regclass",
        )
        .fetch_one(&of.pool)
        .await?;
        Ok(items.cast_unsigned())
    }

    /// Copies up to 5000 further rows of a backup, except those of erased users, and stores the position. Returns the
    /// number of rows read from the backup; 0 means that all rows have been copied.
    ///
    /// # Errors
    /// The database or the backup failed; no row is copied.
    pub async fn copy_page(&self, backup: &Store) -> Result<u64, Error> {
        let mut transaction = self.store.begin().await?;
        let (app, id): (i64, i64) = sqlx::query_as("SELECT copied_app, copied_id FROM origin FOR UPDATE")
            .fetch_one(&mut *transaction)
            .await?;
        let items: Vec<Item> = sqlx::query_as(
            "SELECT app_id, user_number, id, send_id, category_id, created_at, seen_at, clicked_at, deleted_at, state,
               content::text AS content, event_id
             FROM inbox_item WHERE (app_id, id) > ($1, $2) ORDER BY app_id, id LIMIT $3",
        )
        .bind(app)
        .bind(id)
        .bind(PAGE)
        .fetch_all(&backup.pool)
        .await?;
        if let Some(last) = items.last() {
            insert(&mut transaction, &items).await?;
            sqlx::query("UPDATE origin SET copied_app = $1, copied_id = $2")
                .bind(last.app_id)
                .bind(last.id)
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await?;
        }
        Ok(items.len() as u64)
    }

    /// Completes the copy: writes the counters of the copied rows, and sets the checkpoints from which the replay
    /// continues.
    ///
    /// # Errors
    /// The database failed; the copy is not completed.
    pub async fn end_copy(&self) -> Result<(), Error> {
        let mut transaction = self.store.begin().await?;
        sqlx::query(
            "INSERT INTO inbox_counter (app_id, user_number, total, unread, unseen)
             SELECT app_id, user_number, count(*), count(*) FILTER (WHERE clicked_at IS NULL),
               count(*) FILTER (WHERE seen_at IS NULL)
             FROM inbox_item WHERE deleted_at IS NULL GROUP BY app_id, user_number",
        )
        .execute(&mut *transaction)
        .await?;
        sqlx::query("INSERT INTO checkpoint (projection, stream, seq) SELECT $1, stream, seq FROM start")
            .bind(INBOX)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("UPDATE origin SET is_copied = true").execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(())
    }
}

async fn insert(connection: &mut PgConnection, items: &[Item]) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO inbox_item (app_id, user_number, id, send_id, category_id, created_at, seen_at, clicked_at,
           deleted_at, state, content, event_id)
         SELECT app_id, user_number, id, send_id, category_id, created_at, seen_at, clicked_at, deleted_at, state,
           content::json, event_id
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[], $6::timestamptz[],
           $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[], $12::uuid[])
           AS copied (app_id, user_number, id, send_id, category_id, created_at, seen_at, clicked_at, deleted_at, state,
             content, event_id)
         WHERE NOT EXISTS (SELECT FROM erased e WHERE (e.app_id, e.user_number) = (copied.app_id, copied.user_number))",
    )
    .bind(items.iter().map(|item| item.app_id).collect::<Vec<_>>())
    .bind(items.iter().map(|item| item.user_number).collect::<Vec<_>>())
    .bind(items.iter().map(|item| item.id).collect::<Vec<_>>())
    .bind(items.iter().map(|item| item.send_id).collect::<Vec<_>>())
    .bind(items.iter().map(|item| item.category_id).collect::<Vec<_>>())
    .bind(items.iter().map(|item| item.created_at).collect::<Vec<_>>())
    .bind(items.iter().map(|item| item.seen_at).collect::<Vec<_>>())
    .bind(items.iter().map(|item| item.clicked_at).collect::<Vec<_>>())
    .bind(items.iter().map(|item| item.deleted_at).collect::<Vec<_>>())
    .bind(items.iter().map(|item| item.state.as_deref()).collect::<Vec<_>>())
    .bind(items.iter().map(|item| item.content.as_deref()).collect::<Vec<_>>())
    .bind(items.iter().map(|item| item.event_id).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}
