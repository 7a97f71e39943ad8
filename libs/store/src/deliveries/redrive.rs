//! Redriving parked messages, and listing parked messages with the reason why a redrive would skip them.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use domain::{
    AppId, Channel, DeliveryId, Envelope, Event, Lane, SendId, Status, StreamName, Timestamp, UserNumber,
};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::deliveries::timer::{self, NewTimer};
use crate::{Deliveries, Error, deliveries::cancellation};

/// Selection of parked messages. A property that is `None` matches all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkedFilter {
    pub app: Option<AppId>,
    /// Jobs of this channel.
    pub channel: Option<Channel>,
    /// The job of this delivery.
    pub delivery: Option<DeliveryId>,
    /// The parked message with this id.
    pub id: Option<Uuid>,
}

/// A position in the list of parked messages, which is ordered by the time of parking, earliest first.
pub type ParkedPosition = (Timestamp, Uuid);

/// A parked message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// Id of the message while it is parked; each parking has a new one.
    pub id: Uuid,
    /// The app; None if it could not be decoded from the message.
    pub app: Option<AppId>,
    pub app_name: Option<String>,
    pub send_id: Option<SendId>,
    /// The delivery; None unless the message is a job that was parked after its last retry.
    pub delivery: Option<DeliveryId>,
    pub user: Option<UserNumber>,
    /// Identifier of the recipient; None if the delivery is unknown or the user was erased.
    pub recipient: Option<String>,
    /// The address, token or subscription of the delivery; None if the delivery is unknown or the user was erased.
    pub target: Option<String>,
    /// Stream into which a redrive publishes the message; None if this release does not know the stream.
    pub stream: Option<StreamName>,
    /// The code in the provider's last answer, or the error of processing the message.
    pub cause: String,
    pub parked_at: Timestamp,
    /// The encoded message.
    pub message: Vec<u8>,
    /// Reason why a redrive would leave the message parked; None if it would publish the message.
    pub skip: Option<Skip>,
    /// True if the delivery's last provider is not enabled or does not exist.
    provider_is_gone: bool,
}

/// Reason why a redrive leaves a message parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    /// `expiresAt` has passed.
    Expired,
    /// The user was erased.
    Erased,
    /// The request was cancelled.
    Cancelled,
    /// The target is suppressed.
    Suppressed,
    /// The user has already read the notification in the inbox.
    Read,
    /// The same channel has delivered the notification to another target of the user.
    DeliveredOtherwise,
    /// The delivery is no longer parked.
    SettledOtherwise,
    /// The message must not be sent twice, and the only provider that may send it again is no longer enabled.
    ProviderGone,
    /// This release cannot decode the message.
    Unreadable,
}

impl Skip {
    /// Name of the reason in the output of commands.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Skip::Expired => "expired",
            Skip::Erased => "erased",
            Skip::Cancelled => "cancelled",
            Skip::Suppressed => "suppressed",
            Skip::Read => "read",
            Skip::DeliveredOtherwise => "delivered_otherwise",
            Skip::SettledOtherwise => "settled_otherwise",
            Skip::ProviderGone => "provider_gone",
            Skip::Unreadable => "unreadable",
        }
    }

    fn read(name: &str) -> Skip {
        let all = [
            Skip::Expired,
            Skip::Erased,
            Skip::Cancelled,
            Skip::Suppressed,
            Skip::Read,
            Skip::DeliveredOtherwise,
            Skip::SettledOtherwise,
        ];
        all.into_iter().find(|skip| skip.as_str() == name).unwrap_or(Skip::Unreadable)
    }
}

impl Parked {
    /// Returns the channel; None if the message is not a job.
    #[must_use]
    pub fn channel(&self) -> Option<Channel> {
        match self.stream {
            Some(StreamName::Job(channel, _)) => Some(channel),
            _ => None,
        }
    }

    fn position(&self) -> ParkedPosition {
        (self.parked_at, self.id)
    }
}

