//! `tidings rebuild inbox`: builds new tables from the log, and replaces the live tables with them.

use std::io::{BufRead, BufReader};

use domain::{AppId, UserNumber};
use serde_json::{Value, json};
use store::inbox::list::{InboxFilter, PageStart};
use testkit::INBOX_TABLES;

use crate::directory::Answer;
use crate::inboxes::Inboxes;

const LEFT: &str = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'inbox_%'";
const ROWS: &str = "SELECT md5(string_agg(i::text, ',' ORDER BY app_id, id)) FROM inbox_item i";
const TABLE: &str = "SELECT 'inbox_item'::regclass::oid";

fn report(answer: &Answer) -> Value {
    serde_json::from_str(&answer.output).unwrap_or_else(|_| panic!("{answer:?}"))
}

impl Inboxes {
    /// Lists an inbox through the store, whose connections keep prepared statements. Returns the number of items.
    async fn listed(&self, app: AppId, user: UserNumber) -> usize {
        let start = PageStart::Offset(0);
        self.store.inbox().list_inbox(app, user, InboxFilter::default(), start, 20).await.unwrap().items.len()
    }

    async fn assert_equal(&self) {
        self.projected().await;
        let answer = self.run(&["verify", "--json"]).await;
        assert_eq!(answer.code, 0, "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_replaces_equal_tables_without_disturbing_clients() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(2_000).await;
    inboxes.projected().await;
    inboxes
        .execute("GRANT SELECT ON inbox_item TO PUBLIC; GRANT INSERT ON inbox_counter TO pg_monitor")
        .await;
    let listed = inboxes.listed(AppId(1), UserNumber(1)).await;
    let (shape, rows, table) =
        (inboxes.text(INBOX_TABLES).await, inboxes.text(ROWS).await, inboxes.text(TABLE).await);

    let answer = inboxes.run(&["rebuild", "inbox", "--json"]).await;
    let found = report(&answer);
    assert_eq!(
        (answer.code, &found["switched"], &found["differences"]),
        (0, &json!(true), &json!(0)),
        "{answer:?}"
    );
    assert_eq!(found["items"].to_string(), inboxes.text("SELECT count(*) FROM inbox_item").await);
    for phase in ["replaying 100 %", "comparing", "switching"] {
        assert!(answer.errors.contains(phase), "{}", answer.errors);
    }
    assert_ne!(inboxes.text(TABLE).await, table, "the tables were not replaced");
    assert_eq!(inboxes.text(INBOX_TABLES).await, shape);
    assert_eq!(inboxes.text(ROWS).await, rows);
    assert_eq!(inboxes.text(LEFT).await, "0");

    // Use the connections from before the switch, with the statements that were prepared on them.
    assert_eq!(inboxes.listed(AppId(1), UserNumber(1)).await, listed);
    inboxes.publish(500).await;
    inboxes.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_inbox_is_reported_and_repaired_if_differences_are_accepted() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(1_000).await;
    inboxes.projected().await;
    let (rows, table) = (inboxes.text(ROWS).await, inboxes.text(TABLE).await);
    inboxes
        .execute(
            "DELETE FROM inbox_item WHERE app_id = 1 AND user_number = 1;
             UPDATE inbox_item SET content = '{}' WHERE app_id = 2 AND user_number = 2 AND deleted_at IS NULL;
             UPDATE inbox_counter SET unread = 12345 WHERE app_id = 1 AND user_number = 3;
             INSERT INTO dead_event (projection, stream, seq, message, cause)
             VALUES ('inbox', 'INBOX_0', 1, '', 'a mistake of an earlier release')",
        )
        .await;
    let refused = inboxes.run(&["rebuild", "inbox"]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    for part in [
        "Nothing was switched",
        "The inboxes of 3 of ",
        "app 2 user 2: items changed: ",
        "(content)",
        "--accept-differences",
        "12345",
    ] {
        assert!(refused.output.contains(part), "{part}: {}", refused.output);
    }
    assert_eq!((inboxes.text(TABLE).await, inboxes.text(LEFT).await), (table, "0".to_owned()));

    inboxes.publish(100).await;
    let answer = inboxes.run(&["rebuild", "inbox", "--accept-differences", "--json"]).await;
    let found = report(&answer);
    assert_eq!((answer.code, &found["switched"]), (0, &json!(true)), "{answer:?}");
    assert_eq!(found["differences"], json!(3));
    inboxes.assert_equal().await;
    assert_ne!(inboxes.text(ROWS).await, rows, "the rebuilt tables must have newer items");
    assert_eq!(inboxes.text("SELECT count(*) FROM dead_event").await, "0", "the dead event is applied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_rebuild_changes_nothing_and_the_next_one_starts_again() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(3_000).await;
    inboxes.projected().await;
    // The switch waits while another session reads the live tables.
    let mut reader = inboxes.database.begin().await.unwrap();
    sqlx::query("SELECT FROM inbox_item LIMIT 1").execute(&mut *reader).await.unwrap();
    let table = inboxes.text(TABLE).await;
    for mark in ["replaying 0 %", "replaying 4", "comparing", "switching"] {
        inboxes.await_no_rebuild().await;
        let mut child = inboxes.spawn(&["rebuild", "inbox"]);
        let errors = BufReader::new(child.stderr.take().unwrap());
        // The rebuild prints its progress only at intervals, so it may not print `mark`. In that case wait for the next phase.
        let next = if mark == "switching" { mark } else { "comparing" };
        let reached = tokio::task::spawn_blocking(move || {
            errors.lines().map_while(Result::ok).find(|line| line.contains(mark) || line.contains(next))
        });
        assert!(reached.await.unwrap().is_some(), "{mark}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(inboxes.text(TABLE).await, table, "{mark}");
        assert_eq!(inboxes.text(LEFT).await, "1", "{mark}: the tables of the killed rebuild remain");
    }
    reader.rollback().await.unwrap();
    inboxes.publish(100).await;
    inboxes.await_no_rebuild().await;
    let answer = inboxes.run(&["rebuild", "inbox", "--json"]).await;
    assert_eq!((answer.code, &report(&answer)["switched"]), (0, &json!(true)), "{answer:?}");
    assert_eq!(inboxes.text(LEFT).await, "0");
    inboxes.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erased_user_gets_no_rows_in_the_new_tables() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(600).await;
    inboxes.projected().await;
    // The log has items of both users. One user's erasure is completed, the other's is in progress; the log has no event of
    // either erasure yet.
    let (app, done, leaving) = (AppId(1), UserNumber(5), UserNumber(7));
    inboxes.note_erasure(app, done, true).await;
    inboxes.execute("DELETE FROM inbox_item WHERE app_id = 1 AND user_number = 5").await;
    inboxes.execute("DELETE FROM inbox_counter WHERE app_id = 1 AND user_number = 5").await;
    inboxes.note_erasure(app, leaving, false).await;
    let answer = inboxes.run(&["rebuild", "inbox", "--json"]).await;
    let found = report(&answer);
    assert_eq!(
        (answer.code, &found["switched"], &found["beingErased"]),
        (0, &json!(true), &json!(1)),
        "{answer:?}"
    );
    let of_erased = "SELECT (SELECT count(*) FROM inbox_item WHERE app_id = 1 AND user_number IN (5, 7))
                     + (SELECT count(*) FROM inbox_counter WHERE app_id = 1 AND user_number IN (5, 7))";
    assert_eq!(inboxes.text(of_erased).await, "0");
    // The running projection has read the table `erased` at its start, so it learns of these erasures only from events.
    inboxes.publish_erasure(app, done).await;
    inboxes.publish_erasure(app, leaving).await;
    inboxes.note_erasure(app, leaving, true).await;
    inboxes.publish(200).await;
    inboxes.assert_equal().await;
    assert_eq!(inboxes.text(of_erased).await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_without_its_beginning_is_refused() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(300).await;
    inboxes.projected().await;
    let starts = inboxes.shorten_log().await;
    let answer = inboxes.run(&["rebuild", "inbox", "--json"]).await;
    let found = report(&answer);
    assert_eq!((answer.code, &found["switched"]), (2, &json!(false)), "{answer:?}");
    let cause = found["cause"].as_str().unwrap();
    assert!(cause.contains(&format!("INBOX_0 starts at {}", starts[0])), "{cause}");
    assert_eq!(inboxes.text(LEFT).await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_rebuild_is_refused() {
    let inboxes = Inboxes::start().await;
    let mut first = inboxes.database.acquire().await.unwrap();
    let lock = "SELECT pg_advisory_lock(hashtextextended('inbox_rebuild', 0))";
    sqlx::query(lock).execute(&mut *first).await.unwrap();
    let second = inboxes.run(&["rebuild", "inbox", "--json"]).await;
    assert_eq!((second.code, &report(&second)["switched"]), (1, &json!(false)), "{second:?}");
    assert!(second.errors.contains("another `tidings rebuild inbox` is under way"), "{}", second.errors);
}
