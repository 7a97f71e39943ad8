//! [`domain::redrive`] decides which messages a redrive skips and what it publishes.

pub mod run;

use std::fmt::{self, Display, Formatter};

use chrono::{DateTime, Utc};
use domain::redrive::{Obstacles, ParkedMessage, Skip};
use domain::{
    Action, Actor, ActorKind, AppId, Channel, DeliveryId, Lane, SendId, Status, StreamName, Timestamp,
    UserNumber,
};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::deliveries::timer::{self, NewTimer};
use crate::{Deliveries, Error, deliveries::cancellation};

/// Messages that one query of a list reads. Fewer may match.
const READ: i64 = 1_000;

/// A property that is `None` matches all messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParkedFilter {
    pub app: Option<AppId>,
    pub channel: Option<Channel>,
    /// Last provider of the delivery.
    pub provider: Option<String>,
    /// Code of the provider's last answer, or the error that occurred when the message was processed.
    pub cause: Option<String>,
    /// Identifier of the send's category.
    pub category: Option<String>,
    pub delivery: Option<DeliveryId>,
    pub id: Option<Uuid>,
    /// Only messages parked at this time or later.
    pub since: Option<Timestamp>,
    /// Only messages parked before this time.
    pub before: Option<Timestamp>,
}

/// Time of parking and id of a message, by which the list is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkedPosition {
    at: DateTime<Utc>,
    id: Uuid,
}

impl ParkedPosition {
    /// Reads the text of a position. Returns None if it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<ParkedPosition> {
        let (micros, id) = text.split_once('_')?;
        let at = DateTime::from_timestamp_micros(micros.parse().ok()?)?;
        Some(ParkedPosition { at, id: id.parse().ok()? })
    }
}

impl Display for ParkedPosition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.at.timestamp_micros(), self.id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedEntry {
    /// Changes if the message is redriven and parked again.
    pub id: Uuid,
    /// None if it could not be decoded from the message.
    pub app: Option<AppId>,
    pub app_name: Option<String>,
    pub send_id: Option<SendId>,
    /// None if the message is not a job whose retries are exhausted.
    pub delivery: Option<DeliveryId>,
    pub user: Option<UserNumber>,
    /// Identifier of the recipient; None if the delivery is unknown or the user was erased.
    pub recipient: Option<String>,
    /// None if the delivery is unknown or the user was erased.
    pub target: Option<String>,
    /// None if this release does not know the stream.
    pub stream: Option<StreamName>,
    /// Code of the provider's last answer, or the error that occurred when the message was processed.
    pub cause: String,
    pub parked_at: Timestamp,
    pub message: Vec<u8>,
    /// None if a redrive would publish the message.
    pub skip: Option<Skip>,
    obstacles: Obstacles,
    position: ParkedPosition,
}

impl ParkedEntry {
    /// None if the message is not a job.
    #[must_use]
    pub fn channel(&self) -> Option<Channel> {
        match self.stream {
            Some(StreamName::Job(channel, _)) => Some(channel),
            _ => None,
        }
    }

    fn for_redrive(&self) -> ParkedMessage<'_> {
        ParkedMessage { id: self.id, stream: self.stream, message: &self.message, obstacles: self.obstacles }
    }
}

struct ParkedRow {
    id: Uuid,
    app_id: Option<i64>,
    app_name: Option<String>,
    send_id: Option<Uuid>,
    delivery_id: Option<Uuid>,
    user_number: Option<i64>,
    identifier: Option<String>,
    target: Option<String>,
    stream: String,
    cause: String,
    parked_at: DateTime<Utc>,
    message: Vec<u8>,
    is_settled: bool,
    is_erased: bool,
    is_cancelled: bool,
    is_expired: bool,
    is_suppressed: bool,
    is_read: bool,
    is_delivered: bool,
    is_provider_gone: bool,
}

