//! Content of the tables.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::AppId;
use sqlx::{PgConnection, PgPool};
use suite::{checkpoint, claims};
use uuid::Uuid;

use crate::record::{Attempt, Claim, Counters, Delivery, Item, Recipient, Request, Suppression, Tables};

type Time = DateTime<Utc>;

/// Reads all tables in one snapshot.
pub(super) async fn read(database: &PgPool) -> Tables {
    let mut moment = database.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await.unwrap();
    let tables = read_all(&mut moment).await;
    moment.commit().await.unwrap();
    tables
}

async fn read_all(database: &mut PgConnection) -> Tables {
    let users: Vec<(i64, i64, String)> =
        rows(database, "SELECT number, app_id, identifier FROM app_user").await;
    let counters: Vec<(i64, i64, i64, i64, i64)> =
        rows(database, "SELECT app_id, user_number, total, unread, unseen FROM inbox_counter").await;
    let suppressions: Vec<(i64, String, String)> =
        rows(database, "SELECT app_id, channel, target FROM suppression").await;
    let stepped_back: Vec<(String, String, i64, i64)> =
        rows(database, "SELECT projection, stream, was, became FROM stepped_back").await;
    let checkpoints = checkpoint::current(&mut *database).await.unwrap();
    Tables {
        users: users.into_iter().map(|(number, app, name)| (number, (AppId(app), name))).collect(),
        requests: requests(database).await,
        deliveries: deliveries(database).await,
        suppressions: suppressions
            .into_iter()
            .map(|(app, channel, target)| ((AppId(app), channel, target), Suppression { is_in_log: false }))
            .collect(),
        items: items(database).await,
        counters: counters
            .into_iter()
            .map(|(app, user, total, unread, unseen)| ((app, user), Counters { total, unread, unseen }))
            .collect(),
        checkpoints: checkpoints.into_iter().map(|sample| (sample.place, sample.seq)).collect(),
        stepped_back: stepped_back
            .into_iter()
            .map(|(who, stream, was, became)| ((who, stream), was, became))
            .collect(),
        dead_letters: dead_letters(database).await,
    }
}

async fn rows<Row>(database: &mut PgConnection, query: &'static str) -> Vec<Row>
where
    Row: for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow> + Send + Unpin,
{
    sqlx::query_as(query).fetch_all(database).await.unwrap()
}

async fn requests(database: &mut PgConnection) -> BTreeMap<Uuid, Request> {
    let sends: Vec<(Uuid, i64, Option<String>)> =
        rows(database, "SELECT send_id, app_id, title FROM request").await;
    let request = |(send, app, title): (Uuid, i64, Option<String>)| {
        let request =
            Request { app: AppId(app), title: title.unwrap_or_default(), recipients: BTreeMap::new() };
        (send, request)
    };
    let mut requests: BTreeMap<Uuid, Request> = sends.into_iter().map(request).collect();
    let recipients: Vec<(Uuid, String, i32, bool, Vec<String>)> =
        rows(database, "SELECT send_id, identifier, recipient_index, in_app, skips FROM planned_recipient")
            .await;
    for (send, identifier, index, in_app, skips) in recipients {
        let pair = |skip: &String| {
            let (channel, reason) = skip.split_once(':').unwrap();
            (channel.to_owned(), reason.to_owned())
        };
        let recipient = Recipient { index, in_app, skips: skips.iter().map(pair).collect() };
        requests
            .get_mut(&send)
            .expect("the send of the recipient is in the tables")
            .recipients
            .insert(identifier, recipient);
    }
    requests
}

async fn deliveries(database: &mut PgConnection) -> BTreeMap<Uuid, Delivery> {
    type Row = (Uuid, i64, Uuid, i32, i64, String, String, String, Option<String>, i32);
    let of_ledger: Vec<Row> = rows(
        database,
        "SELECT id, app_id, send_id, recipient_index, user_number, channel, target, status, reason, attempt
         FROM delivery",
    )
    .await;
    let delivery = |(id, app, send, index, user, channel, target, status, reason, attempt): Row| {
        let (channel, status) = (channel.parse().unwrap(), status.parse().unwrap());
        let (attempts, claims) = (Vec::new(), Vec::new());
        let app = AppId(app);
        (id, Delivery { app, send, index, user, channel, target, status, reason, attempt, attempts, claims })
    };
    let mut deliveries: BTreeMap<Uuid, Delivery> = of_ledger.into_iter().map(delivery).collect();
    let attempts: Vec<(Uuid, i32, String, Time)> = rows(
        database,
        "SELECT delivery_id, number, outcome, started_at FROM attempt ORDER BY delivery_id, number",
    )
    .await;
    for (id, number, outcome, started_at) in attempts {
        let attempt = Attempt { number, outcome, started_at: started_at.timestamp_millis() };
        deliveries.get_mut(&id).expect("the delivery of the attempt is in the ledger").attempts.push(attempt);
    }
    for (id, attempt, at, is_late) in claims::all(database).await {
        let claim = Claim { attempt, at: at.timestamp_millis(), is_late };
        deliveries.get_mut(&id).expect("the delivery of the claim is in the ledger").claims.push(claim);
    }
    deliveries
}

async fn items(database: &mut PgConnection) -> BTreeMap<i64, Item> {
    type Row = (
        i64,
        i64,
        i64,
        Uuid,
        Time,
        Option<Time>,
        Option<Time>,
        Option<Time>,
        Option<Time>,
        Option<Time>,
        Option<String>,
        Option<String>,
    );
    let of_inboxes: Vec<Row> = rows(
        database,
        "SELECT id, app_id, user_number, send_id, created_at, seen_at, clicked_at, deleted_at, archived_at,
           snoozed_until, state, content->>'title'
         FROM inbox_item",
    )
    .await;
    let millis = |time: Option<Time>| time.map(|time| time.timestamp_millis());
    let item = |row: Row| {
        let (
            id,
            app,
            user,
            send,
            created_at,
            seen_at,
            clicked_at,
            deleted_at,
            archived_at,
            snoozed_until,
            state,
            title,
        ) = row;
        let item = Item {
            app,
            user,
            send,
            created_at: created_at.timestamp_millis(),
            seen_at: millis(seen_at),
            clicked_at: millis(clicked_at),
            deleted_at: millis(deleted_at),
            archived_at: millis(archived_at),
            snoozed_until: millis(snoozed_until),
            state,
            title,
        };
        (id, item)
    };
    of_inboxes.into_iter().map(item).collect()
}

async fn dead_letters(database: &mut PgConnection) -> Vec<String> {
    let found: Vec<(String,)> = rows(
        database,
        "SELECT 'event of ' || stream || ': ' || cause FROM dead_event
         UNION ALL SELECT 'message of ' || stream || ': ' || cause FROM message_failure WHERE failures > 0
         UNION ALL SELECT 'parked of ' || p.stream || ': ' || p.cause FROM parked p
           LEFT JOIN delivery d ON (d.app_id, d.id) = (p.app_id, p.delivery_id) WHERE d.status IS DISTINCT FROM 'parked'
           -- `Record::parked` has these.
           AND p.cause NOT LIKE '% processes ended %'",
    )
    .await;
    found.into_iter().map(|(text,)| text).collect()
}
