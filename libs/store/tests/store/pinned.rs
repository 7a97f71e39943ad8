//! Cost of statements on rows that are updated all the time, while an open transaction keeps PostgreSQL from removing their older versions.
//! The test counts blocks, so it does not depend on the speed of the machine.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use domain::{AppId, ItemId, StreamName, UserNumber};
use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, PgConnection, Row};
use store::Store;
use store::inbox::projection::{INBOX, NewItem};
use store::webhooks::PruneFrom;
use uuid::Uuid;

use crate::{Fixture, NOW, fixture, send_id, source};

/// Each has two competing writers, and [`USERS`] users.
const STREAMS: u32 = 4;
const USERS: i64 = 2;
/// Events of each stream. Each makes one dead version of a checkpoint and one of a counter.
const EVENTS: u64 = 800;
/// Adds further versions without changing the rows, so that each table has 32,000. Replaces `{app}`.
const VERSIONS: &str = "
    DO $$ BEGIN
      FOR round IN 1..7200 LOOP
        UPDATE checkpoint c SET seq = c.seq FROM generate_series(0, 3) AS n CROSS JOIN LATERAL (
          SELECT w.ctid AS place FROM checkpoint w
          WHERE w.projection = 'inbox' AND w.stream BETWEEN 'INBOX_' || n AND 'INBOX_' || n ORDER BY w.stream DESC LIMIT 1
        ) AS newest WHERE c.ctid = newest.place;
        UPDATE inbox_counter c SET total = c.total FROM generate_series(0, 3) AS n CROSS JOIN LATERAL (
          SELECT w.ctid AS place FROM inbox_counter w
          WHERE w.app_id = {app} AND w.user_number BETWEEN 1 + n * 2 + round % 2 AND 1 + n * 2 + round % 2
          ORDER BY w.user_number DESC LIMIT 1
        ) AS newest WHERE c.ctid = newest.place;
        COMMIT;
      END LOOP;
    END $$";
/// Maximum number of blocks that a statement reads.
const BLOCKS: i64 = 24;
/// Number of times that each statement is run. A new version on another page checks the entries of all earlier pages, so the mean of an
/// update is higher than [`BLOCKS`].
const TIMES: i64 = 200;
const UPDATE_BLOCKS: i64 = 48;

/// File, part of the statement and arguments. `{app}` is the app's id, `{n}` the number of updates so far.
const HOT: [(&str, &str, &str); 12] = [
    ("database/checkpoint.rs", "SELECT seq FROM checkpoint", "'inbox', 'INBOX_0'"),
    ("database/checkpoint.rs", "IS DISTINCT FROM started_at", "'inbox', 'INBOX_0'"),
    ("database/checkpoint.rs", "UPDATE checkpoint SET seq", "'inbox', 'INBOX_0', 800 + {n}, 801 + {n}"),
    (
        "database/checkpoint.rs",
        "UPDATE checkpoint c",
        "'inbox', '{INBOX_0}', ARRAY[800 + {n}], ARRAY[801 + {n}]",
    ),
    ("inbox/projection/counter.rs", "UPDATE inbox_counter", "'{{app}}', '{1}', '{1}', '{1}', '{1}', '{0}'"),
    ("inbox/retention.rs", "FROM checkpoint", "'inbox', 'INBOX_0'"),
    ("inbox/retention.rs", "FROM inbox_counter\n", "{app}, 1, 10, 10"),
    ("inbox/list.rs", "FROM app_user u LEFT JOIN LATERAL", "{app}, 'alice'"),
    ("inbox/list.rs", "SELECT p.seq", "{app}, 1, 'inbox', 'INBOX_0'"),
    ("inbox/list.rs", "WITH RECURSIVE place", "'inbox'"),
    (
        "inbox/list/page.sql",
        "WITH place",
        "{app}, 1, NULL, NULL, NULL, NULL, false, false, '9999-01-01', 9223372036854775807, 0, 0",
    ),
    ("inbox/current.rs", "FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])", "'{{app}}', '{1}', '{1}'"),
];

fn item(app: AppId, stream: u32, event: u64) -> NewItem {
    let number = u64::from(stream) * EVENTS + event;
    NewItem {
        app,
        user: UserNumber(1 + i64::from(stream) * USERS + event.cast_signed() % USERS),
        id: ItemId(number.cast_signed()),
        send_id: send_id(number.into()),
        category: None,
        created_at: NOW,
        content: Arc::from("{}"),
        event_id: Uuid::from_u128(number.into()),
    }
}

