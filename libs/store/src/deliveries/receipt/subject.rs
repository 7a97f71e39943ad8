//! Subjects of receipts: the attempts that receipts name, and their deliveries.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use domain::problem::UnknownName;
use domain::receipt::{About, Receipt, ReportedDelivery};
use domain::{AppId, DeliveryId, SendId, UserNumber};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::Error;

/// An attempt that a receipt names.
pub(super) struct NamedAttempt {
    pub(super) app: AppId,
    pub(super) delivery: DeliveryId,
    pub(super) send_id: SendId,
    /// Number of the attempt; None means the last one.
    pub(super) attempt: Option<u32>,
}

/// Finds the attempts that receipts name. Returns one result per receipt, in order; None for an unknown delivery or
/// message.
pub(super) async fn find(
    connection: &mut PgConnection,
    receipts: &[Receipt],
) -> Result<Vec<Option<NamedAttempt>>, Error> {
    let delivery = |receipt: &Receipt| match receipt.about {
        About::Delivery(delivery, attempt) => (Some(delivery.0), attempt),
        About::Message { .. } => (None, None),
    };
    fn message(receipt: &Receipt) -> Option<(&str, &str)> {
        match &receipt.about {
            About::Delivery(..) => None,
            About::Message { provider, id } => Some((provider, id)),
        }
    }
    let rows = sqlx::query(
        "SELECT named.place, d.app_id, d.id, d.send_id, coalesce(named.attempt, made.number) AS attempt
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::text[]) WITH ORDINALITY
           AS named (app_id, delivery_id, attempt, provider, provider_id, place)
         LEFT JOIN LATERAL (
           SELECT a.delivery_id, a.number FROM attempt a
           WHERE (a.app_id, a.provider, a.provider_id) = (named.app_id, named.provider, named.provider_id)
             AND a.awaits_receipt ORDER BY a.ended_at DESC LIMIT 1
         ) AS made ON named.delivery_id IS NULL
         JOIN delivery d ON (d.app_id, d.id) = (named.app_id, coalesce(named.delivery_id, made.delivery_id))",
    )
    .bind(receipts.iter().map(|receipt| receipt.app.0).collect::<Vec<_>>())
    .bind(receipts.iter().map(|receipt| delivery(receipt).0).collect::<Vec<_>>())
    .bind(
        receipts
            .iter()
            .map(|receipt| delivery(receipt).1.map(|number| i32::try_from(number).unwrap_or(i32::MAX)))
            .collect::<Vec<_>>(),
    )
    .bind(receipts.iter().map(|receipt| message(receipt).map(|(provider, _)| provider)).collect::<Vec<_>>())
    .bind(receipts.iter().map(|receipt| message(receipt).map(|(_, id)| id)).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    let mut found: Vec<Option<NamedAttempt>> = receipts.iter().map(|_| None).collect();
    for row in rows {
        let place = usize::try_from(row.try_get::<i64, _>("place")?).unwrap_or_default();
        let attempt: Option<i32> = row.try_get("attempt")?;
        if let Some(found) = place.checked_sub(1).and_then(|place| found.get_mut(place)) {
            *found = Some(NamedAttempt {
                app: AppId(row.try_get("app_id")?),
                delivery: DeliveryId(row.try_get("id")?),
                send_id: SendId(row.try_get("send_id")?),
                attempt: attempt.and_then(|number| u32::try_from(number).ok()),
            });
        }
    }
    Ok(found)
}

/// Locks the deliveries and then reads them in a second statement, which also sees changes by a transaction that held a
/// lock until then.
pub(super) async fn hold(
    connection: &mut PgConnection,
    named: &[Option<NamedAttempt>],
    cancelled: &HashSet<(AppId, SendId)>,
) -> Result<HashMap<(AppId, DeliveryId), ReportedDelivery>, Error> {
    let apps: Vec<i64> = named.iter().flatten().map(|named| named.app.0).collect();
    let ids: Vec<Uuid> = named.iter().flatten().map(|named| named.delivery.0).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    sqlx::query(
        "SELECT FROM delivery d WHERE (d.app_id, d.id) IN (SELECT * FROM unnest($1::bigint[], $2::uuid[]))
         ORDER BY d.app_id, d.id FOR UPDATE",
    )
    .bind(&apps)
    .bind(&ids)
    .execute(&mut *connection)
    .await?;
    let rows = sqlx::query(
        "SELECT d.*, e.user_number IS NOT NULL AS is_erased, kept.stream, kept.message
         FROM (SELECT DISTINCT * FROM unnest($1::bigint[], $2::uuid[])) AS named (app_id, id)
         JOIN delivery d USING (app_id, id)
         LEFT JOIN erased e ON (e.app_id, e.user_number) = (d.app_id, d.user_number)
         LEFT JOIN awaiting_receipt kept ON (kept.app_id, kept.delivery_id) = (d.app_id, d.id)",
    )
    .bind(apps)
    .bind(ids)
    .fetch_all(connection)
    .await?;
    let deliveries = rows.iter().map(|row| read(row, cancelled));
    deliveries.map(|delivery| delivery.map(|delivery| ((delivery.app, delivery.id), delivery))).collect()
}

fn read(row: &PgRow, cancelled: &HashSet<(AppId, SendId)>) -> Result<ReportedDelivery, Error> {
    let unreadable = |error: UnknownName| Error::Unreadable(error.to_string());
    let channel: &str = row.try_get("channel")?;
    let status: &str = row.try_get("status")?;
    let job = match row.try_get::<Option<&str>, _>("stream")? {
        Some(stream) => Some((stream.parse().map_err(unreadable)?, row.try_get("message")?)),
        None => None,
    };
    let app = AppId(row.try_get("app_id")?);
    let send_id = SendId(row.try_get("send_id")?);
    Ok(ReportedDelivery {
        app,
        id: DeliveryId(row.try_get("id")?),
        send_id,
        user: UserNumber(row.try_get("user_number")?),
        channel: channel.parse().map_err(unreadable)?,
        status: status.parse().map_err(unreadable)?,
        attempt: u32::try_from(row.try_get::<i32, _>("attempt")?).unwrap_or_default(),
        provider: row.try_get("provider")?,
        expires_at: row.try_get::<Option<DateTime<Utc>>, _>("expires_at")?.map(Into::into),
        is_erased: row.try_get("is_erased")?,
        is_cancelled: cancelled.contains(&(app, send_id)),
        job,
    })
}
