//! One transaction writes the messages of each batch of events and moves the checkpoint. If another process has moved the checkpoint
//! already, the batch is not written.

use std::collections::{HashMap, HashSet};

use domain::webhook::WebhookEvent;
use domain::{AppId, ItemId, SendId, StreamName, Timestamp, UserNumber};
use sqlx::{Postgres, Transaction};
use uuid::Uuid;

use super::{WEBHOOKS, read_events};
use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::{Error, Webhooks, database::checkpoint};

/// An enabled endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub app: AppId,
    pub endpoint: i64,
    pub events: Vec<WebhookEvent>,
    /// The endpoint receives events that occurred at or after this time.
    pub since: Timestamp,
}

/// A message for an endpoint. Adding the same message again has no effect.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub app: AppId,
    pub endpoint: i64,
    /// Derived from the event, so that a replay of the event creates the same id.
    pub id: Uuid,
    /// Messages to an endpoint with the same subject are sent one after another.
    pub subject: Uuid,
    pub event: WebhookEvent,
    /// User whom the message names.
    pub user: UserNumber,
    /// JSON text.
    pub body: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadItem {
    pub id: ItemId,
    pub send_id: SendId,
}

/// A batch of messages in an open transaction. If it is dropped without [`WebhookBatch::commit`], the transaction is rolled back. If a
/// method returns an error, the caller must drop the batch.
#[derive(Debug)]
pub struct WebhookBatch {
    transaction: Transaction<'static, Postgres>,
}

impl Webhooks<'_> {
    pub async fn listeners(self, apps: &HashSet<AppId>) -> Result<Vec<Listener>, Error> {
        let rows = sqlx::query!(
            "SELECT app_id, id, events, since FROM webhook_endpoint
             WHERE app_id = ANY($1) AND disabled_at IS NULL ORDER BY app_id, id",
            &apps.iter().map(|app| app.0).collect::<Vec<_>>()
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(Listener {
                    app: AppId(row.app_id),
                    endpoint: row.id,
                    events: read_events(&row.events)?,
                    since: row.since.into(),
                })
            })
            .collect()
    }

    /// Returns the items that the user may have read at `at`: those last read at `at` or later, and those unread now, because the user may
    /// have read them and then marked them unread.
    pub async fn items_read(
        self,
        app: AppId,
        user: UserNumber,
        items: &[ItemId],
        at: Timestamp,
    ) -> Result<Vec<ReadItem>, Error> {
        let rows = sqlx::query!(
            "SELECT id, send_id FROM inbox_item
             WHERE app_id = $1 AND user_number = $2 AND id = ANY($3) AND (clicked_at IS NULL OR clicked_at >= $4)
             ORDER BY id",
            app.0,
            user.0,
            &items.iter().map(|item| item.0).collect::<Vec<_>>(),
            instant(at)
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| ReadItem { id: ItemId(row.id), send_id: SendId(row.send_id) })
            .collect())
    }

    /// Returns a user's items that were read exactly at `at` and whose ids are greater than `after` and at most `up_to`, ordered by id.
    pub async fn all_items_read(
        self,
        app: AppId,
        user: UserNumber,
        (after, up_to): (ItemId, ItemId),
        at: Timestamp,
        most: u32,
    ) -> Result<Vec<ReadItem>, Error> {
        let rows = sqlx::query!(
            "SELECT id, send_id FROM inbox_item
             WHERE app_id = $1 AND user_number = $2 AND id > $3 AND id <= $4 AND clicked_at = $5
             ORDER BY id LIMIT $6",
            app.0,
            user.0,
            after.0,
            up_to.0,
            instant(at),
            i64::from(most)
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| ReadItem { id: ItemId(row.id), send_id: SendId(row.send_id) })
            .collect())
    }

    /// Returns None if the checkpoint is not at `from`, because another process has moved it.
    pub async fn webhook_batch(
        self,
        stream: StreamName,
        from: u64,
        to: u64,
    ) -> Result<Option<WebhookBatch>, Error> {
        let mut transaction = self.0.begin().await?;
        let moved = checkpoint::advance(&mut transaction, WEBHOOKS, stream, from, to).await?;
        Ok(moved.then_some(WebhookBatch { transaction }))
    }
}

impl WebhookBatch {
    /// Leaves out erased users. Until the batch ends, no returned user can be erased.
    pub async fn identifiers(
        &mut self,
        users: &HashSet<(AppId, UserNumber)>,
    ) -> Result<HashMap<(AppId, UserNumber), String>, Error> {
        columns! { (app, user) in users =>
            app_id = app.0,
            number = user.0,
        }
        let rows = sqlx::query!(
            "SELECT u.app_id, u.number, u.identifier
             FROM app_user u JOIN unnest($1::bigint[], $2::bigint[]) AS named (app_id, number) USING (app_id, number)
             ORDER BY u.app_id, u.number FOR KEY SHARE OF u",
            &app_id,
            &number
        )
        .fetch_all(&mut *self.transaction)
        .await?;
        let users = rows.into_iter().map(|row| ((AppId(row.app_id), UserNumber(row.number)), row.identifier));
        Ok(users.collect())
    }

    /// Adds messages in the given order. Skips messages that exist already, and messages for endpoints that have been removed.
    pub async fn add(&mut self, messages: &[NewMessage]) -> Result<(), Error> {
        if messages.is_empty() {
            return Ok(());
        }
        columns! { message in messages =>
            app_id = message.app.0,
            endpoint_id = message.endpoint,
            id = message.id,
            subject = message.subject,
            event = message.event.as_str(),
            user_number = message.user.0,
            body = message.body.as_str(),
        }
        sqlx::query!(
            "INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, user_number, body)
             SELECT new.app_id, new.endpoint_id, new.id, new.subject, new.event, new.user_number, new.body
             FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::uuid[], $5::text[], $6::bigint[], $7::text[])
               WITH ORDINALITY AS new (app_id, endpoint_id, id, subject, event, user_number, body, place)
             JOIN webhook_endpoint e ON (e.app_id, e.id) = (new.app_id, new.endpoint_id)
             ORDER BY new.place ON CONFLICT DO NOTHING",
            &app_id,
            &endpoint_id,
            &id,
            &subject,
            &event as &[&str],
            &user_number,
            &body as &[&str]
        )
        .execute(&mut *self.transaction)
        .await?;
        Ok(())
    }

    /// Stores an event whose processing keeps failing.
    pub async fn dead_letter(
        &mut self,
        stream: StreamName,
        seq: u64,
        message: &[u8],
        cause: &str,
    ) -> Result<(), Error> {
        checkpoint::dead_letter(&mut self.transaction, WEBHOOKS, stream, seq, message, cause).await
    }

    /// After an error, the batch may still have been committed; the checkpoint has then moved.
    pub async fn commit(self) -> Result<(), Error> {
        self.transaction.commit().await?;
        Ok(())
    }
}
