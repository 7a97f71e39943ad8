//! Removal of old sends.

use std::num::NonZeroU32;
use std::time::Duration;

use domain::app_setting::AppSetting;
use domain::{Actor, AppId, SendId, Timestamp, UserNumber};
use store::sends::retention::{Aged, RemovedRows};
use uuid::Uuid;

use crate::{Fixture, NOW, fixture};

const DAY: Duration = Duration::from_secs(86_400);
const KEEP: Duration = Duration::from_secs(30 * 86_400);
const LEAST: Duration = Duration::from_secs(8 * 86_400);

/// Tables with rows of a send.
const TABLES: [&str; 6] = ["request", "plan", "planned_recipient", "delivery", "attempt", "awaiting_receipt"];

impl Fixture {
    /// Adds a send of this age with so many recipients, each with a delivery that has ended, two attempts and a job that waits for a
    /// receipt.
    async fn old_send(&self, app: AppId, days: i32, recipients: i32) -> SendId {
        let statement = "
            WITH sent AS (
              INSERT INTO request (app_id, send_id, accepted_at, lane, recipients)
              SELECT $1, overlay(send_id_at(at)::text PLACING right(gen_random_uuid()::text, 22) FROM 15)::uuid, at, 'bulk', $3
              FROM (SELECT now() - $2 * interval '1 day' AS at) AS age RETURNING send_id, accepted_at
            ), planned AS (
              INSERT INTO plan (app_id, send_id, turn, planned_at) SELECT $1, send_id, 0, accepted_at FROM sent
            ), recipient AS (
              INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
              SELECT $1, send_id, n, 0, 'user-' || n, n, false, '{}' FROM sent, generate_series(1, $3) AS n
            ), sending AS (
              INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, settled_at)
              SELECT $1, gen_random_uuid(), send_id, n, n, 'email', n || '@example.com', 'sent', accepted_at
              FROM sent, generate_series(1, $3) AS n RETURNING id, user_number
            ), receipt AS (
              INSERT INTO awaiting_receipt (app_id, delivery_id, user_number, stream, message)
              SELECT $1, id, user_number, 'JOB', '' FROM sending
            ), attempts AS (
              INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, outcome, provider_code, provider_message)
              SELECT $1, id, n, now(), now(), 'sent', '250', '' FROM sending, generate_series(1, 2) AS n
            ) SELECT send_id FROM sent";
        SendId(
            sqlx::query_scalar(statement)
                .bind(app.0)
                .bind(days)
                .bind(recipients)
                .fetch_one(&self.pool)
                .await
                .unwrap(),
        )
    }

    /// Returns the number of rows of each of [`TABLES`] that belong to the app.
    async fn rows(&self, app: AppId) -> [i64; TABLES.len()] {
        let mut rows = [0; TABLES.len()];
        for (table, number) in TABLES.iter().zip(&mut rows) {
            let count = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table} WHERE app_id = $1"));
            *number = sqlx::query_scalar(count).bind(app.0).fetch_one(&self.pool).await.unwrap();
        }
        rows
    }

    fn aged(now: Timestamp) -> Aged {
        Aged { before: now - KEEP, ended_before: now - LEAST }
    }

    async fn removable(&self, app: AppId) -> Vec<SendId> {
        let (sends, _) = self
            .store
            .sends()
            .removable_sends(app, Fixture::aged(self.clock().await), SendId(Uuid::nil()), 100, 10_000)
            .await
            .unwrap();
        sends
    }

    async fn clock(&self) -> Timestamp {
        let millis = "SELECT floor(extract(epoch FROM now()) * 1000)::bigint";
        Timestamp::from_millis(sqlx::query_scalar(millis).fetch_one(&self.pool).await.unwrap())
    }

    async fn alter(&self, send: SendId, statement: &'static str) {
        sqlx::query(statement).bind(send.0).execute(&self.pool).await.unwrap();
    }

    /// Removes sends until a step removes nothing, and returns the rows of every step.
    async fn remove_all(&self, app: AppId, sends: &[SendId], most: u32) -> Vec<RemovedRows> {
        let mut steps = Vec::new();
        loop {
            let step = self.store.sends().remove_sends(app, sends, most).await.unwrap();
            if step.is_none() {
                return steps;
            }
            steps.push(step);
        }
    }
}

