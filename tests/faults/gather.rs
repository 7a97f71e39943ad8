//! Assembly of the record of a round.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::event::bundle::{self, Part};
use domain::{Event, StreamName, Timestamp};
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use crate::record::{Attempt, Delivery, Record, ReportedOutcome, Request, Suppression, Target};
use crate::round::UNSTEADY;
use crate::system::System;

/// Maximum number of messages per read of the log.
const BATCH: usize = 5_000;
const LINGER: Duration = Duration::from_millis(5);

/// A send that the gateway accepted.
pub(crate) struct AcceptedSend {
    pub(crate) request: String,
    pub(crate) notice: String,
    pub(crate) recipients: usize,
}

/// Assembles the record of a round with these sends.
pub(crate) async fn record(
    system: &mut System,
    sent: &[AcceptedSend],
    down: Option<(Timestamp, Timestamp)>,
) -> Record {
    let ids: Vec<Uuid> = sent.iter().map(|sent| sent.request.parse().unwrap()).collect();
    let mut deliveries = deliveries(&system.database, &ids).await;
    attempts(&system.database, &ids, &mut deliveries).await;
    claims(&system.database, &ids, &mut deliveries).await;
    let committed = outcomes(system, &mut deliveries).await;
    let mut providers = BTreeMap::new();
    for peer in &system.providers.peers {
        let down = down.filter(|_| peer.identifier() == UNSTEADY);
        providers.insert(peer.identifier(), peer.seen(down));
    }
    Record {
        suppressions: suppressions(&system.database, &deliveries, &committed).await,
        requests: requests(system, sent).await,
        deliveries,
        providers,
    }
}

async fn deliveries(database: &PgPool, ids: &[Uuid]) -> BTreeMap<String, Delivery> {
    type Row = (String, String, String, String, String, Option<String>, i32);
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT d.id::text, r.title, d.channel, d.target, d.status, d.reason, d.attempt
         FROM delivery d JOIN request r USING (app_id, send_id) WHERE d.send_id = ANY($1)",
    )
    .bind(ids)
    .fetch_all(database)
    .await
    .unwrap();
    let delivery = |(id, notice, channel, target, status, reason, attempt): Row| {
        let target = (channel, target);
        (id, Delivery { target, notice, status, reason, attempt, ..Delivery::default() })
    };
    rows.into_iter().map(delivery).collect()
}

async fn attempts(database: &PgPool, ids: &[Uuid], deliveries: &mut BTreeMap<String, Delivery>) {
    type Row = (String, i32, Option<String>, String, String, DateTime<Utc>, DateTime<Utc>);
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT a.delivery_id::text, a.number, a.provider, a.outcome, a.provider_code, a.started_at, a.ended_at
         FROM attempt a JOIN delivery d ON (d.app_id, d.id) = (a.app_id, a.delivery_id)
         WHERE d.send_id = ANY($1) ORDER BY a.delivery_id, a.number",
    )
    .bind(ids)
    .fetch_all(database)
    .await
    .unwrap();
    for (id, number, provider, outcome, code, started_at, ended_at) in rows {
        let (started_at, ended_at) = (instant(started_at), instant(ended_at));
        let attempt = Attempt { number, provider, outcome, code, started_at, ended_at };
        deliveries.get_mut(&id).unwrap().attempts.push(attempt);
    }
}

async fn claims(database: &PgPool, ids: &[Uuid], deliveries: &mut BTreeMap<String, Delivery>) {
    let rows: Vec<(String, DateTime<Utc>)> = sqlx::query_as(
        "SELECT d.id::text, c.at FROM claimed c JOIN delivery d ON d.id = c.delivery_id
         WHERE d.send_id = ANY($1) ORDER BY c.at",
    )
    .bind(ids)
    .fetch_all(database)
    .await
    .unwrap();
    for (id, at) in rows {
        deliveries.get_mut(&id).unwrap().claimed_at.push(instant(at));
    }
}

/// Adds the outcome events in the log to the deliveries. Returns the times of the events about suppressions, by delivery.
async fn outcomes(
    system: &mut System,
    deliveries: &mut BTreeMap<String, Delivery>,
) -> HashMap<String, Timestamp> {
    let end = system.log.state(StreamName::Outcome).await.unwrap().last_seq;
    let mut committed = HashMap::new();
    let mut at = 0;
    while at < end {
        let records = system.outcomes.next_batch(BATCH, LINGER).await.unwrap();
        at = records.last().map_or(at, |record| record.seq);
        let parts = records.iter().flat_map(|record| bundle::decode(&record.payload).unwrap());
        for Part { envelope, .. } in parts {
            match envelope.event {
                Event::DeliverySettled(settled) => {
                    let reported = ReportedOutcome {
                        attempt: i32::try_from(settled.attempt).unwrap(),
                        status: settled.status.to_string(),
                        reason: settled.reason.map(|reason| reason.to_string()),
                    };
                    let id = settled.delivery_id.to_string();
                    deliveries
                        .get_mut(&id)
                        .expect("the event names a delivery of the ledger")
                        .reported
                        .push(reported);
                }
                Event::TargetSuppressed(suppressed) => {
                    // The log may have the event twice. The first one is closer to the commit.
                    committed.entry(suppressed.delivery_id.to_string()).or_insert(envelope.at);
                }
                _ => {}
            }
        }
    }
    committed
}

async fn suppressions(
    database: &PgPool,
    deliveries: &BTreeMap<String, Delivery>,
    committed: &HashMap<String, Timestamp>,
) -> BTreeMap<Target, Suppression> {
    let rows: Vec<(String, String, String)> =
        sqlx::query_as("SELECT channel, target, delivery_id::text FROM suppression")
            .fetch_all(database)
            .await
            .unwrap();
    let of_round = rows.into_iter().filter(|(.., id)| deliveries.contains_key(id));
    let suppression = |(channel, target, id): (String, String, String)| {
        ((channel, target), Suppression { committed_by: committed.get(&id).copied() })
    };
    of_round.map(suppression).collect()
}

async fn requests(system: &System, sent: &[AcceptedSend]) -> Vec<Request> {
    let mut requests = Vec::with_capacity(sent.len());
    for AcceptedSend { request, notice, recipients } in sent {
        let reported = system.api.request(request).await;
        assert_eq!(reported["status"], "completed", "{reported}");
        let skips: Vec<(String, i64)> = sqlx::query_as(
            "SELECT skip, count(*) FROM planned_recipient, unnest(skips) skip WHERE send_id = $1 GROUP BY skip",
        )
        .bind(request.parse::<Uuid>().unwrap())
        .fetch_all(&system.database)
        .await
        .unwrap();
        requests.push(Request {
            notice: notice.clone(),
            recipients: *recipients,
            counts: counts(&reported["counts"]),
            skips: skips
                .into_iter()
                .map(|(skip, number)| {
                    let (channel, reason) = skip.split_once(':').unwrap();
                    ((channel.to_owned(), reason.to_owned()), number)
                })
                .collect(),
        });
    }
    requests
}

fn counts(reported: &Value) -> BTreeMap<String, BTreeMap<String, i64>> {
    serde_json::from_value(reported.clone()).unwrap()
}

fn instant(time: DateTime<Utc>) -> Timestamp {
    Timestamp::from_millis(time.timestamp_millis())
}
