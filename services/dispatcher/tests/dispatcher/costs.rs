//! Costs of planning a send in the database and the log, as counts.

use domain::send::Recipient;
use domain::{Channel, Lane, StreamName};
use local_servers::Postgres;
use serde_json::json;
use testkit::eventually;

use crate::world::{PARTITIONS, SOON, World, person, send_to};

/// Planned sends, with one delivery each, that the tables already contain.
const OLD: i64 = 50_000;
const SENDS: usize = 1_000;
const COUNTED: i64 = 1_000;
/// Index entries of each row. Another index makes every send slower.
const INDEXES: [(&str, i64); 4] = [("delivery", 3), ("plan", 1), ("planned_recipient", 2), ("request", 1)];
/// Indexes in which the rows of most sends have no entry: of recipients who are not users, SMS, and sends that are not completely planned.
const PARTIAL: [&str; 3] = ["planned_recipient_unknown", "delivery_sms_target", "request_kept"];

/// Number of transactions that have stored plans.
const PLANS: &str = "SELECT count(DISTINCT xmin::text) FROM plan";

/// Activity of PostgreSQL on the tables of sends.
#[derive(Debug, sqlx::FromRow)]
struct Activity {
    /// Rows inserted into `request`, `plan`, `planned_recipient` and `delivery`.
    requests: i64,
    plans: i64,
    recipients: i64,
    deliveries: i64,
    /// Rows updated or deleted in any table.
    changed: i64,
    wal_bytes: f64,
}

impl World {
    async fn add_old_sends(&self) {
        let fillings = [
            "INSERT INTO request (app_id, send_id, accepted_at, lane, recipients)
             SELECT $1, gen_random_uuid(), now(), 'bulk', 1 FROM generate_series(1, $2)",
            "INSERT INTO plan (app_id, send_id, turn) SELECT app_id, send_id, 0 FROM request WHERE (app_id, $2) IS NOT NULL AND app_id = $1",
            "INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
             SELECT app_id, send_id, 0, 0, send_id::text, row_number() OVER (), true, '{}' FROM plan WHERE app_id = $1 LIMIT $2",
            "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, settled_at)
             SELECT app_id, gen_random_uuid(), send_id, 0, user_number, 'email', 'old@example.com', 'sent', now()
             FROM planned_recipient WHERE app_id = $1 LIMIT $2",
        ];
        // Autovacuum would add to the WAL.
        self.run(
            "ALTER TABLE request SET (autovacuum_enabled = false);
             ALTER TABLE plan SET (autovacuum_enabled = false);
             ALTER TABLE planned_recipient SET (autovacuum_enabled = false);
             ALTER TABLE delivery SET (autovacuum_enabled = false)",
        )
        .await;
        for filling in fillings {
            sqlx::query(filling).bind(self.app.0).bind(OLD).execute(&self.pool).await.unwrap();
        }
    }

    /// Sends to each of `SENDS` users, who have an email address. The first of these sends creates the users.
    async fn send_to_each_user(&self) {
        for number in 0..SENDS {
            let mut recipient = person(&format!("user-{number}"));
            let profile = json!({"email": format!("user-{number}@example.com")});
            recipient.profile = profile.as_object().cloned();
            self.accept(&send_to(vec![recipient])).await;
        }
    }

    /// Number of messages in the streams of inboxes, jobs and outcomes.
    async fn messages(&self) -> [u64; 3] {
        let stored = async |stream| self.context.log.state(stream).await.unwrap().last_seq;
        let mut inboxes = 0;
        for partition in 0..PARTITIONS {
            inboxes += stored(StreamName::Inbox(partition)).await;
        }
        let jobs = StreamName::Job(Channel::Email, Lane::Transactional);
        [inboxes, stored(jobs).await, stored(StreamName::Outcome).await]
    }

    /// Returns the activity once PostgreSQL has counted this number of rows in each table. It counts with a delay.
    async fn activity_with(&self, rows: i64) -> Activity {
        eventually(SOON, "PostgreSQL has counted everything", async || {
            let activity = self.activity().await;
            let Activity { requests, plans, recipients, deliveries, .. } = activity;
            let least = requests.min(plans).min(recipients).min(deliveries);
            (least >= rows).then_some(activity)
        })
        .await
    }

    /// Number of indexes of each table, except [`PARTIAL`].
    async fn indexes(&self) -> Vec<(String, i64)> {
        sqlx::query_as(
            "SELECT indrelid::regclass::text AS relation, count(*) FROM pg_index
             WHERE indrelid = ANY ($1::regclass[]) AND indexrelid <> ALL ($2::regclass[])
             GROUP BY indrelid ORDER BY relation",
        )
        .bind(INDEXES.map(|(table, _)| table))
        .bind(PARTIAL)
        .fetch_all(&self.pool)
        .await
        .unwrap()
    }

