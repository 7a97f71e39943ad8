//! Shadow tables of the inbox, and the switch to these tables.

use std::time::Duration;

use domain::content::InAppContent;
use domain::event::ItemsAdded;
use domain::{AppId, Envelope, Event, UserNumber};
use sqlx::AssertSqlSafe;
use store::recovery::shadow::{Purpose, Shadow, SwitchResult};
use store::{Error, Settings};
use testkit::{INBOX_TABLES, eventually};
use uuid::Uuid;

use crate::erasure::user::LATER;
use crate::{Fixture, NOW, fixture};

const SOON: Duration = Duration::from_secs(60);

impl Fixture {
    async fn shadow(&self, purpose: Purpose) -> Shadow {
        let settings = Settings { url: self.database.url().to_owned(), max_connections: 2 };
        Shadow::take(&settings, purpose).await.unwrap().unwrap()
    }

    async fn execute(&self, statement: &str) {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&self.pool).await.unwrap();
    }
}

async fn switched(shadow: &mut Shadow) -> Result<SwitchResult, Error> {
    shadow.hold(&["INBOX_0".to_owned(), "INBOX_1".to_owned()]).await.unwrap().commit().await
}

#[tokio::test]
async fn a_switch_is_abandoned_if_a_table_is_locked_and_can_be_retried() {
    let fixture = fixture().await;
    let mut shadow = fixture.shadow(Purpose::Replacement).await;
    shadow.create().await.unwrap();
    // Locks of other sessions, in this order: a reader of a live table (such as a dump), a vacuum of a live table, a vacuum
    // of a new table, and a reader of a new table.
    for lock in [
        "LOCK TABLE inbox_counter IN ACCESS SHARE MODE",
        "LOCK TABLE inbox_item IN SHARE UPDATE EXCLUSIVE MODE",
        "LOCK TABLE inbox_rebuild.inbox_item IN SHARE UPDATE EXCLUSIVE MODE",
        "LOCK TABLE inbox_rebuild.dead_event IN ACCESS SHARE MODE",
    ] {
        let mut other = fixture.pool.begin().await.unwrap();
        sqlx::raw_sql(lock).execute(&mut *other).await.unwrap();
        assert_eq!(switched(&mut shadow).await.unwrap(), SwitchResult::Hindered, "{lock}");
        other.rollback().await.unwrap();
    }
    assert_eq!(switched(&mut shadow).await.unwrap(), SwitchResult::Yes);
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname = 'inbox_rebuild'";
    assert_eq!(fixture.count(left).await, 0);
}

