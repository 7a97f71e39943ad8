mod reported;

use std::collections::{HashMap, HashSet};

use domain::receipt::{Receipt, ReceiptSubject, ReportedDelivery};
use domain::{AppId, DeliveryId, SendId, UserNumber};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Error;
use crate::database::columns::{columns, integer};

pub(super) struct NamedAttempt {
    pub(super) app: AppId,
    pub(super) delivery: DeliveryId,
    pub(super) send_id: SendId,
    /// None stands for the last attempt.
    pub(super) attempt: Option<u32>,
}

/// Returns one result per receipt, in order; None if the delivery or the provider's message id is unknown.
pub(super) async fn find(
    connection: &mut PgConnection,
    receipts: &[Receipt],
) -> Result<Vec<Option<NamedAttempt>>, Error> {
    let delivery = |receipt: &Receipt| match receipt.about {
        ReceiptSubject::Delivery(delivery, attempt) => (Some(delivery.0), attempt),
        ReceiptSubject::Message { .. } | ReceiptSubject::ReportedMessage(_) => (None, None),
    };
    fn message(receipt: &Receipt) -> Option<(&str, &str)> {
        match &receipt.about {
            ReceiptSubject::Message { provider, id } => Some((provider, id)),
            ReceiptSubject::Delivery(..) | ReceiptSubject::ReportedMessage(_) => None,
        }
    }
    columns! { receipt in receipts =>
        app_id = receipt.app.0,
        delivery_id = delivery(receipt).0,
        attempt = delivery(receipt).1.map(integer),
        provider = message(receipt).map(|(provider, _)| provider),
        provider_id = message(receipt).map(|(_, id)| id),
    }
    let rows = sqlx::query!(
        r#"SELECT named.place AS "place!", d.app_id, d.id, d.send_id, coalesce(named.attempt, made.number) AS attempt
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::text[]) WITH ORDINALITY
           AS named (app_id, delivery_id, attempt, provider, provider_id, place)
         LEFT JOIN LATERAL (
           SELECT a.delivery_id, a.number FROM attempt a
           WHERE (a.app_id, a.provider, a.provider_id) = (named.app_id, named.provider, named.provider_id)
             AND a.awaits_receipt ORDER BY a.ended_at DESC LIMIT 1
         ) AS made ON named.delivery_id IS NULL
         JOIN delivery d ON (d.app_id, d.id) = (named.app_id, coalesce(named.delivery_id, made.delivery_id))"#,
        &app_id,
        &delivery_id as &[Option<Uuid>],
        &attempt as &[Option<i32>],
        &provider as &[Option<&str>],
        &provider_id as &[Option<&str>]
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut found = reported::find(connection, receipts).await?;
    for row in rows {
        let place = usize::try_from(row.place).unwrap_or_default();
        if let Some(found) = place.checked_sub(1).and_then(|place| found.get_mut(place)) {
            *found = Some(NamedAttempt {
                app: AppId(row.app_id),
                delivery: DeliveryId(row.id),
                send_id: SendId(row.send_id),
                attempt: row.attempt.and_then(|number| u32::try_from(number).ok()),
            });
        }
    }
    Ok(found)
}

/// Reads the deliveries with a second statement after locking them, so that it sees the changes of a transaction for whose lock the first
/// one waited.
pub(super) async fn hold(
    connection: &mut PgConnection,
    named: &[Option<NamedAttempt>],
    cancelled: &HashSet<(AppId, SendId)>,
) -> Result<HashMap<(AppId, DeliveryId), ReportedDelivery>, Error> {
    let named: Vec<_> = named.iter().flatten().collect();
    if named.is_empty() {
        return Ok(HashMap::new());
    }
    columns! { named in named =>
        app_id = named.app.0,
        id = named.delivery.0,
    }
    sqlx::query!(
        "SELECT FROM delivery d WHERE (d.app_id, d.id) IN (SELECT * FROM unnest($1::bigint[], $2::uuid[]))
         ORDER BY d.app_id, d.id FOR UPDATE",
        &app_id,
        &id
    )
    .execute(&mut *connection)
    .await?;
    let rows = sqlx::query!(
        r#"SELECT d.app_id, d.id, d.send_id, d.user_number, d.channel, d.status, d.attempt, d.provider, d.expires_at,
           e.user_number IS NOT NULL AS "is_erased!", kept.stream AS "stream?", kept.message AS "message?"
         FROM (SELECT DISTINCT * FROM unnest($1::bigint[], $2::uuid[])) AS named (app_id, id)
         JOIN delivery d USING (app_id, id)
         LEFT JOIN erased e ON (e.app_id, e.user_number) = (d.app_id, d.user_number)
         LEFT JOIN awaiting_receipt kept ON (kept.app_id, kept.delivery_id) = (d.app_id, d.id)"#,
        &app_id,
        &id
    )
    .fetch_all(connection)
    .await?;
    let mut deliveries = HashMap::with_capacity(rows.len());
    for row in rows {
        let (app, id, send_id) = (AppId(row.app_id), DeliveryId(row.id), SendId(row.send_id));
        let job = match (row.stream, row.message) {
            (Some(stream), Some(message)) => Some((stream.parse()?, message)),
            _ => None,
        };
        let delivery = ReportedDelivery {
            app,
            id,
            send_id,
            user: UserNumber(row.user_number),
            channel: row.channel.parse()?,
            status: row.status.parse()?,
            attempt: u32::try_from(row.attempt).unwrap_or_default(),
            provider: row.provider,
            expires_at: row.expires_at.map(Into::into),
            is_erased: row.is_erased,
            is_cancelled: cancelled.contains(&(app, send_id)),
            job,
        };
        deliveries.insert((app, id), delivery);
    }
    Ok(deliveries)
}
