use chrono::{DateTime, Utc};
use domain::StreamName;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Shadow;
use crate::database::columns::columns;
use crate::inbox::projection::INBOX;
use crate::{Error, Store};

const PAGE: i64 = 5_000;

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
    archived_at: Option<DateTime<Utc>>,
    snoozed_until: Option<DateTime<Utc>>,
}

impl Shadow {
    /// Estimates from PostgreSQL's statistics, because counting the rows of a large inbox takes minutes. Returns 0 if the table has no
    /// statistics yet, for instance right after the backup was restored.
    pub async fn estimated_items(of: &Store) -> Result<u64, Error> {
        let items = sqlx::query_scalar!(
            r#"SELECT greatest(reltuples, 0)::bigint AS "items!" FROM pg_class WHERE oid = 'inbox_item'::regclass"#
        )
        .fetch_one(&of.pool)
        .await?;
        Ok(items.cast_unsigned())
    }

    /// Copies the items of a backup, except those of erased users. Computes the counters from the copied items, and sets the checkpoints of
    /// the partitions to `start`. Calls `on_page` with the number of rows of each page. After an error, some of the rows may have been
    /// copied.
    pub async fn copy(&self, backup: &Store, start: &[u64], on_page: impl Fn(u64)) -> Result<(), Error> {
        let mut last = (i64::MIN, i64::MIN);
        loop {
            let items = sqlx::query_as!(
                Item,
                "SELECT app_id, user_number, id, send_id, category_id, created_at, seen_at, clicked_at, deleted_at, state,
                   content::text AS content, event_id, archived_at, snoozed_until
                 FROM inbox_item WHERE (app_id, id) > ($1, $2) ORDER BY app_id, id LIMIT $3",
                last.0,
                last.1,
                PAGE
            )
            .fetch_all(&backup.pool)
            .await?;
            let Some(item) = items.last() else { break };
            last = (item.app_id, item.id);
            insert(&mut *self.store.pool.acquire().await?, &items).await?;
            on_page(items.len() as u64);
        }
        let mut transaction = self.store.begin().await?;
        sqlx::query!(
            "INSERT INTO inbox_counter (app_id, user_number, total, unread, unseen, hidden)
             SELECT app_id, user_number, count(*) FILTER (WHERE listed), count(*) FILTER (WHERE listed AND clicked_at IS NULL),
               count(*) FILTER (WHERE listed AND seen_at IS NULL), count(*) FILTER (WHERE NOT listed)
             FROM inbox_item CROSS JOIN LATERAL (SELECT archived_at IS NULL AND snoozed_until IS NULL AS listed) AS place
             WHERE deleted_at IS NULL GROUP BY app_id, user_number"
        )
        .execute(&mut *transaction)
        .await?;
        let checkpoints: Vec<_> = (0..).zip(start).collect();
        columns! { (number, position) in checkpoints =>
            stream = StreamName::Inbox(*number).to_string(),
            seq = position.cast_signed(),
        }
        sqlx::query!(
            "INSERT INTO checkpoint (projection, stream, seq)
             SELECT $1, stream, seq FROM unnest($2::text[], $3::bigint[]) AS new (stream, seq)",
            INBOX,
            &stream,
            &seq
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }
}

async fn insert(connection: &mut PgConnection, items: &[Item]) -> Result<(), Error> {
    columns! { item in items =>
        app_id = item.app_id,
        user_number = item.user_number,
        id = item.id,
        send_id = item.send_id,
        category_id = item.category_id,
        created_at = item.created_at,
        seen_at = item.seen_at,
        clicked_at = item.clicked_at,
        deleted_at = item.deleted_at,
        state = item.state.as_deref(),
        content = item.content.as_deref(),
        event_id = item.event_id,
        archived_at = item.archived_at,
        snoozed_until = item.snoozed_until,
    }
    sqlx::query!(
        "INSERT INTO inbox_item (app_id, user_number, id, send_id, category_id, created_at, seen_at, clicked_at,
           deleted_at, state, content, event_id, archived_at, snoozed_until)
         SELECT app_id, user_number, id, send_id, category_id, created_at, seen_at, clicked_at, deleted_at, state,
           content::json, event_id, archived_at, snoozed_until
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[], $6::timestamptz[],
           $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[], $12::uuid[],
           $13::timestamptz[], $14::timestamptz[])
           AS copied (app_id, user_number, id, send_id, category_id, created_at, seen_at, clicked_at, deleted_at, state,
             content, event_id, archived_at, snoozed_until)
         WHERE NOT EXISTS (SELECT FROM erased e WHERE (e.app_id, e.user_number) = (copied.app_id, copied.user_number))",
        &app_id,
        &user_number,
        &id,
        &send_id,
        &category_id as &[Option<i64>],
        &created_at,
        &seen_at as &[Option<DateTime<Utc>>],
        &clicked_at as &[Option<DateTime<Utc>>],
        &deleted_at as &[Option<DateTime<Utc>>],
        &state as &[Option<&str>],
        &content as &[Option<&str>],
        &event_id,
        &archived_at as &[Option<DateTime<Utc>>],
        &snoozed_until as &[Option<DateTime<Utc>>]
    )
    .execute(connection)
    .await?;
    Ok(())
}