    async fn activity(&self) -> Activity {
        sqlx::query_as(
            "SELECT sum(n_tup_ins) FILTER (WHERE relname = 'request')::bigint AS requests,
               sum(n_tup_ins) FILTER (WHERE relname = 'plan')::bigint AS plans,
               sum(n_tup_ins) FILTER (WHERE relname = 'planned_recipient')::bigint AS recipients,
               sum(n_tup_ins) FILTER (WHERE relname = 'delivery')::bigint AS deliveries,
               sum(n_tup_upd + n_tup_del) FILTER (WHERE relname IN ('request', 'plan', 'planned_recipient', 'delivery'))::bigint
                 AS changed,
               (pg_current_wal_lsn() - '0/0')::float8 AS wal_bytes
             FROM pg_stat_user_tables",
        )
        .fetch_one(&self.pool)
        .await
        .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn planning_a_send_inserts_four_rows_and_writes_a_share_of_each_message() {
    // WAL is counted for all databases of a PostgreSQL.
    let files = tempfile::tempdir().unwrap();
    let postgres = Postgres::start_fast(&files.path().join("postgres")).await.unwrap();
    let world = World::on(&postgres).await;
    world.provider(Channel::Email).await;
    world.add_old_sends().await;
    // Another dispatcher creates the users.
    let other = world.another().await;
    other.serve("dispatcher", dispatcher::run);
    world.send_to_each_user().await;
    world.dispatched(Lane::Transactional, SENDS as u64).await;
    other.tasks.stop();
    tokio::time::timeout(SOON, other.tasks.finish()).await.unwrap().unwrap();
    // All of these wait when the dispatcher starts, so the sizes of its batches do not depend on the speed of the machine.
    world.send_to_each_user().await;
    let before = world.activity_with(OLD + COUNTED).await;
    let messages_before = world.messages().await;
    let plans_before = world.count(PLANS).await;
    world.serve();
    world.dispatched(Lane::Transactional, 2 * SENDS as u64).await;
    let after = world.activity_with(OLD + 2 * COUNTED).await;
    let messages = world.messages().await;

    let inserted = [
        after.requests - before.requests,
        after.plans - before.plans,
        after.recipients - before.recipients,
        after.deliveries - before.deliveries,
    ];
    assert_eq!(inserted, [COUNTED; 4], "rows of requests, plans, recipients and deliveries");
    assert_eq!(after.changed - before.changed, 0, "no row of a send is written twice");
    let transactions = world.count(PLANS).await - plans_before;
    assert!(transactions * 10 <= COUNTED, "{transactions} transactions for {COUNTED} sends");
    let wal = (after.wal_bytes - before.wal_bytes) / COUNTED as f64;
    println!("{wal} bytes of WAL");
    assert!(wal <= 1_900.0, "{wal} bytes of WAL for each send");
    for (stream, (now, then)) in
        ["inboxes", "jobs", "outcomes"].iter().zip(messages.iter().zip(messages_before))
    {
        let published = now - then;
        assert!(published * 4 <= SENDS as u64, "{published} messages to {stream} for {SENDS} sends");
    }
    assert_eq!(world.indexes().await, INDEXES.map(|(table, indexes)| (table.to_owned(), indexes)));
}

/// Requests to PostgreSQL of the transaction that plans a batch, from `BEGIN` to `COMMIT`.
const REQUESTS: usize = 10;
const PLANNED: &str = "INSERT INTO planned_recipient";

/// Returns the statements of the last transaction that planned recipients, from PostgreSQL's log.
fn last_planning(log: &str) -> Vec<String> {
    let mut messages = Vec::<(&str, String)>::new();
    for line in log.lines() {
        if let Some((head, text)) = line.split_once("] LOG:  ") {
            messages.push((head.rsplit('[').next().unwrap(), text.to_owned()));
        } else if let (Some((_, text)), Some(rest)) = (messages.last_mut(), line.strip_prefix('\t')) {
            // The next line of the statement.
            text.push_str(rest);
        }
    }
    let (process, _) = messages.iter().rfind(|(_, text)| text.contains(PLANNED)).unwrap();
    let of_process = messages.iter().filter(|(other, _)| other == process).map(|(_, text)| text.clone());
    let statements: Vec<String> =
        of_process.filter(|text| text.starts_with("statement: ") || text.starts_with("execute ")).collect();
    let planned = statements.iter().rposition(|text| text.contains(PLANNED)).unwrap();
    let begin = statements[..planned].iter().rposition(|text| text.starts_with("statement: BEGIN")).unwrap();
    let commit = statements[planned..].iter().position(|text| text.starts_with("statement: COMMIT")).unwrap();
    statements[begin..=planned + commit].to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_planned_with_ten_requests_to_postgresql() {
    let files = tempfile::tempdir().unwrap();
    let postgres = Postgres::start_fast(&files.path().join("postgres")).await.unwrap();
    let world = World::on(&postgres).await;
    world.provider(Channel::Email).await;
    // For the connections that are opened from now on.
    world
        .run(
            "DO $$ BEGIN
               EXECUTE format('ALTER DATABASE %I SET log_statement = %L', current_database(), 'all');
             END $$",
        )
        .await;
    let other = world.another().await;
    other.serve("dispatcher", dispatcher::run);
    let mut recipient = person("ada");
    recipient.profile = json!({"email": "ada@example.com"}).as_object().cloned();
    world.accept(&send_to(vec![recipient])).await;
    world.dispatched(Lane::Transactional, 1).await;
    // Without a profile, as in most sends.
    world.accept(&send_to(vec![Recipient::plain("ada".to_owned())])).await;
    world.dispatched(Lane::Transactional, 2).await;
    let statements = last_planning(&std::fs::read_to_string(postgres.log()).unwrap());
    assert_eq!(statements.len(), REQUESTS, "{statements:#?}");
}
