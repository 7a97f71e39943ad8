//! Webhook endpoints: their rows in the audit log, and the cost of claiming messages.

use std::ops::RangeInclusive;
use std::time::Duration;

use domain::webhook::WebhookEvent;
use domain::{Actor, AppId};
use sqlx::PgPool;
use store::webhooks::{AttemptResult, Depths, DueMessage, Pace, Settlement};
use store::{Settings, Store};
use testkit::{Database, eventually};

use crate::{Fixture, fixture};

pub(super) const PACE: Pace = Pace {
    lease: Duration::from_secs(60),
    per_endpoint: 8,
    per_app: 16,
    failures: 3,
    pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(60),
    per_slot: 16,
};

#[tokio::test]
async fn the_audit_log_names_an_endpoint_without_its_tokens() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let urls = [
        "https://ada:canary@hooks.example.com:8443/canary?token=canary#canary",
        "https://a.example.com?canary",
    ];
    let mut ids = Vec::new();
    for url in urls {
        let draft =
            fixture.store.webhooks().put_endpoint(app, url, WebhookEvent::ALL).await.unwrap().unwrap();
        ids.push(draft.id());
        draft.commit(Some(b"sealed"), &Actor::System).await.unwrap();
    }
    let hour = Duration::from_secs(3600);
    assert!(
        fixture
            .store
            .webhooks()
            .rotate_webhook_secret(app, ids[0], b"new", (hour, None), &Actor::System)
            .await
            .unwrap()
    );
    assert!(fixture.store.webhooks().remove_endpoint(app, ids[0], &Actor::System).await.unwrap());
    let audit = "SELECT action, subject FROM audit WHERE action LIKE 'webhook.%' ORDER BY id";
    let rows: Vec<(String, String)> = sqlx::query_as(audit).fetch_all(&fixture.pool).await.unwrap();
    let first = format!("{} https://hooks.example.com:8443", ids[0]);
    let expected = [
        ("webhook.set", first.clone()),
        ("webhook.set", format!("{} https://a.example.com", ids[1])),
        ("webhook.secret.rotate", first.clone()),
        ("webhook.remove", first),
    ];
    assert_eq!(rows, expected.map(|(action, subject)| (action.to_owned(), subject)));
}

/// Returns the number of scans of the tables `webhook_message` and `webhook_wake`, and the number of rows and index entries
/// that they read. PostgreSQL may count a session's reads only after the session has ended.
async fn reads(pool: &PgPool) -> (i64, i64) {
    let read =
        "SELECT (SELECT sum(seq_scan + idx_scan)::bigint FROM pg_stat_user_tables WHERE relname = ANY($1)),
        (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname = ANY($1))
        + (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = ANY($1))";
    sqlx::query_as(read).bind(["webhook_message", "webhook_wake"]).fetch_one(pool).await.unwrap()
}

impl Fixture {
    pub(crate) async fn endpoint(&self, app: AppId) -> i64 {
        let url = "https://hooks.example.com";
        let draft = self.store.webhooks().put_endpoint(app, url, WebhookEvent::ALL).await.unwrap().unwrap();
        let id = draft.id();
        draft.commit(Some(b"sealed"), &Actor::System).await.unwrap();
        id
    }

    /// Adds messages whose ids are the given numbers. Message n has the subject n modulo `subjects`.
    pub(super) async fn messages(
        &self,
        app: AppId,
        endpoint: i64,
        numbers: RangeInclusive<i64>,
        subjects: i64,
    ) {
        let (app, first, last) = (app.0, numbers.start(), numbers.end());
        self.set_up(&format!(
            "INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body)
             SELECT {app}, {endpoint}, lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(n % {subjects}), 32, '0')::uuid,
               'delivery.sent', '{{}}'
             FROM generate_series({first}, {last}) AS n"
        ))
        .await;
    }

    /// Runs statements. When this function returns, PostgreSQL's statistics contain the reads of the statements.
    pub(crate) async fn set_up(&self, statements: &str) {
        let mut connection = self.pool.acquire().await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(statements.to_owned())).execute(&mut *connection).await.unwrap();
        sqlx::raw_sql("SELECT pg_stat_force_next_flush()").execute(&mut *connection).await.unwrap();
    }

    pub(super) async fn take(&self, slots: u32, depths: &Depths) -> Vec<Vec<DueMessage>> {
        self.store.webhooks().take_webhooks(slots, PACE, depths).await.unwrap()
    }

    /// Settles messages, none of which is locked.
    pub(super) async fn end(&self, messages: &[DueMessage], settled: AttemptResult) {
        let settlements: Vec<_> =
            messages.iter().map(|due| Settlement { due, settled, answer: "200" }).collect();
        assert!(self.store.webhooks().settle_webhooks(&settlements, PACE).await.unwrap().is_empty());
    }

    /// Returns the ids of the heads, in order.
    async fn heads(&self) -> Vec<i64> {
        let heads = "SELECT ('x' || right(id::text, 8))::bit(32)::bigint FROM webhook_message WHERE head ORDER BY number";
        sqlx::query_scalar(heads).fetch_all(&self.pool).await.unwrap()
    }
}

