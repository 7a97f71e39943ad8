//! `tidings rebuild inbox` interrupted in the middle of its replay: it is killed, loses the database, or loses the log.

use std::process::Child;

use domain::StreamName;
use serde_json::{Value, json};
use sqlx::{Postgres, Transaction};
use testkit::eventually;

use crate::inboxes::{Inboxes, SOON};

const REPLAYED: &str =
    "SELECT seq FROM inbox_rebuild.checkpoint WHERE projection = 'inbox' AND stream = 'INBOX_1'";
const LIVE: &str = "SELECT seq FROM checkpoint WHERE projection = 'inbox' AND stream = 'INBOX_1'";
const REBUILD: [&str; 4] = ["rebuild", "inbox", "--accept-differences", "--json"];

/// Starts a rebuild that cannot continue with one of the partitions until the lock is released.
async fn rebuild_in_the_middle(inboxes: &Inboxes) -> (Child, Transaction<'static, Postgres>) {
    // A rebuild that ended with a difference leaves its tables, in which a lock can stop the next rebuild.
    inboxes.publish(200).await;
    inboxes.projected().await;
    inboxes.execute("UPDATE inbox_counter SET unseen = 77 WHERE app_id = 1 AND user_number = 3").await;
    assert_eq!(inboxes.run(&["rebuild", "inbox"]).await.code, 1);
    inboxes.publish(6_000).await;
    inboxes.projected().await;
    let mut lock = inboxes.database.begin().await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(format!("{REPLAYED} FOR UPDATE"))).execute(&mut *lock).await.unwrap();
    let child = inboxes.spawn(&REBUILD);
    eventually(SOON, "the replay waits", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        (inboxes.text(waiting).await != "0").then_some(())
    })
    .await;
    (child, lock)
}

/// Waits for the end of the rebuild, and returns its exit code, report and standard error.
async fn ended(child: Child) -> (i32, Value, String) {
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap().unwrap();
    let (report, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    (output.status.code().unwrap(), serde_json::from_str(&report).unwrap(), errors)
}

/// Runs the rebuild again, to its end.
async fn finish_rebuild(inboxes: &Inboxes) {
    inboxes.await_no_rebuild().await;
    let answer = inboxes.run(&REBUILD).await;
    let found: Value = serde_json::from_str(&answer.output).unwrap();
    assert_eq!(
        (answer.code, &found["switched"], &found["resumed"]),
        (0, &json!(true), &json!(true)),
        "{answer:?}"
    );
    inboxes.projected().await;
    let answer = inboxes.run(&["verify", "--json"]).await;
    assert_eq!(answer.code, 0, "{answer:?}");
}

/// Returns true if the rebuild stopped in the middle.
async fn is_in_the_middle(inboxes: &Inboxes) -> bool {
    let position = async |query| inboxes.text(query).await.parse::<u64>().unwrap();
    let (replayed, live) = (position(REPLAYED).await, position(LIVE).await);
    0 < replayed && replayed < live
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_killed_during_replay_continues_from_there() {
    let inboxes = Inboxes::start().await;
    let (mut child, lock) = rebuild_in_the_middle(&inboxes).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_in_the_middle(&inboxes).await);
    lock.rollback().await.unwrap();
    finish_rebuild(&inboxes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_loses_the_database_reports_it_and_continues_later() {
    let files = tempfile::tempdir().unwrap();
    let mut cluster = local_servers::Postgres::start_fast(&files.path().join("cluster")).await.unwrap();
    let inboxes = Inboxes::start_on(&cluster).await;
    let (child, lock) = rebuild_in_the_middle(&inboxes).await;
    cluster.stop_immediately().await.unwrap();
    let (code, report, errors) = ended(child).await;
    assert_eq!((code, &report["switched"]), (1, &json!(false)), "{errors}");
    let cause = report["cause"].as_str().unwrap();
    assert!(cause.starts_with("database: ") && errors.contains(cause), "{errors}");
    // The lock ended with the server.
    drop(lock);
    cluster.restart().await.unwrap();
    assert!(is_in_the_middle(&inboxes).await);
    finish_rebuild(&inboxes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_loses_the_log_names_a_sufficient_backup() {
    let inboxes = Inboxes::start().await;
    let (child, lock) = rebuild_in_the_middle(&inboxes).await;
    let stream = StreamName::Inbox(1);
    let first = inboxes.log.state(stream).await.unwrap().last_seq - 5;
    inboxes.log.purge_below(stream, first).await.unwrap();
    lock.rollback().await.unwrap();
    let (code, report, errors) = ended(child).await;
    let told =
        format!("INBOX_1 starts at {first}: a backup must have the inbox up to {} at least", first - 1);
    assert_eq!((code, &report["switched"]), (2, &json!(false)), "{errors}");
    assert!(report["cause"].as_str().unwrap().contains(&told), "{errors}");
    assert!(is_in_the_middle(&inboxes).await, "the replayed part is kept");
}
