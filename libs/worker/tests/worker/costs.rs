//! Costs of a delivery in the database and the log, as counts that do not depend on the speed of the machine.

use std::time::Duration;

use domain::StreamName;
use domain::event::DeliveryJob;
use service_kit::append;
use testkit::eventually;

use crate::scripted::ScriptedChannel;
use crate::world::{JOBS, SEND, SOON, World};

/// Ended deliveries that are in the table before.
const OLD: i64 = 50_000;
const DELIVERIES: i64 = 2_000;

/// Activity of PostgreSQL since its statistics were reset.
#[derive(Debug, sqlx::FromRow)]
struct Activity {
    updated: i64,
    updated_in_page: i64,
    attempts: i64,
    /// Statements that update deliveries, such as the claim of a batch.
    statements: i64,
    wal_bytes: f64,
}

impl World {
    async fn fill(&self) {
        // Autovacuum would add to the WAL.
        self.run("ALTER TABLE delivery SET (autovacuum_enabled = false)").await;
        sqlx::query(
            "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, settled_at)
             SELECT $1, gen_random_uuid(), $2, number, number, 'email', 'old@example.com', 'sent', now()
             FROM generate_series(1, $3) AS number",
        )
        .bind(self.app.0)
        .bind(SEND.0)
        .bind(OLD)
        .execute(&self.pool)
        .await
        .unwrap();
    }

    async fn count_statements(&self) {
        self.run("CREATE SEQUENCE statements").await;
        self.run(
            "CREATE FUNCTION count_statement() RETURNS trigger LANGUAGE plpgsql
             AS $$ BEGIN PERFORM nextval('statements'); RETURN NULL; END $$",
        )
        .await;
        self.run("CREATE TRIGGER counted AFTER UPDATE ON delivery EXECUTE FUNCTION count_statement()").await;
    }

    async fn activity(&self) -> Activity {
        sqlx::query_as(
            "SELECT d.n_tup_upd AS updated, d.n_tup_hot_upd AS updated_in_page, a.n_tup_ins AS attempts,
               (SELECT last_value FROM statements) AS statements,
               (pg_current_wal_lsn() - '0/0')::float8 AS wal_bytes
             FROM pg_stat_user_tables d, pg_stat_user_tables a
             WHERE d.relname = 'delivery' AND a.relname = 'attempt'",
        )
        .fetch_one(&self.pool)
        .await
        .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_costs_two_row_versions_an_attempt_and_a_share_of_a_message() {
    let world = World::with(|config| config.delivery.ack_wait = Duration::from_secs(30)).await;
    world.fill().await;
    world.count_statements().await;
    let mut orders: Vec<DeliveryJob> = Vec::new();
    for number in 1..=DELIVERIES {
        orders.push(world.delivery(number).await);
    }
    for jobs in orders.chunks(append::MAX_JOBS) {
        world.order_together(jobs).await;
    }
    let before = world.activity().await;
    let messages = orders.chunks(append::MAX_JOBS).len() as u64;
    world.serve(&ScriptedChannel::new([]));
    world.acknowledged(messages).await;
    let after = eventually(SOON, "PostgreSQL has counted everything", async || {
        let activity = world.activity().await;
        let is_counted = activity.attempts - before.attempts >= DELIVERIES
            && activity.updated - before.updated >= 2 * DELIVERIES;
        is_counted.then_some(activity)
    })
    .await;

    assert_eq!(after.attempts - before.attempts, DELIVERIES);
    let updated = after.updated - before.updated;
    assert_eq!(updated, 2 * DELIVERIES, "one update claims a delivery, and one settles it");
    let in_page = after.updated_in_page - before.updated_in_page;
    assert!(in_page * 10 >= updated * 8, "only {in_page} of {updated} updates needed no index entry");
    let statements = after.statements - before.statements;
    println!("{statements} statements");
    assert!(statements * 4 <= DELIVERIES, "{statements} statements claim and settle {DELIVERIES} deliveries");
    let wal = (after.wal_bytes - before.wal_bytes) / DELIVERIES as f64;
    println!("{wal} bytes of WAL for each delivery");
    assert!(wal <= 700.0, "{wal} bytes of WAL for each delivery");
    let outcomes = world.context.log.state(StreamName::Outcome).await.unwrap().messages;
    assert!(outcomes * 4 <= DELIVERIES as u64, "{outcomes} messages report {DELIVERIES} outcomes");
    assert_eq!(world.published_events().await.len(), DELIVERIES as usize);
    let progress = world.context.log.consumer_progress(JOBS, "email").await.unwrap().unwrap();
    assert_eq!((progress.delivered, progress.redelivered), (messages, 0));
}