#[tokio::test]
async fn the_cost_of_claiming_and_settling_does_not_depend_on_backlog_or_statistics() {
    const WAITING: [i64; 3] = [0, 10_000, 200_000];
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    let mut added = 0;
    for waiting in WAITING {
        if added < waiting {
            fixture.messages(app, endpoint, added + 1..=waiting, 80_000).await;
            added = waiting;
        }
        for (statistics, plans) in [
            ("SELECT", "force_custom_plan"),
            ("SELECT", "force_generic_plan"),
            ("ANALYZE", "force_custom_plan"),
            ("SELECT", "force_generic_plan"),
        ] {
            fixture.set_up(statistics).await;
            let wake = format!("DELETE FROM webhook_wake; INSERT INTO webhook_wake SELECT {}, now()", app.0);
            fixture.set_up(&wake).await;
            let (scans, before) = reads(&fixture.pool).await;
            let store = fixture.another(&format!("&options[plan_cache_mode]={plans}")).await;
            let taken = store.webhooks().take_webhooks(100, PACE, &Depths::new()).await.unwrap().concat();
            assert_eq!(taken.len(), if waiting == 0 { 0 } else { 8 });
            let settlements: Vec<_> = taken
                .iter()
                .map(|due| Settlement { due, settled: AttemptResult::Accepted, answer: "200" })
                .collect();
            assert!(store.webhooks().settle_webhooks(&settlements, PACE).await.unwrap().is_empty());
            // PostgreSQL may count a session's reads only after the session has ended.
            store.close().await;
            let after = eventually(Duration::from_secs(60), "the reads are counted", async || {
                let (now, read) = reads(&fixture.pool).await;
                (now > scans).then_some(read)
            })
            .await;
            let read = after - before;
            assert!(
                read < 400,
                "{read} rows were read to claim {} of {waiting} messages ({plans}, {statistics})",
                taken.len()
            );
        }
    }
}

/// A backlog written by a release that did not have heads: two subjects, one of which has a delivered message, in an app with
/// due messages.
const BACKLOG: &str = "
    INSERT INTO app (name, api_key) VALUES ('shop', 'shop');
    INSERT INTO webhook_endpoint (app_id, url, events) VALUES (1, 'https://hooks.example.com', '{delivery.sent}');
    INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body)
    SELECT 1, 1, lpad(n::text, 32, '0')::uuid, lpad((n % 2)::text, 32, '0')::uuid, 'delivery.sent', '{}'
    FROM generate_series(1, 6) AS n;
    UPDATE webhook_message SET status = 'delivered', settled_at = now() WHERE number = 1";

