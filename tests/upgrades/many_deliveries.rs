//! Upgrade of a database with many deliveries in every state: nothing is lost, and nothing is sent twice.
//!
//! The test fills the schema of an earlier release, runs `tidings migrate`, and starts the services of this release. In the short form,
//! the database has 12,000 deliveries. `cargo xtask upgrade --deliveries 1000000` runs the long form.
//!
//! This release encodes the jobs in the log. The module `golden` tests with messages of earlier releases.

mod contents;
mod jobs;

use std::path::Path;
use std::time::{Duration, Instant};

use domain::Status;
use serde_json::Value;
use service_kit::{Config, connections, installation};
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, PgPool};
use stand_ins::outbox::Outbox;
use stand_ins::providers::Providers;
use suite::{Environment, Role, system};
use testkit::{Database, Servers, eventually};
use uuid::Uuid;

use contents::Contents;

/// Environment variable with the number of deliveries.
const DELIVERIES: &str = "TIDINGS_TEST_UPGRADE_DELIVERIES";
/// Default number, which is enough for three sends of each kind in `fill.sql`.
const FEW: u32 = 12_000;
/// Deliveries of each send that `fill.sql` writes.
const PER_SEND: u32 = 100;
/// Number of apps that `fill.sql` creates.
const APPS: u32 = 3;
/// Time limit for all open deliveries. The long form has the same number of them.
const ENDED_WITHIN: Duration = Duration::from_secs(300);
/// Time limit for a change of the backlog. Longer than the longest lease of a delivery in the database.
const STALLED_AFTER: Duration = Duration::from_secs(90);
const MIGRATIONS: &str = "../libs/store/migrations";
const FILL: &str = include_str!("many_deliveries/fill.sql");
const CHANGELOG: &str = include_str!("../../CHANGELOG.md");

/// A release whose database is upgraded.
struct Release {
    version: &'static str,
    /// Number of its newest migration.
    newest_migration: i64,
    /// False if it publishes each job in a separate message.
    bundles: bool,
}

