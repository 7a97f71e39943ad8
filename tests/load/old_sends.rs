//! Sends that ended earlier, as in an installation that has run for a while.

use std::time::Duration;

use service_kit::clock;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::installation::Installation;

/// Number of users who received the sends.
const USERS: i64 = 50_000;
/// Maximum age of the rows of a measurement. Old sends are a day old.
const NEW: Duration = Duration::from_secs(12 * 60 * 60);

/// Fills the tables with sends to one recipient each: their plans, inbox items, ended deliveries with one attempt, and idempotency
/// keys. The delivery ids are random, like those of the first releases, so that their index entries are spread. The keys are two hours
/// younger, so that they do not expire during the run.
pub(crate) async fn put(installation: &Installation, sends: u32) {
    let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
    sqlx::query(
        "CREATE TEMPORARY TABLE old AS
         SELECT $1::bigint AS app, n, 1 + n % $3 AS user_number, at, gen_random_uuid() AS delivery,
           (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008' || substr(md5(n::text), 1, 15))::uuid AS send
         FROM (SELECT n, now() - interval '1 day' + n * interval '1 ms' AS at FROM generate_series(1, $2::bigint) n) AS numbered",
    )
    .bind(installation.app.0)
    .bind(i64::from(sends))
    .bind(USERS)
    .execute(&mut connection)
    .await
    .unwrap();
    sqlx::raw_sql(
        "INSERT INTO request (app_id, send_id, accepted_at, lane, title, recipients)
           SELECT app, send, at, 'transactional', 'Your order is on its way', 1 FROM old;
         INSERT INTO plan (app_id, send_id, turn, planned_at) SELECT app, send, 0, at FROM old;
         INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
           SELECT app, send, 0, 0, 'user-' || user_number, user_number, true, '{}' FROM old;
         INSERT INTO delivery
             (app_id, id, send_id, recipient_index, user_number, channel, target, status, settled_at, provider)
           SELECT app, delivery, send, 0, user_number, 'email', 'u' || user_number || '@example.com', 'sent', at, 'smtp' FROM old;
         INSERT INTO attempt
             (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code, provider_message)
           SELECT app, delivery, 1, at, at, 'smtp', 'sent', '250', 'ok' FROM old;
         INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, event_id, content)
           SELECT app, user_number, -n, send, at, send, json_build_object('title', 'Your order is on its way') FROM old;
         INSERT INTO inbox_counter (app_id, user_number, total, unread, unseen)
           SELECT app, user_number, count(*), count(*), count(*) FROM old GROUP BY app, user_number;
         INSERT INTO idempotency_key (app_id, key, send_id, body_hash, lane, created_at)
           SELECT app, md5(n::text), send, decode(md5(n::text), 'hex'), 'transactional', at + interval '2 hours' FROM old;
         DROP TABLE old",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    sqlx::raw_sql(
        "VACUUM ANALYZE request, plan, planned_recipient, delivery, attempt, inbox_item, inbox_counter, idempotency_key",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
}

/// Removes the plans and inbox items of newer sends, and counts the inbox items again.
pub(crate) async fn remove_newer(installation: &Installation) {
    let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
    let app = installation.app.0;
    for statement in [
        "DELETE FROM planned_recipient WHERE app_id = $1 AND send_id >= $2",
        "DELETE FROM plan WHERE app_id = $1 AND send_id >= $2",
        "DELETE FROM request WHERE app_id = $1 AND send_id >= $2",
        "DELETE FROM inbox_item WHERE app_id = $1 AND send_id >= $2",
    ] {
        sqlx::query(statement).bind(app).bind(first_new_send()).execute(&mut connection).await.unwrap();
    }
    sqlx::raw_sql(
        "TRUNCATE inbox_counter;
         INSERT INTO inbox_counter (app_id, user_number, total, unread, unseen)
           SELECT app_id, user_number, count(*), count(*), count(*) FROM inbox_item GROUP BY app_id, user_number",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    let vacuum = "VACUUM ANALYZE request, plan, planned_recipient, inbox_item, inbox_counter";
    sqlx::raw_sql(vacuum).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Returns an id that is greater than those of old sends and smaller than those of newer ones.
pub(crate) fn first_new_send() -> Uuid {
    let millis = u64::try_from((clock::now() - NEW).millis()).unwrap();
    Uuid::from_u128(u128::from(millis) << 80)
}
