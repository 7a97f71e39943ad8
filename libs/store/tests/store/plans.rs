//! Cost of statements: no statement of a service scans a backlog. The test runs each statement on empty and on large tables,
//! with and without statistics, with a custom and with a generic plan, made before or after the table grew.
//!
//! Statements are read from the source, and tables are filled according to their columns, so new statements and tables are
//! tested automatically. A parameter gets the value 1, the current time or the id of row 500, depending on its type.
//!
//! `TIDINGS_TEST_PLAN_ROWS` sets the number of rows of the largest tables; `cargo xtask nightly plans` runs with a million.

mod fill;

use std::str::FromStr;

use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, Row};
use testkit::Database;

use crate::source::{self, Statement};

/// Tables that stay small: settings of operators, and tables with one row per stream. All other tables grow.
const SMALL: [&str; 32] = [
    "_sqlx_migrations",
    "admin_token",
    "app",
    "app_bytes",
    "app_link_key",
    "app_secret",
    "audit",
    "category",
    "checkpoint",
    "dead_event",
    "deleted_topic",
    "installation",
    "log_mark",
    "message_failure",
    "operator",
    "operator_code",
    "operator_grant",
    "operator_identity",
    "operator_session",
    "provider",
    "redrive_run",
    "removed_provider",
    "restored_job",
    "signing_key",
    "stream_identity",
    "template",
    "template_version",
    "topic",
    "vapid_key",
    "webhook_endpoint",
    "webhook_secret",
    "preference",
];
/// Tables with most rows. The other growing tables have a tenth of their number. `erased` is among them because without statistics,
/// PostgreSQL reads all open erasures of an app if there are 50,000 or fewer.
const LARGE: [&str; 4] = ["webhook_message", "delivery", "inbox_item", "erased"];
/// Rows of each of these tables. A tenth of them is still 50 times what a statement may read.
const MANY: i64 = 100_000;
/// Rows of these tables for the test of pinned plans.
const MORE: i64 = 20_000;

/// Statements of operators' commands, which may be slow. Each entry is the start of a file's path or a part of a statement.
const OPERATORS: [&str; 6] = [
    "recovery",
    "database/sealed.rs",
    "deliveries/redrive",
    "deliveries/suppression/list.rs",
    // Counts at most 10,001 timers.
    "deliveries/waiting.rs",
    // The redelivery of webhooks that were given up.
    "UPDATE webhook_message m\n",
];
/// Statements that workers run for every delivery. Each entry is the start of a file's path.
const OF_WORKERS: [&str; 4] =
    ["deliveries/claim", "deliveries/ledger", "deliveries/settle", "deliveries/settlement"];
/// Maximum number of rows that a statement may read from growing tables. For each row that it returns or changes, it may
/// read 20 more.
const ROWS: f64 = 200.0;
/// Maximum number of blocks that a statement may read. For each row that it returns or changes, it may read 60 more.
const BLOCKS: f64 = 600.0;

struct Bench {
    connection: PgConnection,
    statements: Vec<Statement>,
    growing: Vec<String>,
    found: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_on_a_growing_table_reads_what_it_does_not_return() {
    let database = Database::with_schema().await;
    let mut bench = Bench::start(&database).await;
    bench.setting("plan_cache_mode", "force_generic_plan").await;
    bench.prepare().await;
    bench.run("generic plan, 0 rows").await;
    bench.execute("VACUUM ANALYZE").await;
    bench.run("generic plan, 0 rows analysed").await;
    bench.setting("plan_cache_mode", "force_custom_plan").await;
    bench.run("own plan, 0 rows analysed").await;
    let rows = std::env::var("TIDINGS_TEST_PLAN_ROWS").map_or(MANY, |rows| rows.parse().unwrap());
    bench.fill(rows).await;
    bench.setting("plan_cache_mode", "force_custom_plan").await;
    bench.run("own plan, many rows, statistics of 0").await;
    bench.execute("ANALYZE").await;
    bench.run("own plan, many rows analysed").await;
    bench.setting("plan_cache_mode", "force_generic_plan").await;
    bench.run("generic plan, many rows analysed").await;
    bench.pin_plans().await;
    bench.run("pinned plan, many rows analysed").await;
    bench.assert_nothing_found();
}

/// The sessions of workers keep the plans that they made before the tables of a new installation had rows or statistics.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_was_pinned_in_a_new_installation_stays_good() {
    let database = Database::with_schema().await;
    let mut bench = Bench::start(&database).await;
    bench.statements.retain(|statement| OF_WORKERS.iter().any(|start| statement.file.starts_with(start)));
    assert!(bench.statements.len() >= 8, "{} statements are found", bench.statements.len());
    bench.prepare().await;
    bench.pin_plans().await;
    bench.run("pinned plan, 0 rows").await;
    bench.fill(MORE).await;
    bench.run("pinned plan of 0 rows, many rows").await;
    bench.assert_nothing_found();
}

