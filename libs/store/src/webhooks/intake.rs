//! Turning events into messages for endpoints: one transaction per batch of events, fenced by the checkpoint.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use domain::webhook::WebhookEvent;
use domain::{AppId, ItemId, SendId, StreamName, Timestamp, UserNumber};
use sqlx::postgres::PgRow;
use sqlx::{Postgres, Row, Transaction};
use uuid::Uuid;

use super::{WEBHOOKS, read_events};
use crate::database::instant::instant;
use crate::{Error, Store, inbox::projection};

/// An enabled endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub app: AppId,
    /// Number of the endpoint.
    pub endpoint: i64,
    /// Kinds of events that are sent to it.
    pub events: Vec<WebhookEvent>,
    /// Earlier events are not sent.
    pub since: Timestamp,
}

/// A message for an endpoint. It is written once, however often it is added.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub app: AppId,
    /// Number of the endpoint.
    pub endpoint: i64,
    /// The same whenever the event is read.
    pub id: Uuid,
    /// Messages of one subject are sent one after the other.
    pub subject: Uuid,
    pub event: WebhookEvent,
    /// The user that the message names.
    pub user: UserNumber,
    /// The JSON text.
    pub body: String,
}

/// An inbox item that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadItem {
    pub id: ItemId,
    pub send_id: SendId,
}

/// A batch of events being turned into messages. If dropped without [`WebhookBatch::commit`], it is rolled back.
#[derive(Debug)]
pub struct WebhookBatch {
    transaction: Transaction<'static, Postgres>,
}

impl Store {
    /// Returns the enabled endpoints of these apps.
    ///
    /// # Errors
    /// The database failed, or a row was written by a newer release.
    pub async fn listeners(&self, apps: &HashSet<AppId>) -> Result<Vec<Listener>, Error> {
        sqlx::query(
            "SELECT app_id, id, events, since FROM webhook_endpoint
             WHERE app_id = ANY($1) AND disabled_at IS NULL ORDER BY app_id, id",
        )
        .bind(apps.iter().map(|app| app.0).collect::<Vec<_>>())
        .fetch_all(&self.pool)
        .await?
        .iter()
        .map(|row| {
            Ok(Listener {
                app: AppId(row.try_get("app_id")?),
                endpoint: row.try_get("id")?,
                events: read_events(row)?,
                since: row.try_get::<DateTime<Utc>, _>("since")?.into(),
            })
        })
        .collect()
    }

    /// Returns the given items of a user that may have been read at `at`: the rows show that time, a later one or, if
    /// marked unread since, none.
    pub async fn items_read(
        &self,
        app: AppId,
        user: UserNumber,
        items: &[ItemId],
        at: Timestamp,
    ) -> Result<Vec<ReadItem>, Error> {
        sqlx::query(
            "SELECT id, send_id FROM inbox_item
             WHERE app_id = $1 AND user_number = $2 AND id = ANY($3) AND (clicked_at IS NULL OR clicked_at >= $4)
             ORDER BY id",
        )
        .bind(app.0)
        .bind(user.0)
        .bind(items.iter().map(|item| item.0).collect::<Vec<_>>())
        .bind(instant(at))
        .fetch_all(&self.pool)
        .await?
        .iter()
        .map(read_item)
        .collect()
    }

    /// Returns up to `most` of a user's items after `after` and up to `up_to` that were read at `at`.
    pub async fn all_items_read(
        &self,
        app: AppId,
        user: UserNumber,
        (after, up_to): (ItemId, ItemId),
        at: Timestamp,
        most: u32,
    ) -> Result<Vec<ReadItem>, Error> {
        sqlx::query(
            "SELECT id, send_id FROM inbox_item
             WHERE app_id = $1 AND user_number = $2 AND id > $3 AND id <= $4 AND clicked_at = $5
             ORDER BY id LIMIT $6",
        )
        .bind(app.0)
        .bind(user.0)
        .bind(after.0)
        .bind(up_to.0)
        .bind(instant(at))
        .bind(i64::from(most))
        .fetch_all(&self.pool)
        .await?
        .iter()
        .map(read_item)
        .collect()
    }