/// The last release. An upgrade to this release starts from its schema.
const LAST: Release = Release { version: "0.5.0", newest_migration: 49, bundles: true };
/// The earliest release of the changelog. The migrations since then check every delivery and attempt against new constraints (0038)
/// and build indexes of all inbox items (0043, 0049). An operator runs them in several upgrades; here, one upgrade runs all of them.
const FIRST: Release = Release { version: "0.2.0", newest_migration: 36, bundles: false };

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_from_the_last_release_loses_nothing_and_sends_nothing_twice() {
    upgrade_from(&LAST).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_migrations_since_the_first_release_lose_nothing_and_send_nothing_twice() {
    upgrade_from(&FIRST).await;
}

/// The commit of a release names that release in the changelog, but still upgrades from the release before it.
#[test]
fn the_last_release_is_one_of_the_two_newest_in_the_changelog() {
    let releases = CHANGELOG.lines().filter_map(|line| line.strip_prefix("## ")?.split_once(" ("));
    let newest: Vec<_> = releases.map(|(version, _)| version).take(2).collect();
    assert!(
        newest.contains(&LAST.version),
        "LAST is {}, but the newest releases are {newest:?}",
        LAST.version
    );
}

async fn upgrade_from(release: &Release) {
    service_kit::install_crypto_provider();
    let empty = Database::create().await;
    let servers = Servers::start_on(empty.url()).await;
    let begun = Instant::now();
    let deliveries = install(release, &servers).await;
    let database = PgPool::connect(servers.database_url()).await.unwrap();
    let before = Contents::read(&database).await;
    println!(
        "{deliveries} deliveries of {}: filled in {:.1} s",
        release.version,
        begun.elapsed().as_secs_f64()
    );

    let begun = Instant::now();
    let said = Environment::default().with(servers.environment()).tidings(&["migrate"]);
    println!("`tidings migrate` took {:.2} s: {}", begun.elapsed().as_secs_f64(), said.trim());
    before.assert_kept(&database, &["_sqlx_migrations", "app_link_key", "vapid_key"]).await;
    let begun = Instant::now();

    let mut upgraded = Upgraded::start(servers).await;
    println!("the services were ready after {:.1} s", begun.elapsed().as_secs_f64());
    upgraded.until_ended(begun).await;
    upgraded.check(false).await;
    let begun = Instant::now();
    upgraded.system.environment.tidings(&["parked", "redrive", "--all"]);
    upgraded.until_ended(begun).await;
    upgraded.check(true).await;
    before.assert_kept(&database, &WRITTEN).await;
}

/// Tables whose rows the upgrade or the services change. [`Upgraded::check`] checks those of deliveries.
const WRITTEN: [&str; 13] = [
    "_sqlx_migrations",
    "app_link_key",
    "vapid_key",
    "provider",
    "audit",
    "checkpoint",
    "log_mark",
    "timer",
    "parked",
    "delivery",
    "attempt",
    // The jobs of SMS that were sent, kept until their receipts.
    "awaiting_receipt",
    // Keys older than a day are removed.
    "idempotency_key",
];

/// Creates streams and a database as the release left them, and returns the number of deliveries.
async fn install(release: &Release, servers: &Servers) -> i64 {
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join(MIGRATIONS);
    let mut migrator = Migrator::new(migrations).await.unwrap();
    migrator.migrations.to_mut().retain(|migration| migration.version <= release.newest_migration);
    let newest = migrator.migrations.iter().map(|migration| migration.version).max();
    assert_eq!(newest, Some(release.newest_migration), "the newest migration of {}", release.version);
    let database = PgPool::connect(servers.database_url()).await.unwrap();
    migrator.run(&database).await.unwrap();
    let config = Config { streams: Config::default().streams, ..servers.config() };
    let limit = connections::CONNECTED_WITHIN;
    let store = connections::store(&config, limit).await.unwrap();
    let log = connections::event_log(&config, limit).await.unwrap();
    installation::prepare(&store, &log, config.streams.partitions).await.unwrap();
    store.close().await;

    let wanted = std::env::var(DELIVERIES).map_or(FEW, |number| number.parse().unwrap());
    let sends = wanted.div_ceil(PER_SEND);
    let setting = format!("SET upgrade.sends = {sends};");
    sqlx::raw_sql(AssertSqlSafe(setting + FILL)).execute(&database).await.unwrap();
    jobs::write(&database, &log, release.bundles).await;
    assert_every_state_exists(&database).await;
    sqlx::query_scalar("SELECT count(*) FROM delivery").fetch_one(&database).await.unwrap()
}

async fn assert_every_state_exists(database: &PgPool) {
    let mut states: Vec<String> = sqlx::query_scalar(
        "SELECT status FROM delivery GROUP BY status HAVING count(DISTINCT app_id) = $1 AND count(*) >= $2",
    )
    .bind(i64::from(APPS))
    .bind(i64::from(APPS * PER_SEND))
    .fetch_all(database)
    .await
    .unwrap();
    states.sort_unstable();
    let mut all: Vec<_> = Status::STORED.iter().map(ToString::to_string).collect();
    all.sort_unstable();
    assert_eq!(states, all, "statuses with deliveries of every app");
    let kinds: Vec<i32> =
        sqlx::query_scalar("SELECT number FROM upgrade.kind EXCEPT SELECT kind FROM upgrade.filled")
            .fetch_all(database)
            .await
            .unwrap();
    assert_eq!(kinds, [0_i32; 0], "kinds without deliveries");
}

/// The services of this release on the migrated database, with stand-ins for the providers.
struct Upgraded {
    system: suite::System,
    providers: Providers,
}

impl Upgraded {
    async fn start(servers: Servers) -> Upgraded {
        let outbox = Outbox::listed(&servers.directory().join("accepted")).unwrap();
        let providers = Providers::start(outbox).await.unwrap();
        // `prepare` runs `tidings migrate` again, which changes nothing.
        let mut system = suite::System::prepare(servers, system::addresses(1), [("", ""); 0]).await;
        let documents = providers.documents();
        let used =
            |document: &&Value| ["smtp", "sms-http"].contains(&document["identifier"].as_str().unwrap());
        for app in 1..=APPS {
            documents
                .iter()
                .filter(used)
                .for_each(|document| system.set_provider(&format!("shop-{app}"), document));
        }
        system.start(&Role::ALL);
        system.ready().await;
        Upgraded { system, providers }
    }

    /// Waits until every open delivery has ended, and until the services have processed every message.
    async fn until_ended(&mut self, begun: Instant) {
        let open: Vec<_> = Status::OPEN.iter().map(ToString::to_string).collect();
        eventually(ENDED_WITHIN, "all open deliveries have ended", async || {
            let left: bool =
                sqlx::query_scalar("SELECT EXISTS (SELECT FROM delivery WHERE status = ANY ($1))")
                    .bind(&open)
                    .fetch_one(&self.system.database)
                    .await
                    .unwrap();
            (!left).then_some(())
        })
        .await;
        println!("all open deliveries had ended after {:.1} s", begun.elapsed().as_secs_f64());
        self.system.until_idle(STALLED_AFTER).await;
    }

    /// Checks the status, the attempts and the calls of every delivery.
    async fn check(&mut self, is_redriven: bool) {
        self.system.assert_running();
        let database = &self.system.database;
        self.read_calls().await;
        let wrong: Vec<(String, i64)> =
            sqlx::query_as(WRONG).bind(is_redriven).fetch_all(database).await.unwrap();
        let wrong: Vec<_> =
            wrong.into_iter().map(|(kind, count)| format!("{count} deliveries: {kind}")).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        for (what, query) in DIFFERENCES {
            assert_eq!(self.system.count(query).await, 0, "{what}");
        }
        let statuses: Vec<(String, i64)> =
            sqlx::query_as("SELECT status, count(*) FROM delivery GROUP BY status ORDER BY status")
                .fetch_all(database)
                .await
                .unwrap();
        println!("deliveries by status: {statuses:?}");
    }

    /// Replaces the rows of `upgrade.call` by the messages that the providers have accepted so far.
    async fn read_calls(&self) {
        let accepted = std::fs::read_to_string(self.system.servers.directory().join("accepted")).unwrap();
        let accepted: Vec<Value> = accepted.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        println!("the providers accepted {} messages", accepted.len());
        // This provider accepts a repeated call, but does not list it.
        let sms = accepted.iter().filter(|message| message["channel"] == "sms").count();
        assert_eq!(
            self.providers.sms_http.requests(),
            sms,
            "calls to the SMS provider, and SMS that it sent"
        );
        let deliveries: Vec<Uuid> =
            accepted.iter().map(|message| message["delivery"].as_str().unwrap().parse().unwrap()).collect();
        sqlx::query("TRUNCATE upgrade.call").execute(&self.system.database).await.unwrap();
        sqlx::query("INSERT INTO upgrade.call SELECT * FROM unnest($1::uuid[])")
            .bind(&deliveries)
            .execute(&self.system.database)
            .await
            .unwrap();
    }
}

/// Deliveries without the wanted status, number of calls or number of attempts, by kind. $1: true if parked deliveries were redriven.
const WRONG: &str = "
    WITH called AS (
      SELECT delivery_id, count(*) AS calls FROM upgrade.call GROUP BY delivery_id
    ), made AS (
      SELECT app_id, delivery_id, count(*) AS attempts FROM attempt GROUP BY app_id, delivery_id
    ), found AS (
      SELECT kind.*, delivery.status AS is_status, coalesce(called.calls, 0) AS is_calls, coalesce(attempts, 0) AS is_attempts,
        CASE WHEN kind.status <> 'parked' OR $1 THEN ends ELSE 'parked' END AS wanted_status,
        CASE WHEN kind.status <> 'parked' OR $1 THEN kind.calls ELSE 0 END AS wanted_calls
      FROM upgrade.filled JOIN upgrade.kind ON kind.number = kind
      LEFT JOIN delivery USING (app_id, id)
      LEFT JOIN called ON called.delivery_id = filled.id
      LEFT JOIN made ON (made.app_id, made.delivery_id) = (filled.app_id, filled.id)
    )
    SELECT format('%s %s, job in %s: should be %s with %s calls and %s attempts; is %s with %s calls and %s attempts', channel, status,
      coalesce(job, 'no place'), wanted_status, wanted_calls, made + wanted_calls, is_status, is_calls, is_attempts) AS kind, count(*)
    FROM found
    WHERE (is_status, is_calls, is_attempts) IS DISTINCT FROM (wanted_status, wanted_calls::bigint, (made + wanted_calls)::bigint)
    GROUP BY kind ORDER BY kind";

/// Queries that count unexpected rows.
const DIFFERENCES: [(&str, &str); 6] = [
    (
        "calls for deliveries that do not exist",
        "SELECT count(*) FROM upgrade.call WHERE NOT EXISTS (SELECT FROM upgrade.filled WHERE id = delivery_id)",
    ),
    (
        "new deliveries",
        "SELECT count(*) FROM delivery AS d
         WHERE NOT EXISTS (SELECT FROM upgrade.filled AS f WHERE (f.app_id, f.id) = (d.app_id, d.id))",
    ),
    ("timers", "SELECT count(*) FROM timer"),
    (
        "parked messages without a parked delivery, or parked deliveries without a message",
        "SELECT count(*) FROM parked FULL JOIN (SELECT * FROM delivery WHERE status = 'parked') AS d
           ON (d.app_id, d.id) = (parked.app_id, parked.delivery_id)
         WHERE d.id IS NULL OR parked.id IS NULL",
    ),
    (
        "changed deliveries that had ended before the upgrade",
        "SELECT count(*) FROM (
           SELECT * FROM upgrade.ended_delivery
           EXCEPT SELECT id, reason, attempt, token, provider, settled_at FROM delivery
         ) AS changed",
    ),
    (
        "changed attempts of before the upgrade",
        "SELECT count(*) FROM (
           SELECT * FROM upgrade.made_attempt
           EXCEPT SELECT delivery_id, number, ended_at, provider, outcome FROM attempt
         ) AS changed",
    ),
];