#[tokio::test]
async fn old_sends_are_removed_with_all_their_rows_and_younger_ones_stay() {
    let fixture = fixture().await;
    let (app, other) = (fixture.app("shop").await, fixture.app("bank").await);
    let old = [fixture.old_send(app, 90, 2).await, fixture.old_send(app, 31, 1).await];
    fixture.old_send(app, 29, 4).await;
    fixture.old_send(other, 12, 8).await;
    assert_eq!(fixture.removable(app).await, old, "oldest first");
    let steps = fixture.remove_all(app, &old, 100).await;
    assert_eq!(steps, [RemovedRows { sends: 2, deliveries: 3, recipients: 3 }]);
    assert_eq!(fixture.rows(app).await, [1, 1, 4, 4, 8, 4]);
    assert_eq!(fixture.rows(other).await, [1, 1, 8, 8, 16, 8]);
}

#[tokio::test]
async fn an_app_keeps_its_sends_for_its_own_time_if_that_is_shorter() {
    let fixture = fixture().await;
    let (app, other) = (fixture.app("shop").await, fixture.app("bank").await);
    for app in [app, other] {
        fixture.old_send(app, 12, 1).await;
    }
    let now = fixture.clock().await;
    let old = async || fixture.store.sends().apps_with_old_sends(now, KEEP, LEAST).await.unwrap();
    assert!(old().await.is_empty());
    for (days, age) in [(10, Some(10)), (1, Some(8)), (365, None)] {
        let switch = AppSetting::KeepSends(NonZeroU32::new(days));
        assert!(fixture.store.control().set_settings(app, &[switch], &Actor::System).await.unwrap());
        let ages: Vec<_> = old().await.iter().map(|old| (old.app, old.before)).collect();
        let expected: Vec<_> = age.map(|days| (app, now - DAY * days)).into_iter().collect();
        assert_eq!(ages, expected, "{days} days");
    }
}

#[tokio::test]
async fn a_send_that_is_not_finished_stays() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    for change in [
        "UPDATE request SET body = '{}' WHERE send_id = $1",
        "UPDATE request SET send_at = now() + interval '1 day' WHERE send_id = $1",
        "UPDATE request SET send_at = now() - interval '29 days' WHERE send_id = $1",
        "UPDATE delivery SET status = 'queued', settled_at = NULL WHERE send_id = $1 AND recipient_index = 2",
        "UPDATE delivery SET status = 'sending', settled_at = NULL WHERE send_id = $1 AND recipient_index = 2",
        "UPDATE delivery SET status = 'retrying' WHERE send_id = $1 AND recipient_index = 2",
        "UPDATE delivery SET status = 'parked' WHERE send_id = $1 AND recipient_index = 2",
        "UPDATE delivery SET settled_at = now() - interval '7 days' WHERE send_id = $1 AND recipient_index = 1",
        "UPDATE request SET cancelled_at = now() - interval '7 days' WHERE send_id = $1",
        "UPDATE plan SET planned_at = now() - interval '7 days' WHERE send_id = $1",
        "INSERT INTO timer (id, due_at, stream, message, app_id, send_id)
         SELECT gen_random_uuid(), now(), 'JOB', '', app_id, send_id FROM request WHERE send_id = $1",
        "INSERT INTO parked (id, app_id, send_id, stream, message, cause)
         SELECT gen_random_uuid(), app_id, send_id, 'SEND', '', 'x' FROM request WHERE send_id = $1",
    ] {
        let send = fixture.old_send(app, 40, 2).await;
        assert_eq!(fixture.removable(app).await, [send], "before: {change}");
        fixture.alter(send, change).await;
        assert!(fixture.removable(app).await.is_empty(), "{change}");
    }
}