const SELECT: &str = "
    SELECT p.*, app.name AS app_name, d.target, r.identifier,
      NOT EXISTS (
        SELECT FROM provider WHERE provider.app_id = d.app_id AND provider.identifier = d.provider AND provider.enabled
      ) AS provider_is_gone,
      CASE
        WHEN p.delivery_id IS NOT NULL AND d.status IS DISTINCT FROM 'parked' THEN 'settled_otherwise'
        WHEN e.user_number IS NOT NULL THEN 'erased'
        WHEN q.cancelled_at IS NOT NULL THEN 'cancelled'
        WHEN d.expires_at <= now() THEN 'expired'
        WHEN s.target IS NOT NULL THEN 'suppressed'
        WHEN EXISTS (
          SELECT FROM inbox_item i WHERE (i.app_id, i.send_id, i.user_number) = (d.app_id, d.send_id, d.user_number)
            AND i.clicked_at IS NOT NULL
        ) THEN 'read'
        WHEN EXISTS (
          SELECT FROM delivery o
          WHERE (o.app_id, o.send_id, o.recipient_index, o.channel)
              = (d.app_id, d.send_id, d.recipient_index, d.channel)
            AND o.id <> d.id AND o.status IN ('sent', 'delivered')
        ) THEN 'delivered_otherwise'
      END AS skip
    FROM parked p
    LEFT JOIN app ON app.id = p.app_id
    LEFT JOIN delivery d ON (d.app_id, d.id) = (p.app_id, p.delivery_id)
    LEFT JOIN planned_recipient r ON (r.app_id, r.send_id, r.recipient_index) = (d.app_id, d.send_id, d.recipient_index)
    LEFT JOIN erased e ON (e.app_id, e.user_number) = (p.app_id, p.user_number)
    LEFT JOIN request q ON (q.app_id, q.send_id) = (p.app_id, p.send_id)
    LEFT JOIN suppression s ON (s.app_id, s.channel, s.target) = (d.app_id, d.channel, d.target)
    WHERE ($1::bigint IS NULL OR p.app_id = $1) AND ($2::text[] IS NULL OR p.stream = ANY($2))
      AND ($3::uuid IS NULL OR p.delivery_id = $3) AND ($4::uuid IS NULL OR p.id = $4)
      AND ($5::timestamptz IS NULL OR (date_trunc('milliseconds', p.parked_at), p.id) > ($5, $6))
    ORDER BY date_trunc('milliseconds', p.parked_at), p.id LIMIT $7";

impl Deliveries<'_> {
    /// Lists at most `limit` parked messages after a position, earliest first. [`Parked::skip`] is the reason why a redrive
    /// would not publish the message now.
    pub async fn list_parked(
        self,
        filter: &ParkedFilter,
        after: Option<ParkedPosition>,
        limit: i64,
    ) -> Result<Vec<Parked>, Error> {
        let mut connection = self.0.pool.acquire().await?;
        select(&mut connection, filter, after, limit).await
    }

    /// Redrives the next page of at most `limit` parked messages. For each message that is not skipped, it sets a timer
    /// that is due at once, removes the parked row, sets the delivery to `retrying` and writes a row to the audit log. All
    /// this is one transaction. Skipped messages stay parked. Returns all messages of the page as they were before; an
    /// empty page means that no message is left.
    ///
    /// A redriven delivery gets one more attempt. If its last provider is no longer enabled, any enabled provider may be
    /// called.
    ///
    /// # Errors
    /// The database failed; nothing is redriven.
    pub async fn redrive(
        self,
        filter: &ParkedFilter,
        after: Option<ParkedPosition>,
        limit: i64,
        now: Timestamp,
        actor: &str,
    ) -> Result<Vec<Parked>, Error> {
        let mut transaction = self.0.begin().await?;
        let found = select(&mut transaction, filter, after, limit).await?;
        hold(&mut transaction, &found).await?;
        // Read again now that the rows are locked, because they may have changed before.
        let held: HashSet<Uuid> = found.iter().map(|parked| parked.id).collect();
        let mut found = select(&mut transaction, filter, after, limit).await?;
        found.retain(|parked| held.contains(&parked.id));
        let mut timers = Vec::with_capacity(found.len());
        let mut again: Vec<&Parked> = Vec::with_capacity(found.len());
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
        remove_parked(&mut transaction, &again, actor).await?;
        timer::insert(&mut transaction, &timers).await?;
        transaction.commit().await?;
        Ok(page)
    }
}

/// Returns the position of the last message of a page, after which the next page starts; None if the page is empty.
#[must_use]
pub fn position_after(page: &[Parked]) -> Option<ParkedPosition> {
    page.last().map(Parked::position)
}

async fn select(
    connection: &mut PgConnection,
    filter: &ParkedFilter,
    after: Option<ParkedPosition>,
    limit: i64,
) -> Result<Vec<Parked>, Error> {
    let streams = |channel: Channel| -> Vec<String> {
        Lane::ALL.iter().map(|&lane| StreamName::Job(channel, lane).to_string()).collect()
    };
    let rows = sqlx::query(SELECT)
        .bind(filter.app.map(|app| app.0))
        .bind(filter.channel.map(streams))
        .bind(filter.delivery.map(|delivery| delivery.0))
        .bind(filter.id)
        .bind(after.map(|(at, _)| DateTime::<Utc>::from(at)))
        .bind(after.map_or(Uuid::nil(), |(_, id)| id))
        .bind(limit)
        .fetch_all(connection)
        .await?;
    rows.iter().map(read).collect()
}