/// Projects events, one per transaction, until the stream has [`EVENTS`]. Returns the number of its own.
async fn write(store: Store, app: AppId, number: u32) -> u64 {
    let stream = StreamName::Inbox(number);
    let mut own = 0;
    loop {
        let at = store.database().checkpoint(INBOX, stream).await.unwrap();
        if at == EVENTS {
            return own;
        }
        let Some(mut batch) = store.inbox().project(stream, at, at + 1).await.unwrap() else { continue };
        batch.add_new(&[item(app, number, at + 1)]).await.unwrap();
        batch.commit().await.unwrap();
        own += 1;
    }
}

impl Fixture {
    pub(crate) async fn session(&self) -> PgConnection {
        let options = PgConnectOptions::from_str(self.database.url()).unwrap().options(store::SESSION);
        options.connect().await.unwrap()
    }

    /// Opens a transaction that sees the database as it is now, like that of `pg_dump`.
    pub(crate) async fn pin(&self) -> PgConnection {
        let options = PgConnectOptions::from_str(self.database.url()).unwrap();
        let mut reader = options.connect().await.unwrap();
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM checkpoint").await.unwrap();
        reader
    }
}

/// Returns the mean number of blocks of a prepared statement, and the highest.
pub(crate) async fn blocks(session: &mut PgConnection, name: &str, arguments: &str) -> (i64, i64) {
    let (mut total, mut highest) = (0, 0);
    session.execute("BEGIN").await.unwrap();
    for n in 0..TIMES {
        let arguments = arguments.replace("{n}", &n.to_string());
        let explain =
            format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE {name}({arguments})");
        let explained = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut *session).await.unwrap();
        let plan = &explained.get::<Value, _>(0)[0]["Plan"];
        let count = |name: &str| plan[name].as_i64().unwrap();
        let read = count("Shared Hit Blocks") + count("Shared Read Blocks");
        total += read;
        highest = highest.max(read);
    }
    session.execute("ROLLBACK").await.unwrap();
    (total / TIMES, highest)
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_rows_cost_no_more_while_a_transaction_keeps_their_old_versions() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    sqlx::query("INSERT INTO app_user (app_id, number, identifier, profile) OVERRIDING SYSTEM VALUE VALUES ($1, 1, 'alice', '{}')")
        .bind(app.0)
        .execute(&fixture.pool)
        .await
        .unwrap();
    let mut reader = fixture.pin().await;

    let writers: Vec<_> = (0..STREAMS)
        .flat_map(|number| [number, number])
        .map(|number| tokio::spawn(write(fixture.store.clone(), app, number)))
        .collect();
    let mut written = 0;
    for writer in writers {
        written += writer.await.unwrap();
    }
    assert_eq!(written, u64::from(STREAMS) * EVENTS, "each event is projected once");
    assert_eq!(fixture.count("SELECT sum(total)::bigint FROM inbox_counter").await, written.cast_signed());
    let positions = fixture.store.inbox().positions().await.unwrap();
    assert_eq!(positions.len(), 4);
    assert!(positions.iter().all(|(_, position)| *position == EVENTS), "{positions:?}");

    let mut session = fixture.session().await;
    session.execute(AssertSqlSafe(VERSIONS.replace("{app}", &app.0.to_string()))).await.unwrap();
    let lookup =
        "PREPARE lookup (text) AS SELECT seq FROM checkpoint WHERE projection = $1 AND stream = 'INBOX_0'";
    session.execute(lookup).await.unwrap();
    let (_, of_all_versions) = blocks(&mut session, "lookup", "'inbox'").await;
    assert!(of_all_versions > BLOCKS, "a plain lookup reads only {of_all_versions} blocks");
    let mut found = cost(&mut session, app, "without statistics").await;
    session.execute("VACUUM ANALYZE").await.unwrap();
    session.execute("DEALLOCATE ALL").await.unwrap();
    found.extend(cost(&mut session, app, "with statistics").await);
    assert!(found.is_empty(), "{}", found.join("\n"));
    reader.execute("COMMIT").await.unwrap();
}

/// Runs all statements with generic and with custom plans. Returns those that read too much.
async fn cost(session: &mut PgConnection, app: AppId, state: &str) -> Vec<String> {
    let statements = source::statements();
    let mut found = Vec::new();
    for (number, (file, part, arguments)) in HOT.iter().enumerate() {
        let mut named =
            statements.iter().filter(|statement| statement.file == *file && statement.sql.contains(part));
        let (statement, None) = (named.next().unwrap(), named.next()) else {
            panic!("{file}: {part} is ambiguous")
        };
        let prepare = format!("PREPARE s{number} AS {}", statement.sql);
        session.execute(AssertSqlSafe(prepare)).await.unwrap();
        let arguments = arguments.replace("{app}", &app.0.to_string());
        for mode in ["force_generic_plan", "force_custom_plan"] {
            let set = format!("SET plan_cache_mode = {mode}");
            session.execute(AssertSqlSafe(set)).await.unwrap();
            let (mean, highest) = blocks(session, &format!("s{number}"), &arguments).await;
            let line = format!("{state}, {mode}: {file}: {part:?}: {mean} blocks, at most {highest}");
            println!("{line}");
            let is_update = part.starts_with("UPDATE");
            let is_too_much = if is_update { mean > UPDATE_BLOCKS } else { highest > BLOCKS };
            found.extend(is_too_much.then_some(line));
        }
    }
    found
}