#[tokio::test]
async fn a_delivery_that_is_attempted_again_stays() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let send = fixture.old_send(app, 40, 3).await;
    assert_eq!(fixture.removable(app).await, [send]);
    // A receipt arrives between the look and the removal.
    fixture
        .alter(send, "UPDATE delivery SET status = 'retrying' WHERE send_id = $1 AND recipient_index = 2")
        .await;
    fixture.remove_all(app, &[send], 100).await;
    assert_eq!(fixture.rows(app).await, [1, 1, 0, 1, 2, 1]);
}

#[tokio::test]
async fn one_look_covers_few_sends_if_they_are_large() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let sends = [
        fixture.old_send(app, 43, 30).await,
        fixture.old_send(app, 42, 30).await,
        fixture.old_send(app, 41, 30).await,
    ];
    let aged = Fixture::aged(fixture.clock().await);
    let look = async |after, recipients| {
        fixture.store.sends().removable_sends(app, aged, after, 100, recipients).await.unwrap()
    };
    assert_eq!(look(SendId(Uuid::nil()), 1).await, (vec![sends[0]], Some(sends[0])), "at least one");
    assert_eq!(look(SendId(Uuid::nil()), 31).await, (sends[..2].to_vec(), Some(sends[1])));
    assert_eq!(look(sends[1], 31).await, (vec![sends[2]], Some(sends[2])));
    assert_eq!(look(sends[2], 31).await, (vec![], None));
}

#[tokio::test]
async fn an_erasure_removes_the_suppressions_of_deliveries_that_are_too_old() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let send = fixture.old_send(app, 40, 2).await;
    let ada = fixture.user(app, "ada").await;
    assert_eq!(ada, UserNumber(1), "the number of the send's first recipient");
    fixture
        .alter(
            send,
            "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
             SELECT app_id, channel, target, id, '550' FROM delivery WHERE send_id = $1",
        )
        .await;
    fixture.remove_all(app, &[send], 100).await;
    let users = "SELECT user_number FROM suppression ORDER BY user_number";
    let users: Vec<Option<i64>> = sqlx::query_scalar(users).fetch_all(&fixture.pool).await.unwrap();
    assert_eq!(users, [Some(1), Some(2)]);
    fixture.erase(app, "ada", NOW).await;
    fixture.pass().await;
    assert_eq!(fixture.count("SELECT sum(user_number)::bigint FROM suppression").await, 2);
}

#[tokio::test]
async fn a_large_send_is_removed_in_steps_and_its_request_last() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let sends = [fixture.old_send(app, 40, 2_500).await, fixture.old_send(app, 39, 20).await];
    let steps = fixture.remove_all(app, &sends, 1_000).await;
    let step = |sends, rows| RemovedRows { sends, deliveries: rows, recipients: rows };
    assert_eq!(steps, [step(0, 1_000), step(0, 1_000), step(2, 520)]);
    assert_eq!(fixture.rows(app).await, [0; TABLES.len()]);
}

#[tokio::test]
async fn a_locked_delivery_keeps_its_request_until_the_next_round() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let send = fixture.old_send(app, 40, 3).await;
    let mut other = fixture.pool.begin().await.unwrap();
    let lock = "SELECT FROM delivery WHERE recipient_index = 2 FOR UPDATE";
    sqlx::query(lock).execute(&mut *other).await.unwrap();
    fixture.remove_all(app, &[send], 100).await;
    assert_eq!(fixture.rows(app).await, [1, 1, 0, 1, 2, 1]);
    other.commit().await.unwrap();
    assert_eq!(fixture.removable(app).await, [send]);
    fixture.remove_all(app, &[send], 100).await;
    assert_eq!(fixture.rows(app).await, [0; TABLES.len()]);
}
