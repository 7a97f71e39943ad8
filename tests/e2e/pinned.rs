//! A running Tidings while a transaction stays open, as `pg_dump` or a report keeps one open. The short form of `cargo xtask bench pinned`:
//! many row versions are made beforehand, and the test counts blocks, so it does not depend on the speed of the machine.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};
use stand_ins::webhook::WebhookReceiver;
use testkit::eventually;

use crate::directory::Directory;
use crate::running::RunningProcess;

const SOON: Duration = Duration::from_secs(60);
const PEOPLE: [&str; 4] = ["ada", "bob", "eve", "joe"];
/// Sends of each measurement, made one after the other.
const SENDS: usize = 150;
/// Blocks that a send may read for each block that it reads without an open transaction.
const TIMES: i64 = 3;

/// Makes versions of the rows that change with each send, and of rows that are added and removed. `{app}` and `{endpoint}` are the app
/// and its endpoint. The messages are claimed and settled as by a process, and nothing calls the endpoint for them.
const VERSIONS: &str = "
    DO $$ BEGIN
      FOR round IN 1..60 LOOP
        INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body, next_at)
        SELECT {app}, {endpoint}, gen_random_uuid(), gen_random_uuid(), 'delivery.sent', '{}', now() - interval '5 min'
        FROM generate_series(1, 100);
        UPDATE webhook_message SET token = gen_random_uuid(), next_at = now() + interval '60 s'
        WHERE head AND app_id = {app} AND endpoint_id = {endpoint} AND next_at < now() - interval '4 min';
        UPDATE webhook_message SET token = NULL, status = 'delivered', settled_at = now() WHERE token IS NOT NULL AND body = '{}';
        INSERT INTO timer (id, due_at, stream, message, app_id)
        SELECT gen_random_uuid(), now() - interval '5 min', 'JOB_email_bulk', '', {app} FROM generate_series(1, 100);
        DELETE FROM timer WHERE message = '';
        COMMIT;
      END LOOP;
      FOR round IN 1..2000 LOOP
        UPDATE inbox_counter c SET total = total FROM app_user u CROSS JOIN LATERAL (
          SELECT w.ctid AS place FROM inbox_counter w
          WHERE w.app_id = u.app_id AND w.user_number BETWEEN u.number AND u.number ORDER BY w.user_number DESC LIMIT 1
        ) AS newest WHERE c.ctid = newest.place;
        UPDATE checkpoint c SET seq = c.seq FROM unnest('{inbox, webhooks}'::text[]) AS p (name) CROSS JOIN LATERAL (
          SELECT w.ctid AS place FROM checkpoint w
          WHERE w.projection = p.name AND w.stream BETWEEN 'INBOX_0' AND 'INBOX_0' ORDER BY w.stream DESC LIMIT 1
        ) AS newest WHERE c.ctid = newest.place;
        COMMIT;
      END LOOP;
    END $$";

struct Bench {
    running: RunningProcess,
    backend: WebhookReceiver,
    session: PgConnection,
    sent: usize,
}

impl Bench {
    /// Makes sends, and waits until each is in the inbox, at the mail server and at the endpoint. Returns the number of blocks that
    /// PostgreSQL read for each of them, in which the work of services that do nothing is included.
    async fn blocks_of_a_send(&mut self) -> i64 {
        let before = self.blocks().await;
        for number in 0..SENDS {
            let person = PEOPLE[number % PEOPLE.len()];
            let send = json!({
                "notification": {"title": "News", "message": "Hello"},
                "sendTo": {"recipients": [{"identifier": person, "email": format!("{person}@example.com")}]},
                "override": {"channels": ["inApp", "email"]},
            });
            let request = self.running.request(Method::POST, "/notifications");
            let key = format!("{}", self.sent);
            let answer = request.header("Idempotency-Key", key).json(&send).send().await.unwrap();
            assert_eq!(answer.status(), 202);
            self.sent += 1;
        }
        let sent = self.sent;
        eventually(SOON, "each email was reported to the endpoint", async || {
            (self.backend.received().len() == sent).then_some(())
        })
        .await;
        eventually(SOON, "each send is in the inbox", async || {
            let items = "SELECT count(*) FROM inbox_item";
            let items: i64 = sqlx::query_scalar(items).fetch_one(&mut self.session).await.unwrap();
            (items == i64::try_from(sent).unwrap()).then_some(())
        })
        .await;
        (self.blocks().await - before) / i64::try_from(SENDS).unwrap()
    }

    /// Blocks that PostgreSQL has read for all sessions. A session reports them once a second, or when it is idle.
    async fn blocks(&mut self) -> i64 {
        let blocks = "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()";
        sqlx::query_scalar(blocks).fetch_one(&mut self.session).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_costs_no_more_while_an_open_transaction_keeps_many_versions() {
    let directory = Directory::new();
    let data = directory.path().join("data");
    let local = [("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true")];
    let running = RunningProcess::start_with(&data, &local).await;
    let backend = WebhookReceiver::start().await.unwrap();
    let set = ["webhook", "set", "demo", &backend.url("/hook"), "--json", "--data-dir", "data"];
    let set = directory.run(&set).json();
    backend.trust(&[set["secret"].as_str().unwrap()]);
    let url = running.dev("databaseUrl").to_owned();
    let session = PgConnection::connect(&url).await.unwrap();
    let mut bench = Bench { running, backend, session, sent: 0 };
    bench.blocks_of_a_send().await;
    let before = bench.blocks_of_a_send().await;

    let mut reader = PgConnection::connect(&url).await.unwrap();
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM checkpoint").await.unwrap();
    let ids: (i64, i64) = sqlx::query_as("SELECT app_id, id FROM webhook_endpoint")
        .fetch_one(&mut bench.session)
        .await
        .unwrap();
    let versions = VERSIONS.replace("{app}", &ids.0.to_string()).replace("{endpoint}", &ids.1.to_string());
    sqlx::raw_sql(sqlx::AssertSqlSafe(versions)).execute(&mut bench.session).await.unwrap();
    bench.blocks_of_a_send().await;
    let during = bench.blocks_of_a_send().await;
    reader.execute("COMMIT").await.unwrap();
    bench.session.execute("VACUUM").await.unwrap();
    let after = bench.blocks_of_a_send().await;
    println!("{before} blocks a send before, {during} with the versions, {after} after the transaction");
    assert!(during <= before * TIMES, "{during} blocks a send instead of {before}");
    assert!(after <= before * TIMES, "{after} blocks a send after the transaction instead of {before}");
    let left = "SELECT count(*) FROM webhook_message WHERE status = 'pending'";
    eventually(SOON, "nothing is left to do", async || {
        let left: i64 = sqlx::query_scalar(left).fetch_one(&mut bench.session).await.unwrap();
        (left == 0).then_some(())
    })
    .await;
    assert_eq!(bench.running.stop().await, 0, "{}", bench.running.log());
}