    /// Starts a batch that moves the checkpoint of `stream` from `from` to `to`. Returns None if the checkpoint is not at
    /// `from`: another writer is ahead.
    pub async fn webhook_batch(
        &self,
        stream: StreamName,
        from: u64,
        to: u64,
    ) -> Result<Option<WebhookBatch>, Error> {
        let mut transaction = self.begin().await?;
        let moved = projection::advance(&mut transaction, WEBHOOKS, stream, from, to).await?;
        Ok(moved.then_some(WebhookBatch { transaction }))
    }
}

impl WebhookBatch {
    /// Returns the identifiers of users; leaves out erased ones. A returned user cannot be erased before the batch ends.
    ///
    /// # Errors
    /// The database failed; the batch is void.
    pub async fn identifiers(
        &mut self,
        users: &HashSet<(AppId, UserNumber)>,
    ) -> Result<HashMap<(AppId, UserNumber), String>, Error> {
        let rows = sqlx::query(
            "SELECT u.app_id, u.number, u.identifier
             FROM app_user u JOIN unnest($1::bigint[], $2::bigint[]) AS named (app_id, number) USING (app_id, number)
             ORDER BY u.app_id, u.number FOR KEY SHARE OF u",
        )
        .bind(users.iter().map(|(app, _)| app.0).collect::<Vec<_>>())
        .bind(users.iter().map(|(_, user)| user.0).collect::<Vec<_>>())
        .fetch_all(&mut *self.transaction)
        .await?;
        rows.iter()
            .map(|row| {
                let user = (AppId(row.try_get("app_id")?), UserNumber(row.try_get("number")?));
                Ok((user, row.try_get("identifier")?))
            })
            .collect()
    }

    /// Adds messages, in their order. Leaves out existing messages and those for a removed endpoint.
    ///
    /// # Errors
    /// The database failed, or rejected a value; the batch is void.
    pub async fn add(&mut self, messages: &[NewMessage]) -> Result<(), Error> {
        if messages.is_empty() {
            return Ok(());
        }
        sqlx::query(
            "INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, user_number, body)
             SELECT new.app_id, new.endpoint_id, new.id, new.subject, new.event, new.user_number, new.body
             FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::uuid[], $5::text[], $6::bigint[], $7::text[])
               WITH ORDINALITY AS new (app_id, endpoint_id, id, subject, event, user_number, body, place)
             JOIN webhook_endpoint e ON (e.app_id, e.id) = (new.app_id, new.endpoint_id)
             ORDER BY new.place ON CONFLICT DO NOTHING",
        )
        .bind(messages.iter().map(|message| message.app.0).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.endpoint).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.id).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.subject).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.event.as_str()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.user.0).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.body.as_str()).collect::<Vec<_>>())
        .execute(&mut *self.transaction)
        .await?;
        Ok(())
    }

    /// Keeps an event that always fails as a dead event.
    ///
    /// # Errors
    /// The database failed; the batch is void.
    pub async fn bury(
        &mut self,
        stream: StreamName,
        seq: u64,
        message: &[u8],
        cause: &str,
    ) -> Result<(), Error> {
        projection::set_aside(&mut self.transaction, WEBHOOKS, stream, seq, message, cause).await
    }

    /// Commits everything with the checkpoint.
    ///
    /// # Errors
    /// The database failed; the checkpoint shows whether the batch is committed.
    pub async fn commit(self) -> Result<(), Error> {
        self.transaction.commit().await?;
        Ok(())
    }
}

fn read_item(row: &PgRow) -> Result<ReadItem, Error> {
    Ok(ReadItem { id: ItemId(row.try_get("id")?), send_id: SendId(row.try_get("send_id")?) })
}