#[tokio::test]
async fn a_round_over_recent_timers_does_not_read_those_that_were_removed() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut reader = fixture.pin().await;
    sqlx::query(
        "INSERT INTO timer (id, due_at, stream, message, app_id)
         SELECT gen_random_uuid(), now() - interval '2 minutes', 'JOB_email_bulk', '', $1 FROM generate_series(1, 10000)",
    )
    .bind(app.0)
    .execute(&fixture.pool)
    .await
    .unwrap();
    let mut fired = 0;
    while fired < 10_000 {
        let due = fixture.store.deliveries().due_timers(500).await.unwrap();
        let ids: Vec<Uuid> = due.timers.iter().map(|timer| timer.id).collect();
        assert!(!ids.is_empty(), "{fired}");
        fired += ids.len();
        due.done(&ids).await.unwrap();
    }
    let mut session = fixture.session().await;
    session.execute("ANALYZE timer").await.unwrap();
    let statements = source::statements();
    let named = statements.iter().find(|statement| {
        statement.file == "deliveries/timer.rs" && statement.sql.contains("FOR UPDATE SKIP LOCKED")
    });
    session.execute(AssertSqlSafe(format!("PREPARE due AS {}", named.unwrap().sql))).await.unwrap();
    let (_, of_all) = blocks(&mut session, "due", "500, 8388608, '{}', 3153600000").await;
    assert!(of_all > BLOCKS, "a round over all timers reads only {of_all} blocks");
    let (_, of_recent) = blocks(&mut session, "due", "500, 8388608, '{}', 60").await;
    assert!(of_recent <= BLOCKS, "{of_recent} blocks");
    reader.execute("COMMIT").await.unwrap();
}

/// The removal of [`REMOVED`] rows at a time.
const REMOVED: u32 = 500;

#[tokio::test]
async fn removal_does_not_read_again_what_was_removed_while_a_transaction_is_open() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    let (app, rows) = (app.0, 20 * REMOVED);
    fixture
        .set_up(&format!(
            "INSERT INTO idempotency_key (app_id, key, send_id, body_hash, lane, created_at)
             SELECT {app}, n, gen_random_uuid(), '', 'bulk', now() - interval '2 days' + n * interval '1 ms'
             FROM generate_series(1, {rows}) n;
             INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body, status, settled_at)
             SELECT {app}, {endpoint}, gen_random_uuid(), gen_random_uuid(), 'delivery.sent', '{{}}', 'delivered',
               now() - interval '2 days' + n * interval '1 ms' FROM generate_series(1, {rows}) n;
             ANALYZE"
        ))
        .await;
    let mut reader = fixture.pin().await;
    let (mut from, mut pruned) = (None, PruneFrom::default());
    let day = Duration::from_secs(86_400);
    while fixture.store.sends().forget_free_keys(REMOVED, &mut from).await.unwrap() > 0 {}
    while fixture.store.webhooks().prune_webhooks(day, day, &mut pruned).await.unwrap() > 0 {}
    assert_eq!(fixture.count("SELECT count(*) FROM idempotency_key").await, 0);
    assert_eq!(fixture.count("SELECT count(*) FROM webhook_message").await, 0);
    let mut session = fixture.session().await;
    let statements = source::statements();
    for (number, (file, part, arguments)) in [
        ("sends/idempotency.rs", "WITH old AS", "5000, {from}"),
        ("webhooks/message.rs", "status <> 'failed' AND settled_at >=", "86400, 1000, {from}"),
    ]
    .into_iter()
    .enumerate()
    {
        let named = statements.iter().find(|named| named.file == file && named.sql.contains(part));
        let prepare = format!("PREPARE r{number} AS {}", named.unwrap().sql);
        session.execute(AssertSqlSafe(prepare)).await.unwrap();
        let name = format!("r{number}");
        let (_, of_all) = blocks(&mut session, &name, &arguments.replace("{from}", "NULL")).await;
        assert!(of_all > BLOCKS, "{file}: {of_all} blocks from the beginning");
        let last = format!("now() - interval '2 days' + {rows} * interval '1 ms'");
        let (_, from_last) = blocks(&mut session, &name, &arguments.replace("{from}", &last)).await;
        assert!(from_last <= BLOCKS, "{file}: {from_last} blocks");
    }
    reader.execute("COMMIT").await.unwrap();
}