#[tokio::test]
async fn webhooks_pending_before_an_upgrade_are_delivered_after_it() {
    let database = Database::create().await;
    let pool = PgPool::connect(database.url()).await.unwrap();
    let mut before = sqlx::migrate!();
    before.migrations.to_mut().retain(|migration| migration.version < 26);
    before.run(&pool).await.unwrap();
    sqlx::raw_sql(BACKLOG).execute(&pool).await.unwrap();
    let settings = Settings { url: database.url().to_owned(), max_connections: 2 };
    let store = Store::connect(&settings).await.unwrap();
    store.migrate().await.unwrap();
    let mut delivered = Vec::new();
    while delivered.len() < 5 {
        let taken = store.webhooks().take_webhooks(10, PACE, &Depths::new()).await.unwrap().concat();
        assert!(!taken.is_empty(), "no message is due after {delivered:?}");
        let settlements: Vec<_> = taken
            .iter()
            .map(|due| Settlement { due, settled: AttemptResult::Accepted, answer: "200" })
            .collect();
        assert!(store.webhooks().settle_webhooks(&settlements, PACE).await.unwrap().is_empty());
        delivered.extend(taken.iter().map(|due| due.id.as_u128()));
    }
    assert_eq!(delivered[..2], [2, 3], "the heads of both subjects come first");
    assert!(store.webhooks().take_webhooks(10, PACE, &Depths::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_subject_always_has_one_head() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    fixture.messages(app, endpoint, 1..=8, 2).await;
    assert_eq!(fixture.heads().await, [1, 2], "the earliest message of each subject is its head");
    // The next statements simulate a process of the previous release, an erasure, and messages that an operator redelivers.
    fixture
        .set_up("UPDATE webhook_message SET status = 'delivered', settled_at = now() WHERE number = 1")
        .await;
    assert_eq!(fixture.heads().await, [2, 3]);
    fixture.set_up("DELETE FROM webhook_message WHERE number IN (2, 3, 4)").await;
    assert_eq!(fixture.heads().await, [5, 6]);
    fixture
        .set_up("UPDATE webhook_message SET status = 'failed', settled_at = now() WHERE number IN (5, 6)")
        .await;
    assert_eq!(fixture.heads().await, [7, 8]);
    fixture.set_up("UPDATE webhook_message SET token = gen_random_uuid() WHERE number = 8").await;
    assert_eq!(
        fixture.store.webhooks().redeliver_webhooks(app, None, None, &Actor::System).await.unwrap(),
        2
    );
    assert_eq!(fixture.heads().await, [5, 8], "a claimed message stays the head until it is settled");
    fixture.set_up("UPDATE webhook_message SET token = NULL WHERE number = 8").await;
    assert_eq!(fixture.heads().await, [5, 6]);
    fixture.set_up("UPDATE webhook_message SET status = 'delivered', settled_at = now()").await;
    assert_eq!(fixture.heads().await, [0_i64; 0]);
}

#[tokio::test]
async fn a_message_added_while_the_previous_one_is_settled_becomes_the_head() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    fixture.messages(app, endpoint, 1..=1, 1).await;
    let taken = fixture.take(1, &Depths::new()).await.concat();
    let settlement = [Settlement { due: &taken[0], settled: AttemptResult::Accepted, answer: "200" }];
    // If the message is added first, the settlement must be repeated.
    let mut adding = fixture.pool.begin().await.unwrap();
    let add = "INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body)
        SELECT app_id, endpoint_id, gen_random_uuid(), subject, event, body FROM webhook_message LIMIT 1";
    sqlx::raw_sql(add).execute(&mut *adding).await.unwrap();
    assert_eq!(fixture.store.webhooks().settle_webhooks(&settlement, PACE).await.unwrap(), [0]);
    adding.commit().await.unwrap();
    assert!(fixture.store.webhooks().settle_webhooks(&settlement, PACE).await.unwrap().is_empty());
    assert_eq!(fixture.count("SELECT count(*) FROM webhook_message WHERE head").await, 1);
    // If the settlement runs first, the insert waits for it.
    let mut settling = fixture.pool.begin().await.unwrap();
    let settle = "UPDATE webhook_message SET status = 'delivered', settled_at = now() WHERE head";
    sqlx::raw_sql(settle).execute(&mut *settling).await.unwrap();
    let pool = fixture.pool.clone();
    let adding = tokio::spawn(async move { sqlx::raw_sql(add).execute(&pool).await });
    fixture.somebody_waits().await;
    settling.commit().await.unwrap();
    adding.await.unwrap().unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM webhook_message WHERE head").await, 1);
}

#[tokio::test]
async fn apps_without_due_messages_are_not_read() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.endpoint(app).await;
    fixture
        .set_up(
            "INSERT INTO app (name, api_key) SELECT 'app-' || n, 'app-' || n FROM generate_series(1, 10000) AS n;
             INSERT INTO webhook_endpoint (app_id, url, events, paused_until)
             SELECT id, 'https://example.com', '{}', now() + interval '1 hour' FROM app WHERE name LIKE 'app-%';
             INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body, next_at)
             SELECT app_id, id, gen_random_uuid(), gen_random_uuid(), 'delivery.sent', '{}', now() + interval '1 hour'
             FROM webhook_endpoint",
        )
        .await;
    let (scans, before) = reads(&fixture.pool).await;
    let store = fixture.another("").await;
    assert!(store.webhooks().take_webhooks(100, PACE, &Depths::new()).await.unwrap().is_empty());
    assert!(store.webhooks().take_webhooks(100, PACE, &Depths::new()).await.unwrap().is_empty());
    store.close().await;
    let after = eventually(Duration::from_secs(60), "the reads are counted", async || {
        let (now, read) = reads(&fixture.pool).await;
        (now > scans).then_some(read)
    })
    .await;
    assert!(after - before < 100, "{} rows were read although no message was due", after - before);
}