/// PostgreSQL planned the join of several chunks as a scan of all users, if the app has only some dozen times as many.
#[tokio::test(flavor = "multi_thread")]
async fn the_users_of_several_chunks_are_read_without_the_other_users_of_their_app() {
    let database = Database::with_schema().await;
    let mut bench = Bench::start(&database).await;
    bench.execute("INSERT INTO app (name, api_key) VALUES ('shop', 'shop')").await;
    bench
        .execute("INSERT INTO app_user (app_id, identifier) SELECT 1, 'user-' || n FROM generate_series(1, 50000) n")
        .await;
    bench.execute("VACUUM ANALYZE app_user").await;
    let is_meant = |statement: &&Statement| {
        statement.file.starts_with("sends/facts/people")
            && statement.sql.contains("named (app_id, identifier)")
    };
    let meant: Vec<_> = bench.statements.iter().filter(is_meant).collect();
    assert_eq!(meant.len(), 1);
    let explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) {}", meant[0].sql);
    let names: Vec<_> = (1..=1_000).map(|number| format!("user-{}", number * 49)).collect();
    let row = sqlx::query(AssertSqlSafe(explain))
        .bind(vec![1_i64; names.len()])
        .bind(&names)
        .fetch_one(&mut bench.connection)
        .await
        .unwrap();
    let mut cost = Cost::default();
    cost.add(&row.get::<Value, _>(0)[0]["Plan"], &["app_user".to_owned()]);
    assert!((cost.read - 1_000.0).abs() < 0.5, "{} users are read for 1,000", cost.read);
}

impl Bench {
    async fn start(database: &Database) -> Bench {
        // The session has the settings of a service's session, but longer time limits. Foreign keys and triggers are off.
        let options = PgConnectOptions::from_str(database.url())
            .unwrap()
            .options(store::SESSION)
            .options([("statement_timeout", "60s"), ("session_replication_role", "replica")]);
        let mut connection = options.connect().await.unwrap();
        // The parameters' values are not valid statuses, so the constraints that check statuses are dropped.
        sqlx::raw_sql(
            "ALTER TABLE delivery DROP CONSTRAINT delivery_status;
             ALTER TABLE attempt DROP CONSTRAINT attempt_outcome;
             ALTER TABLE webhook_message DROP CONSTRAINT webhook_message_status",
        )
        .execute(&mut connection)
        .await
        .unwrap();
        let growing: Vec<String> = sqlx::query_scalar(
            "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' AND tablename <> ALL($1) ORDER BY 1",
        )
        .bind(SMALL.map(str::to_owned).to_vec())
        .fetch_all(&mut connection)
        .await
        .unwrap();
        let statements: Vec<_> = source::statements()
            .into_iter()
            .filter(|statement| {
                let mut words = statement.sql.split(|c: char| !c.is_alphanumeric() && c != '_');
                words.any(|word| growing.iter().any(|table| table == word))
                    && !OPERATORS
                        .iter()
                        .any(|part| statement.file.starts_with(part) || statement.sql.contains(part))
            })
            .collect();
        assert!(statements.len() > 80, "{} statements are found", statements.len());
        Bench { connection, statements, growing, found: Vec::new() }
    }

    fn assert_nothing_found(&self) {
        assert!(self.found.is_empty(), "{}\n{} in total", self.found.join("\n"), self.found.len());
    }