impl Deliveries<'_> {
    /// Lists parked messages after a position, earliest first. The field `skip` applies to a redrive at the time of this call.
    pub async fn list_parked(
        self,
        filter: &ParkedFilter,
        after: Option<ParkedPosition>,
        limit: i64,
    ) -> Result<Vec<ParkedEntry>, Error> {
        let mut connection = self.0.pool.acquire().await?;
        let ids = select(&mut connection, filter, after, limit).await?;
        judge(&mut connection, &ids).await
    }

    /// Redrives the next page of at most `limit` parked messages in one transaction, with a row in the audit log for each. Skipped messages
    /// stay parked. Returns all messages of the page, as they were before the redrive; an empty page means that no message is left.
    ///
    /// A redriven delivery gets one more attempt. If its last provider is no longer enabled, the worker may call any enabled provider.
    pub async fn redrive(
        self,
        filter: &ParkedFilter,
        after: Option<ParkedPosition>,
        limit: i64,
        now: Timestamp,
        actor: &Actor,
    ) -> Result<Vec<ParkedEntry>, Error> {
        let mut transaction = self.0.begin().await?;
        let ids = select(&mut transaction, filter, after, limit).await?;
        let author = actor.to_string();
        let author = Author { text: &author, kind: actor.kind() };
        let redriven = redrive_among(&mut transaction, &ids, now, author).await?;
        transaction.commit().await?;
        Ok(redriven.page)
    }
}

#[must_use]
pub fn position_after(page: &[ParkedEntry]) -> Option<ParkedPosition> {
    page.last().map(|parked| parked.position)
}

/// Author of a redrive in the audit log.
#[derive(Clone, Copy)]
struct Author<'a> {
    text: &'a str,
    kind: ActorKind,
}

/// Messages of a page, as they were before the redrive.
struct Redriven {
    page: Vec<ParkedEntry>,
    /// Number of messages that will be published.
    timers: usize,
}

/// Redrives those of the parked messages that are still useful.
async fn redrive_among(
    connection: &mut PgConnection,
    ids: &[Uuid],
    now: Timestamp,
    author: Author<'_>,
) -> Result<Redriven, Error> {
    let found = judge(connection, ids).await?;
    hold(connection, &found).await?;
    // The first read did not lock the rows, so they may have changed since. Read them again now that they are locked.
    let held: Vec<Uuid> = found.iter().map(|parked| parked.id).collect();
    let found = judge(connection, &held).await?;
    let mut timers = Vec::with_capacity(found.len());
    let mut again: Vec<&ParkedEntry> = Vec::with_capacity(found.len());
    let mut page = found.clone();
    for (parked, listed) in found.iter().zip(&mut page).filter(|(parked, _)| parked.skip.is_none()) {
        match redrive_timer(parked, now) {
            Some(timer) => {
                timers.push(timer);
                again.push(parked);
            }
            None => listed.skip = Some(Skip::Unreadable),
        }
    }
    remove_parked(connection, &again, author).await?;
    timer::insert(connection, &timers).await?;
    Ok(Redriven { page, timers: timers.len() })
}

/// Part of the list of parked messages.
struct Examined {
    /// Messages that match the filter.
    ids: Vec<Uuid>,
    /// Position of the last message that was examined; None if there was none.
    position: Option<ParkedPosition>,
    is_end: bool,
}

/// Reads the next `read` parked messages after a position, up to the `most`-th that matches the filter.
async fn examine(
    connection: &mut PgConnection,
    filter: &ParkedFilter,
    after: Option<ParkedPosition>,
    read: i64,
    most: usize,
) -> Result<Examined, Error> {
    let streams = |channel: Channel| -> Vec<String> {
        Lane::ALL.iter().map(|&lane| StreamName::Job(channel, lane).to_string()).collect()
    };
    let streams = filter.channel.map(streams);
    let rows = sqlx::query_file!(
        "src/deliveries/redrive/page.sql",
        filter.app.map(|app| app.0),
        streams.as_deref(),
        filter.cause,
        filter.provider,
        filter.category,
        filter.delivery.map(|delivery| delivery.0),
        filter.id,
        after.map(|after| after.at),
        after.map_or(Uuid::nil(), |after| after.id),
        read,
        filter.since.map(instant),
        filter.before.map(instant)
    )
    .fetch_all(connection)
    .await?;
    let mut found = Examined { ids: Vec::new(), position: after, is_end: rows.len() as i64 != read };
    for row in rows {
        if found.ids.len() == most {
            found.is_end = false;
            break;
        }
        found.position = Some(ParkedPosition { at: row.parked_at, id: row.id });
        if row.is_selected {
            found.ids.push(row.id);
        }
    }
    Ok(found)
}

/// Returns the ids of the next `limit` messages that match the filter.
async fn select(
    connection: &mut PgConnection,
    filter: &ParkedFilter,
    after: Option<ParkedPosition>,
    limit: i64,
) -> Result<Vec<Uuid>, Error> {
    let limit = usize::try_from(limit).unwrap_or_default();
    let (mut ids, mut position) = (Vec::new(), after);
    loop {
        let found = examine(connection, filter, position, READ, limit.saturating_sub(ids.len())).await?;
        ids.extend(found.ids);
        position = found.position;
        if found.is_end || ids.len() >= limit {
            return Ok(ids);
        }
    }
}