/// Locks requests, then deliveries, then parked messages. All transactions lock in this order.
async fn hold(connection: &mut PgConnection, found: &[Parked]) -> Result<(), Error> {
    let requests: Vec<_> = found.iter().filter_map(|parked| Some((parked.app?, parked.send_id?))).collect();
    cancellation::cancelled_among(connection, &requests).await?;
    let deliveries: HashMap<Uuid, i64> =
        found.iter().filter_map(|parked| Some((parked.delivery?.0, parked.app?.0))).collect();
    sqlx::query(
        "SELECT FROM delivery WHERE (app_id, id) IN (SELECT * FROM unnest($1::bigint[], $2::uuid[]))
         ORDER BY app_id, id FOR UPDATE",
    )
    .bind(deliveries.values().copied().collect::<Vec<_>>())
    .bind(deliveries.keys().copied().collect::<Vec<_>>())
    .execute(&mut *connection)
    .await?;
    sqlx::query("SELECT FROM parked WHERE id = ANY($1) ORDER BY id FOR UPDATE")
        .bind(found.iter().map(|parked| parked.id).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Builds the timer that publishes a parked message; None if this release cannot encode the message or does not know its
/// app or stream.
fn redrive_timer(parked: &Parked, now: Timestamp) -> Option<NewTimer> {
    // Each parked row has a new id, so this derived id has never been used before.
    let id = Uuid::new_v5(&parked.id, b"redrive");
    let mut message = parked.message.clone();
    if let Ok(mut envelope) = Envelope::decode(&message)
        && let Event::DeliveryJob(job) = &mut envelope.event
    {
        job.route.passed_over.clear();
        if parked.provider_is_gone {
            job.route.unbind();
        }
        envelope.caused_by = Some(envelope.id);
        envelope.id = id;
        envelope.at = now;
        message = envelope.encode().ok()?;
    }
    Some(NewTimer {
        id,
        due_at: now,
        stream: parked.stream?,
        message,
        app: parked.app?,
        send_id: parked.send_id,
        user: parked.user,
    })
}

async fn remove_parked(connection: &mut PgConnection, again: &[&Parked], actor: &str) -> Result<(), Error> {
    sqlx::query(
        "WITH gone AS (
           DELETE FROM parked WHERE id = ANY($1) RETURNING app_id, send_id, delivery_id
         ), noted AS (
           INSERT INTO audit (app_id, actor, action, subject)
           SELECT app_id, $2, 'parked.redrive', coalesce(delivery_id, send_id)::text FROM gone
           WHERE coalesce(delivery_id, send_id) IS NOT NULL
         )
         UPDATE delivery d SET status = $3, reason = NULL, settled_at = NULL FROM gone
         WHERE (d.app_id, d.id) = (gone.app_id, gone.delivery_id) AND d.status = $4",
    )
    .bind(again.iter().map(|parked| parked.id).collect::<Vec<_>>())
    .bind(actor)
    .bind(Status::Retrying.as_str())
    .bind(Status::Parked.as_str())
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns true if only one provider may send the message, because that provider may already have accepted it.
fn is_bound(message: &[u8]) -> bool {
    Envelope::decode(message).is_ok_and(|envelope| match envelope.event {
        Event::DeliveryJob(job) => !job.channel.is_repeatable() && job.route.only.is_some(),
        _ => false,
    })
}

fn read(row: &PgRow) -> Result<Parked, Error> {
    let skip: Option<&str> = row.try_get("skip")?;
    let message: Vec<u8> = row.try_get("message")?;
    let provider_is_gone: bool = row.try_get("provider_is_gone")?;
    let is_stranded = provider_is_gone && is_bound(&message);
    let skip = skip.map(Skip::read).or(is_stranded.then_some(Skip::ProviderGone));
    let stream = row.try_get::<&str, _>("stream")?.parse().ok();
    let is_erased = skip == Some(Skip::Erased);
    let shown = |text: Option<String>| text.filter(|text| !text.is_empty() && !is_erased);
    Ok(Parked {
        id: row.try_get("id")?,
        app: row.try_get::<Option<i64>, _>("app_id")?.map(AppId),
        app_name: row.try_get("app_name")?,
        send_id: row.try_get::<Option<Uuid>, _>("send_id")?.map(SendId),
        delivery: row.try_get::<Option<Uuid>, _>("delivery_id")?.map(DeliveryId),
        user: row.try_get::<Option<i64>, _>("user_number")?.map(UserNumber),
        recipient: shown(row.try_get("identifier")?),
        target: shown(row.try_get("target")?),
        stream,
        cause: row.try_get("cause")?,
        parked_at: row.try_get::<DateTime<Utc>, _>("parked_at")?.into(),
        message,
        skip: match stream {
            Some(_) => skip,
            None => Some(Skip::Unreadable),
        },
        provider_is_gone,
    })
}
