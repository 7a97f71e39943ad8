//! Removal of erased users from encoded messages in the database: parked messages, dead events, and the stored bodies of sends.

use bytes::Bytes;
use domain::content::InAppContent;
use domain::event::bundle::{self, Part};
use domain::event::{ItemsAdded, SendContinues};
use domain::send::Recipient;
use domain::{AppId, Envelope, Event, SendId, Timestamp, UserNumber};
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::erasure::ErasedRecipients;
use crate::{Error, deliveries::attachment};

/// A message can be as large as one megabyte.
const PAGE: i64 = 20;

/// PostgreSQL searches the bodies, so only bodies that name an erased user are transferred.
pub(super) async fn clear_stored_sends(pool: &PgPool, app: AppId) -> Result<(), Error> {
    let mut after = Uuid::nil();
    loop {
        let page = sqlx::query!(
            r#"SELECT send_id, EXISTS (
                 SELECT FROM (
                   SELECT json_array_elements(body -> 'recipients') UNION ALL SELECT json_array_elements(body -> 'exclude')
                 ) AS named (recipient) JOIN erased e ON e.app_id = $1 AND e.done_at IS NULL AND e.digest = sha256(convert_to(
                   $1 || E'\n' || coalesce(recipient ->> 'identifier', recipient #>> '{}'), 'UTF8'))
               ) AS "names_erased!"
               FROM (
                 SELECT send_id, body FROM request WHERE app_id = $1 AND body IS NOT NULL AND send_id > $2
                 ORDER BY send_id LIMIT $3
               ) AS kept ORDER BY send_id"#,
            app.0,
            after,
            PAGE
        )
        .fetch_all(pool)
        .await?;
        for row in page.iter().filter(|row| row.names_erased) {
            clear_stored_send(pool, app, SendId(row.send_id)).await?;
        }
        match page.last() {
            Some(row) => after = row.send_id,
            None => return Ok(()),
        }
    }
}

async fn clear_stored_send(pool: &PgPool, app: AppId, send_id: SendId) -> Result<(), Error> {
    let mut transaction = crate::database::transaction::begin(pool).await?;
    let row = sqlx::query!(
        r#"SELECT accepted_at, body AS "body!: Json<domain::SendRequest>" FROM request
           WHERE app_id = $1 AND send_id = $2 AND body IS NOT NULL FOR UPDATE"#,
        app.0,
        send_id.0
    )
    .fetch_optional(&mut *transaction)
    .await?;
    let Some(row) = row else { return Ok(()) };
    let accepted_at = row.accepted_at.into();
    if let Some(send) = without_erased(&mut transaction, app, accepted_at, &row.body).await? {
        sqlx::query!(
            "UPDATE request SET body = $3, title = $4 WHERE app_id = $1 AND send_id = $2",
            app.0,
            send_id.0,
            Json(&send) as _,
            send.content.title.as_deref()
        )
        .execute(&mut *transaction)
        .await?;
        if send.has_only_erased_recipients() {
            attachment::remove(&mut transaction, app, send_id).await?;
        }
    }
    transaction.commit().await?;
    Ok(())
}

async fn without_erased(
    connection: &mut PgConnection,
    app: AppId,
    accepted_at: Timestamp,
    send: &domain::SendRequest,
) -> Result<Option<domain::SendRequest>, Error> {
    let named: Vec<_> = send.identifiers().map(|identifier| (app, identifier)).collect();
    let erased = ErasedRecipients::read(connection, accepted_at, &named).await?;
    Ok(erased.without(app, accepted_at, send))
}

/// Reads only messages that were parked because their processing failed. Other parked messages have the user's number in their row, and
/// [`remains`](super::remains) deletes them. A message that cannot be decoded stays unchanged.
pub(super) async fn clear_parked(pool: &PgPool, app: AppId) -> Result<(), Error> {
    let mut after = Uuid::nil();
    loop {
        let page = sqlx::query!(
            "SELECT id, message FROM parked WHERE app_id = $1 AND delivery_id IS NULL AND id > $2 ORDER BY id LIMIT $3",
            app.0,
            after,
            PAGE
        )
        .fetch_all(pool)
        .await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.id;
        for row in page {
            let Ok(envelope) = Envelope::decode(&row.message) else { continue };
            if let Event::DeliveryJob(job) = &envelope.event {
                delete_if_erased(pool, row.id, app, job.user).await?;
            } else if let Some(message) = clear_message(pool, app, envelope).await? {
                sqlx::query!("UPDATE parked SET message = $2 WHERE id = $1", row.id, message)
                    .execute(pool)
                    .await?;
            }
        }
    }
}

/// Timers that publish sends name users if a stream was full when a dispatcher asked for the next subscribers of a send.
pub(super) async fn clear_timers(pool: &PgPool, app: AppId) -> Result<(), Error> {
    let mut after = Uuid::nil();
    loop {
        let page = sqlx::query!(
            "SELECT id, message FROM timer
             WHERE app_id = $1 AND stream IN ('SEND_transactional', 'SEND_bulk') AND id > $2 ORDER BY id LIMIT $3",
            app.0,
            after,
            PAGE
        )
        .fetch_all(pool)
        .await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.id;
        for row in page {
            let Ok(envelope) = Envelope::decode(&row.message) else { continue };
            if let Some(message) = clear_message(pool, app, envelope).await? {
                sqlx::query!("UPDATE timer SET message = $2 WHERE id = $1", row.id, message)
                    .execute(pool)
                    .await?;
            }
        }
    }
}

async fn delete_if_erased(pool: &PgPool, id: Uuid, app: AppId, user: UserNumber) -> Result<(), Error> {
    sqlx::query!(
        "DELETE FROM parked WHERE id = $1
         AND EXISTS (SELECT FROM erased WHERE app_id = $2 AND user_number = $3)",
        id,
        app.0,
        user.0
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// None if the message names no erased user.
async fn clear_message(pool: &PgPool, app: AppId, mut envelope: Envelope) -> Result<Option<Vec<u8>>, Error> {
    let at = envelope.at;
    let mut connection = pool.acquire().await?;
    match &mut envelope.event {
        Event::SendAccepted(send) => {
            let Some(rest) = without_erased(&mut connection, app, at, send).await? else { return Ok(None) };
            **send = rest;
        }
        Event::SendContinues(SendContinues { expansion: Some(expansion), .. }) => {
            let named: Vec<_> =
                expansion.recipients.iter().map(|recipient| (app, recipient.identifier.as_str())).collect();
            let erased = ErasedRecipients::read(&mut connection, at, &named).await?;
            let mut is_changed = false;
            for recipient in &mut expansion.recipients {
                if erased.holds(app, &recipient.identifier, at) {
                    *recipient = Recipient::erased();
                    is_changed = true;
                }
            }
            if !is_changed {
                return Ok(None);
            }
        }
        _ => return Ok(None),
    }
    Ok(Some(envelope.encode()?))
}

pub(super) struct DeadEvents {
    pub(super) page: &'static str,
    pub(super) update: &'static str,
}

macro_rules! dead_events {
    ($schema:literal, $table:literal) => {
        $crate::erasure::messages::DeadEvents {
            page: concat!(
                "SELECT projection, stream, seq, message FROM ",
                $schema,
                $table,
                " WHERE (projection, stream, seq) > ($1, $2, $3) ORDER BY projection, stream, seq LIMIT $4"
            ),
            update: concat!(
                "UPDATE ",
                $schema,
                $table,
                " SET message = $4 WHERE (projection, stream, seq) = ($1, $2, $3)"
            ),
        }
    };
}
pub(super) use dead_events;

/// Reads all dead events, of which there are few.
pub(super) async fn clear_dead_events(pool: &PgPool, table: &DeadEvents) -> Result<(), Error> {
    let mut after = (String::new(), String::new(), 0_i64);
    loop {
        let page: Vec<(String, String, i64, Vec<u8>)> = sqlx::query_as(table.page)
            .bind(&after.0)
            .bind(&after.1)
            .bind(after.2)
            .bind(PAGE)
            .fetch_all(pool)
            .await?;
        if page.is_empty() {
            return Ok(());
        }
        for (projection, stream, seq, message) in page {
            if let Some(message) = without_erased_users(pool, message.into()).await? {
                sqlx::query(table.update)
                    .bind(&projection)
                    .bind(&stream)
                    .bind(seq)
                    .bind(&message[..])
                    .execute(pool)
                    .await?;
            }
            after = (projection, stream, seq);
        }
    }
}

/// None if the message has no item of an erased user, or cannot be decoded.
async fn without_erased_users(pool: &PgPool, message: Bytes) -> Result<Option<Bytes>, Error> {
    let Ok(mut parts) = bundle::decode(&message) else { return Ok(None) };
    let mut is_changed = false;
    for Part { envelope, message } in &mut parts {
        let Event::InboxItemsAdded(added) = &mut envelope.event else { continue };
        let erased = sqlx::query_scalar!(
            "SELECT user_number FROM erased WHERE app_id = $1 AND user_number = ANY($2)",
            envelope.app.0,
            &added.recipients.iter().map(|(user, _)| user.0).collect::<Vec<_>>()
        )
        .fetch_all(pool)
        .await?;
        if !erased.is_empty() {
            leave_out(added, |UserNumber(user)| erased.contains(&user));
            *message = envelope.encode()?.into();
            is_changed = true;
        }
    }
    let Some(first) = parts.first().filter(|_| is_changed) else { return Ok(None) };
    let messages: Vec<Bytes> = parts.iter().map(|part| part.message.clone()).collect();
    Ok(Some(bundle::encode(first.envelope.event.kind(), &messages)))
}

/// Replaces content that no remaining recipient uses with empty content, so that the indexes of the other contents do not change.
fn leave_out(added: &mut ItemsAdded, is_erased: impl Fn(UserNumber) -> bool) {
    added.recipients.retain(|(user, _)| !is_erased(*user));
    for (place, content) in added.contents.iter_mut().enumerate() {
        let is_used = added.recipients.iter().any(|(_, content)| *content as usize == place);
        if !is_used {
            *content = InAppContent::default();
        }
    }
}