#[tokio::test]
async fn readers_do_not_wait_while_a_switch_waits_for_a_vacuum() {
    let fixture = fixture().await;
    let mut shadow = fixture.shadow(Purpose::Replacement).await;
    shadow.create().await.unwrap();
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    for vacuumed in ["inbox_item", "inbox_rebuild.inbox_item"] {
        let mut vacuum = fixture.pool.begin().await.unwrap();
        let lock = format!("LOCK TABLE {vacuumed} IN SHARE UPDATE EXCLUSIVE MODE");
        sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *vacuum).await.unwrap();
        let read = async {
            eventually(SOON, "the switch waits", async || (fixture.count(waiting).await == 1).then_some(()))
                .await;
            fixture
                .execute(
                    "SET LOCAL lock_timeout = '500ms'; SELECT FROM inbox_item; SELECT FROM inbox_counter",
                )
                .await;
        };
        let (result, ()) = tokio::join!(switched(&mut shadow), read);
        assert_eq!(result.unwrap(), SwitchResult::Hindered, "{vacuumed}");
        vacuum.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn new_tables_have_the_indexes_constraints_and_rights_of_the_live_ones() {
    let fixture = fixture().await;
    fixture
        .execute(
            "CREATE INDEX added ON inbox_item (event_id) WHERE deleted_at IS NULL;
             ALTER TABLE inbox_item ADD COLUMN more bigint NOT NULL DEFAULT 7, ADD CHECK (id > 0);
             ALTER TABLE inbox_counter SET (fillfactor = 60);
             GRANT SELECT ON inbox_item TO PUBLIC;
             GRANT SELECT, UPDATE, DELETE ON inbox_counter TO pg_monitor WITH GRANT OPTION",
        )
        .await;
    let shape =
        async || -> String { sqlx::query_scalar(INBOX_TABLES).fetch_one(&fixture.pool).await.unwrap() };
    let table = "SELECT 'inbox_item'::regclass::oid::bigint";
    let (live, before) = (fixture.count(table).await, shape().await);
    let mut shadow = fixture.shadow(Purpose::Replacement).await;
    shadow.create().await.unwrap();
    assert_eq!(switched(&mut shadow).await.unwrap(), SwitchResult::Yes);
    assert_ne!(fixture.count(table).await, live);
    assert_eq!(shape().await, before);
}

#[tokio::test]
async fn a_migration_during_a_rebuild_prevents_the_switch() {
    let fixture = fixture().await;
    let mut shadow = fixture.shadow(Purpose::Replacement).await;
    shadow.create().await.unwrap();
    fixture
        .execute(
            "INSERT INTO _sqlx_migrations SELECT version + 1, description, now(), success, checksum, 0
                  FROM _sqlx_migrations ORDER BY version DESC LIMIT 1",
        )
        .await;
    assert!(matches!(switched(&mut shadow).await, Err(Error::SchemaChanged)));
}

#[tokio::test]
async fn a_backup_has_no_estimate_before_it_is_analyzed() {
    let fixture = fixture().await;
    let backup = Shadow::open_backup(fixture.database.url()).await.unwrap();
    fixture.execute("ALTER TABLE inbox_item SET (autovacuum_enabled = false)").await;
    fill(&fixture, "public", AppId(1), UserNumber(1)).await;
    assert_eq!(Shadow::estimated_items(&backup).await.unwrap(), 0, "no statistics yet");
    fixture.execute("ANALYZE inbox_item").await;
    assert_eq!(Shadow::estimated_items(&backup).await.unwrap(), 2);
}

/// Adds an existing item, a deleted item and the counters of a user.
async fn fill(fixture: &Fixture, schema: &str, app: AppId, user: UserNumber) {
    let statement = format!(
        "INSERT INTO {schema}.inbox_item (app_id, user_number, id, send_id, created_at, deleted_at, event_id)
         SELECT {app}, {user}, {user} * 10 + n, gen_random_uuid(), now(), CASE n WHEN 2 THEN now() END, gen_random_uuid()
         FROM generate_series(1, 2) AS n;
         INSERT INTO {schema}.inbox_counter VALUES ({app}, {user}, 1, 1, 1)"
    );
    fixture.execute(&statement).await;
}

#[tokio::test]
async fn an_erased_user_is_removed_from_the_tables_of_a_killed_rebuild() {
    for purpose in [Purpose::Replacement, Purpose::Comparison] {
        let fixture = fixture().await;
        let schema = if purpose == Purpose::Replacement { "inbox_rebuild" } else { "inbox_verify" };
        let app = fixture.app("shop").await;
        let ada = fixture.user(app, "ada").await;
        let bob = fixture.user(app, "bob").await;
        let shadow = fixture.shadow(purpose).await;
        shadow.create().await.unwrap();
        fill(&fixture, schema, app, ada).await;
        fill(&fixture, schema, app, bob).await;
        let title = |name: &str| InAppContent { title: Some(name.to_owned()), ..InAppContent::default() };
        let added = ItemsAdded {
            created_at: NOW,
            category_id: None,
            first: 0,
            contents: vec![title("for ada"), title("for bob")],
            recipients: vec![(ada, 0), (bob, 1)],
        };
        let event = Event::InboxItemsAdded(added);
        let envelope =
            Envelope { id: Uuid::nil(), app, at: NOW, send_id: None, caused_by: None, trace: None, event };
        sqlx::query(AssertSqlSafe(format!(
            "INSERT INTO {schema}.dead_event (projection, stream, seq, message, cause)
             VALUES ('inbox', 'INBOX_0', 1, $1, '')"
        )))
        .bind(envelope.encode().unwrap())
        .execute(&fixture.pool)
        .await
        .unwrap();
        fixture.erase(app, "ada", LATER).await;
        let of = |user: UserNumber| {
            format!(
                "SELECT (SELECT count(*) FROM {schema}.inbox_item WHERE user_number = {user})
                   + (SELECT count(*) FROM {schema}.inbox_counter WHERE user_number = {user})
                   + (SELECT count(*) FROM {schema}.dead_event
                      WHERE position('for ada' in convert_from(message, 'UTF8')) > 0)"
            )
        };
        let left = async |user| -> i64 {
            sqlx::query_scalar(AssertSqlSafe(of(user))).fetch_one(&fixture.pool).await.unwrap()
        };
        let undone = "SELECT count(*) FROM erased WHERE done_at IS NULL";

        // While a process uses the shadow tables, a pass removes nothing from them, and the erasure is not complete.
        fixture.pass().await;
        assert_eq!((left(ada).await, fixture.count(undone).await), (4, 1));
        drop(shadow);
        fixture.wait_until_no_shadow_is_held().await;
        fixture.execute("UPDATE erased SET next_pass_at = now()").await;
        fixture.pass().await;
        assert_eq!((left(ada).await, left(bob).await, fixture.count(undone).await), (0, 3, 0), "{schema}");
    }
}

impl Fixture {
    /// Waits until the server has noticed that the shadow's connection was closed.
    async fn wait_until_no_shadow_is_held(&self) {
        testkit::eventually(crate::LIMIT, "the lock is free", async || {
            let locks = "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
                         WHERE locktype = 'advisory' AND datname = current_database()";
            (self.count(locks).await == 0).then_some(())
        })
        .await;
    }
}