    async fn execute(&mut self, statement: &str) {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut self.connection).await.unwrap();
    }

    async fn setting(&mut self, name: &str, value: &str) {
        self.execute(&format!("SET {name} = {value}")).await;
    }

    async fn prepare(&mut self) {
        for (number, statement) in self.statements.iter().enumerate() {
            let prepare = AssertSqlSafe(format!("PREPARE s{number} AS {}", statement.sql));
            if let Err(error) = sqlx::raw_sql(prepare).execute(&mut self.connection).await {
                self.found.push(format!("{}: {error}\n{}", statement.file, statement.sql));
            }
        }
    }

    /// Makes the session plan each statement once, like the session of a worker.
    async fn pin_plans(&mut self) {
        for (name, value) in store::PINNED {
            self.setting(name, value).await;
        }
        self.execute("DISCARD PLANS").await;
    }

    /// Fills the growing tables: the large ones with `many` rows, the others with a tenth of that.
    async fn fill(&mut self, many: i64) {
        self.execute("INSERT INTO app (name, api_key) VALUES ('shop', 'shop')").await;
        self.execute(
            "INSERT INTO webhook_endpoint (app_id, url, events) SELECT 1, 'x' || n, '{}' FROM generate_series(1, 20) n",
        )
        .await;
        for table in self.growing.clone() {
            let rows = if LARGE.contains(&table.as_str()) { many } else { many / 10 };
            let began = std::time::Instant::now();
            fill::fill(&mut self.connection, &table, rows).await;
            println!("{table}: {rows} rows in {:?}", began.elapsed());
        }
    }

    async fn run(&mut self, state: &str) {
        for number in 0..self.statements.len() {
            let Some(plan) = self.plan(number, state).await else { continue };
            let statement = &self.statements[number];
            let mut cost = Cost::default();
            cost.add(&plan["Plan"], &self.growing);
            let done = cost.changed.max(plan["Plan"]["Actual Rows"].as_f64().unwrap_or_default());
            let blocks =
                count(&plan["Plan"], "Shared Hit Blocks") + count(&plan["Plan"], "Shared Read Blocks");
            let too_much = cost.read > ROWS + 20.0 * done || blocks > BLOCKS + 60.0 * done;
            if !cost.scans.is_empty() || too_much {
                self.found.push(format!(
                    "{state}: {}: {} rows and {blocks} blocks read for {done}; whole tables: {:?}\n{}",
                    statement.file, cost.read, cost.scans, statement.sql
                ));
            }
        }
    }

    /// Runs a statement, rolls it back, and returns its plan. If the statement fails, records the error and returns None.
    async fn plan(&mut self, number: usize, state: &str) -> Option<Value> {
        let types = sqlx::raw_sql(AssertSqlSafe(format!(
            "SELECT parameter_types::text[] AS types FROM pg_prepared_statements WHERE name = 's{number}'"
        )))
        .fetch_optional(&mut self.connection)
        .await
        .unwrap()?;
        let types: Vec<String> = types.get("types");
        let statement = &self.statements[number];
        let values: Vec<String> = types.iter().map(|kind| default(kind)).collect();
        let arguments = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
        let explain =
            format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE s{number}{arguments}");
        let is_own_plan = statement.file.starts_with("webhooks/outgoing");
        self.execute("BEGIN").await;
        if is_own_plan {
            self.execute(
                "SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off;
                 SET LOCAL enable_mergejoin = off",
            )
            .await;
        }
        let explained = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut self.connection).await;
        self.execute("ROLLBACK").await;
        match explained {
            Ok(row) => Some(row.get::<Value, _>(0)[0].clone()),
            // Not a failure: the row exists already, and PostgreSQL found it by its key.
            Err(error) if error.as_database_error().is_some_and(|error| error.is_unique_violation()) => None,
            Err(error) => {
                let statement = &self.statements[number];
                self.found
                    .push(format!("{state}: {}: {error}: {types:?}\n{}", statement.file, statement.sql));
                None
            }
        }
    }
}

/// Numbers of rows of growing tables that a plan read and changed.
#[derive(Default)]
struct Cost {
    read: f64,
    changed: f64,
    scans: Vec<String>,
}

impl Cost {
    fn add(&mut self, node: &Value, growing: &[String]) {
        let loops = count(node, "Actual Loops");
        let relation = node["Relation Name"].as_str().unwrap_or_default();
        let kind = node["Node Type"].as_str().unwrap_or_default();
        if growing.iter().any(|table| table == relation) {
            if kind == "ModifyTable" {
                let rows = |plan: &Value| count(plan, "Actual Rows") * count(plan, "Actual Loops");
                self.changed += node["Plans"].as_array().into_iter().flatten().map(rows).sum::<f64>();
            } else {
                let removed =
                    count(node, "Rows Removed by Filter") + count(node, "Rows Removed by Index Recheck");
                self.read += loops * (count(node, "Actual Rows") + removed);
            }
            if kind == "Seq Scan" {
                self.scans.push(relation.to_owned());
            }
        }
        for plan in node["Plans"].as_array().into_iter().flatten() {
            self.add(plan, growing);
        }
    }
}

fn count(node: &Value, name: &str) -> f64 {
    node[name].as_f64().unwrap_or_default()
}

/// Returns an SQL expression for the value that a parameter of this type gets.
fn default(kind: &str) -> String {
    let one = match kind.trim_end_matches("[]") {
        "bigint" | "integer" | "smallint" | "double precision" | "numeric" => "1",
        "uuid" => "'000000000000000000000000000001f4'",
        "text" | "name" => "'500'",
        "boolean" => "true",
        "timestamp with time zone" => "now()",
        "bytea" => "'x'",
        "json" | "jsonb" => "'{}'",
        kind => panic!("no value for a parameter of type {kind}"),
    };
    if kind.ends_with("[]") { format!("ARRAY[{one}]::{kind}") } else { format!("{one}::{kind}") }
}