/// Reads parked messages, with the facts that decide whether they are redriven now.
async fn judge(connection: &mut PgConnection, ids: &[Uuid]) -> Result<Vec<ParkedEntry>, Error> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query_file_as!(ParkedRow, "src/deliveries/redrive/parked.sql", ids);
    Ok(rows.fetch_all(connection).await?.into_iter().map(ParkedEntry::from).collect())
}

/// Locks requests, deliveries and parked messages. Every transaction locks them in this order, which prevents deadlocks.
async fn hold(connection: &mut PgConnection, found: &[ParkedEntry]) -> Result<(), Error> {
    let requests: Vec<_> = found.iter().filter_map(|parked| Some((parked.app?, parked.send_id?))).collect();
    cancellation::cancelled_among(connection, &requests).await?;
    let deliveries: Vec<_> =
        found.iter().filter_map(|parked| Some((parked.app?, parked.delivery?))).collect();
    columns! { (app, delivery) in deliveries =>
        app_id = app.0,
        id = delivery.0,
    }
    sqlx::query!(
        "SELECT FROM delivery WHERE (app_id, id) IN (SELECT * FROM unnest($1::bigint[], $2::uuid[]))
         ORDER BY app_id, id FOR UPDATE",
        &app_id,
        &id
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "SELECT FROM parked WHERE id = ANY($1) ORDER BY id FOR UPDATE",
        &found.iter().map(|parked| parked.id).collect::<Vec<_>>()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns None if this release cannot encode the message, or does not know its app or stream.
fn redrive_timer(parked: &ParkedEntry, now: Timestamp) -> Option<NewTimer> {
    let redriven = parked.for_redrive().redriven(now)?;
    Some(NewTimer {
        id: redriven.id,
        due_at: now,
        stream: redriven.stream,
        message: redriven.message,
        app: parked.app?,
        send_id: parked.send_id,
        user: parked.user,
        wait: None,
    })
}

async fn remove_parked(
    connection: &mut PgConnection,
    again: &[&ParkedEntry],
    author: Author<'_>,
) -> Result<(), Error> {
    sqlx::query!(
        "WITH gone AS (
           DELETE FROM parked WHERE id = ANY($1) RETURNING app_id, send_id, delivery_id
         ), noted AS (
           INSERT INTO audit (app_id, actor, actor_kind, action, subject)
           SELECT app_id, $2, $5, $6, coalesce(delivery_id, send_id)::text FROM gone
           WHERE coalesce(delivery_id, send_id) IS NOT NULL
         )
         UPDATE delivery d SET status = $3, reason = NULL, settled_at = NULL FROM gone
         WHERE (d.app_id, d.id) = (gone.app_id, gone.delivery_id) AND d.status = $4",
        &again.iter().map(|parked| parked.id).collect::<Vec<_>>(),
        author.text,
        Status::Retrying.as_str(),
        Status::Parked.as_str(),
        author.kind.as_str(),
        Action::ParkedRedrive.as_str()
    )
    .execute(connection)
    .await?;
    Ok(())
}

impl From<ParkedRow> for ParkedEntry {
    fn from(row: ParkedRow) -> ParkedEntry {
        let obstacles = Obstacles {
            is_settled: row.is_settled,
            is_erased: row.is_erased,
            is_cancelled: row.is_cancelled,
            is_expired: row.is_expired,
            is_suppressed: row.is_suppressed,
            is_read: row.is_read,
            is_delivered: row.is_delivered,
            is_provider_gone: row.is_provider_gone,
        };
        let shown = |text: Option<String>| text.filter(|text| !text.is_empty() && !obstacles.is_erased);
        let mut parked = ParkedEntry {
            id: row.id,
            app: row.app_id.map(AppId),
            app_name: row.app_name,
            send_id: row.send_id.map(SendId),
            delivery: row.delivery_id.map(DeliveryId),
            user: row.user_number.map(UserNumber),
            recipient: shown(row.identifier),
            target: shown(row.target),
            stream: row.stream.parse().ok(),
            cause: row.cause,
            parked_at: row.parked_at.into(),
            message: row.message,
            skip: None,
            obstacles,
            position: ParkedPosition { at: row.parked_at, id: row.id },
        };
        parked.skip = parked.for_redrive().skip();
        parked
    }
}
