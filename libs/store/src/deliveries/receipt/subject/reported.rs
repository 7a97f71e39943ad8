//! Attempts by ids that providers write differently in answers and receipts.

use domain::receipt::{Candidate, Receipt, ReceiptSubject, ReportedMessage};
use domain::{AppId, DeliveryId, SendId};
use sqlx::PgConnection;

use super::NamedAttempt;
use crate::Error;
use crate::database::columns::columns;

struct Wanted<'a> {
    place: i64,
    app: AppId,
    provider: &'a str,
    key: String,
}

struct Found {
    place: i64,
    answered: String,
    target: String,
    attempt: i32,
    app_id: i64,
    id: uuid::Uuid,
    send_id: uuid::Uuid,
}

/// Returns one result per receipt, in order; None for receipts without a [`ReportedMessage`], and if no attempt certainly has the id.
pub(super) async fn find(
    connection: &mut PgConnection,
    receipts: &[Receipt],
) -> Result<Vec<Option<NamedAttempt>>, Error> {
    let mut wanted = Vec::new();
    for (place, receipt) in (0..).zip(receipts) {
        let Some(message) = reported(receipt) else { continue };
        let (app, provider) = (receipt.app, message.provider.as_str());
        wanted.extend(message.keys().into_iter().map(|key| Wanted { place, app, provider, key }));
    }
    let found = candidates(connection, &wanted).await?;
    let attempts = (0_i64..).zip(receipts).map(|(place, receipt)| {
        let message = reported(receipt)?;
        let of_receipt: Vec<&Found> = found.iter().filter(|found| found.place == place).collect();
        let candidates: Vec<_> = of_receipt
            .iter()
            .map(|found| Candidate { answered: &found.answered, target: &found.target })
            .collect();
        let chosen = of_receipt.get(message.choose(&candidates)?)?;
        Some(NamedAttempt {
            app: AppId(chosen.app_id),
            delivery: DeliveryId(chosen.id),
            send_id: SendId(chosen.send_id),
            attempt: u32::try_from(chosen.attempt).ok(),
        })
    });
    Ok(attempts.collect())
}

fn reported(receipt: &Receipt) -> Option<&ReportedMessage> {
    match &receipt.about {
        ReceiptSubject::ReportedMessage(message) => Some(message),
        _ => None,
    }
}

async fn candidates(connection: &mut PgConnection, wanted: &[Wanted<'_>]) -> Result<Vec<Found>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    columns! { wanted in wanted =>
        app_id = wanted.app.0,
        provider = wanted.provider,
        key = wanted.key.as_str(),
        place = wanted.place,
    }
    let found = sqlx::query_as!(
        Found,
        r#"SELECT named.place AS "place!", made.provider_id AS "answered!", d.target, made.number AS attempt, d.app_id, d.id, d.send_id
         FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS named (app_id, provider, key, place)
         CROSS JOIN LATERAL (
           SELECT a.delivery_id, a.number, a.provider_id, a.ended_at FROM attempt a
           WHERE a.app_id = named.app_id AND a.provider = named.provider
             AND ltrim(lower(btrim(a.provider_id) COLLATE "C"), '0') = named.key AND a.awaits_receipt
           ORDER BY a.ended_at DESC LIMIT 16
         ) AS made
         JOIN delivery d ON (d.app_id, d.id) = (named.app_id, made.delivery_id)
         ORDER BY named.place, made.ended_at DESC"#,
        &app_id,
        &provider as &[&str],
        &key as &[&str],
        &place
    )
    .fetch_all(connection)
    .await?;
    Ok(found)
}
