//! Dump and restore, as an operator runs them.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use testkit::eventually;

use crate::system::System;

const SOON: Duration = Duration::from_secs(60);

/// Runs `pg_dump` during the load.
pub(crate) async fn dump(system: &System) -> PathBuf {
    let path = system.servers.directory().join("tidings.dump");
    let (database, file) = (system.current_database(), path.clone());
    tokio::task::spawn_blocking(move || database.dump(&file).unwrap()).await.unwrap();
    path
}

/// Runs `tidings restore` twice. The first run is killed in the middle. Returns the report of the second.
pub(crate) async fn restore(system: &System) -> Value {
    let planned = system.environment.tidings(&["restore", "--dry-run"]);
    assert!(planned.contains("reaches back") && planned.contains("Nothing was changed"), "{planned}");

    kill_half_way(system).await;
    system.services_refuse_to_start();
    let report: Value = serde_json::from_str(&system.environment.tidings(&["restore", "--json"])).unwrap();
    assert_eq!(report["report"]["outcome"], "restored", "{report}");
    report["report"].clone()
}

/// Kills a restore in the middle: a lock on the table `plan` stops it after it has read jobs.
async fn kill_half_way(system: &System) {
    let mut holder = system.database.begin().await.unwrap();
    sqlx::query("LOCK TABLE plan IN ACCESS EXCLUSIVE MODE").execute(&mut *holder).await.unwrap();
    let mut child = system.environment.command("tidings").arg("restore").spawn().unwrap();
    eventually(SOON, "the restore waits for the lock", async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .fetch_one(&system.database)
        .await
        .unwrap();
        (waiting > 0).then_some(())
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    holder.rollback().await.unwrap();
    eventually(SOON, "PostgreSQL has closed the session of the killed restore", async || {
        let others: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tidings'",
        )
        .fetch_one(&system.database)
        .await
        .unwrap();
        (others == 0).then_some(())
    })
    .await;
}
