//! `tidings verify`: compares the live inbox with a replay of the log.

use domain::{AppId, UserNumber};
use serde_json::{Value, json};

use crate::directory::Answer;
use crate::inboxes::Inboxes;

const SCRATCH: &str = "SELECT count(*) FROM pg_namespace WHERE nspname = 'inbox_verify'";

fn report(answer: &Answer) -> Value {
    serde_json::from_str(&answer.output).unwrap_or_else(|_| panic!("{answer:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inbox_equals_its_replay_while_events_arrive() {
    let inboxes = Inboxes::start().await;
    let empty = inboxes.run(&["verify", "--json"]).await;
    assert_eq!((empty.code, &report(&empty)["users"]), (0, &json!(0)), "{empty:?}");

    inboxes.publish(2_000).await;
    let (answer, ()) = tokio::join!(inboxes.run(&["verify", "--json"]), inboxes.publish(2_000));
    assert_eq!(answer.code, 0, "{answer:?}");
    inboxes.projected().await;
    let answer = inboxes.run(&["verify", "--json"]).await;
    let found = report(&answer);
    assert_eq!((answer.code, &found["equal"], &found["differences"]), (0, &json!(true), &json!(0)));
    assert_eq!(found["items"].to_string(), inboxes.text("SELECT count(*) FROM inbox_item").await);
    assert_eq!(found["users"].to_string(), inboxes.text("SELECT count(*) FROM inbox_counter").await);
    for stream in ["INBOX_0", "INBOX_1"] {
        let checkpoint =
            format!("SELECT seq FROM checkpoint WHERE projection = 'inbox' AND stream = '{stream}'");
        assert_eq!(found["positions"][stream].to_string(), inboxes.text(&checkpoint).await);
    }
    assert!(answer.errors.contains("replaying 100 %"), "{}", answer.errors);
    let people = inboxes.run(&["verify"]).await;
    assert!(people.code == 0 && people.output.starts_with("Equal: "), "{people:?}");
    assert_eq!(inboxes.text(SCRATCH).await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_difference_in_any_column_is_reported() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(600).await;
    inboxes.projected().await;
    let one = "SELECT min(id) FROM inbox_item WHERE app_id = 1 AND deleted_at IS NULL";
    let id = inboxes.text(one).await;
    let user =
        inboxes.text(&format!("SELECT user_number FROM inbox_item WHERE app_id = 1 AND id = {id}")).await;
    let of_item = format!("WHERE app_id = 1 AND id = {id}");
    inboxes.execute(&format!("CREATE TABLE kept AS SELECT * FROM inbox_item {of_item}")).await;
    let doctored = [
        ("send_id", "gen_random_uuid()"),
        ("category_id", "coalesce(category_id, 0) + 1"),
        ("created_at", "created_at + interval '1 microsecond'"),
        ("seen_at", "coalesce(seen_at, created_at) + interval '1 second'"),
        ("clicked_at", "coalesce(clicked_at, created_at) + interval '1 second'"),
        ("deleted_at", "created_at"),
        ("state", "coalesce(state, '') || '!'"),
        ("content", "'{\"title\":\"Forged\"}'"),
        ("event_id", "gen_random_uuid()"),
        ("archived_at", "coalesce(archived_at, created_at) + interval '1 second'"),
        ("snoozed_until", "coalesce(snoozed_until, created_at) + interval '100 years'"),
    ];
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'inbox_item'
                   AND table_schema = 'public' AND column_name NOT IN ('app_id', 'user_number', 'id')";
    assert_eq!(inboxes.text(columns).await, doctored.len().to_string(), "a column is not covered");
    for (column, value) in doctored {
        inboxes.execute(&format!("UPDATE inbox_item SET {column} = {value} {of_item}")).await;
        let answer = inboxes.run(&["verify", "--json"]).await;
        let found = report(&answer);
        assert_eq!((answer.code, &found["differences"]), (1, &json!(1)), "{column}: {answer:?}");
        let shown = &found["shown"][0];
        assert_eq!((shown["app"].to_string(), shown["user"].to_string()), ("1".to_owned(), user.clone()));
        let id: i64 = id.parse().unwrap();
        let changed = json!({"count": 1, "first": [{"id": id, "columns": [column]}]});
        assert_eq!(shown["changed"], changed, "{column}");
        assert!(!answer.output.contains("Forged") && !answer.errors.contains("Forged"));
        inboxes
            .execute(&format!("UPDATE inbox_item i SET {column} = kept.{column} FROM kept WHERE i.app_id = 1 AND i.id = {id}"))
            .await;
    }
    assert_eq!(inboxes.run(&["verify"]).await.code, 0, "the changes were undone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_and_extra_items_and_wrong_counters_are_reported_and_counted() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(600).await;
    inboxes.projected().await;
    inboxes
        .execute(
            "DELETE FROM inbox_item WHERE app_id = 1 AND user_number = 1;
             UPDATE inbox_item SET user_number = 3 WHERE app_id = 1 AND user_number = 2 AND send_id NOT IN (
               SELECT send_id FROM inbox_item WHERE app_id = 1 AND user_number = 3);
             UPDATE inbox_counter SET unread = unread + 1 WHERE app_id = 1 AND user_number = 4;
             INSERT INTO inbox_counter VALUES (1, 99, 0, 0, 0), (1, 98, 1, 0, 0)",
        )
        .await;
    let answer = inboxes.run(&["verify", "--json", "--show", "3"]).await;
    let found = report(&answer);
    assert_eq!(answer.code, 1);
    // `verify` treats a counter row with zeros like a missing row.
    assert_eq!((&found["differences"], found["shown"].as_array().unwrap().len()), (&json!(5), 3), "{found}");
    let shown = &found["shown"];
    assert_eq!([&shown[0]["user"], &shown[1]["user"], &shown[2]["user"]], [&json!(1), &json!(2), &json!(3)]);
    assert!(shown[0]["missing"]["count"].as_u64().unwrap() > 0);
    assert_eq!(shown[0]["missing"]["count"].as_u64(), inbox_size(&shown[0]["missing"]));
    assert_eq!(shown[1]["missing"]["count"], shown[2]["unexpected"]["count"]);

    let people = inboxes.run(&["verify"]).await;
    assert_eq!(people.code, 1);
    for part in
        ["Different: the inboxes of 5 of ", "user 4: counters (total/unread/unseen/hidden) are ", "user 98: "]
    {
        assert!(people.output.contains(part), "{part}: {}", people.output);
    }
}

/// Returns the number of items in an inbox of the report. The report lists at most ten items in `first`; if it lists ten, `count`
/// has the number.
fn inbox_size(items: &Value) -> Option<u64> {
    let named = items["first"].as_array().unwrap().len() as u64;
    if named < 10 { Some(named) } else { items["count"].as_u64() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_being_erased_are_ignored_and_erased_users_must_have_no_rows() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(600).await;
    let (app, user) = (AppId(1), UserNumber(5));
    inboxes.projected().await;
    inboxes.note_erasure(app, user, false).await;
    let answer = inboxes.run(&["verify", "--json"]).await;
    assert_eq!((answer.code, &report(&answer)["beingErased"]), (0, &json!(1)), "{answer:?}");
    inboxes.note_erasure(app, user, true).await;
    let answer = inboxes.run(&["verify", "--json"]).await;
    assert_eq!(
        (answer.code, &report(&answer)["shown"][0]["user"]),
        (1, &json!(5)),
        "the inbox has no erasure event"
    );
    inboxes.publish_erasure(app, user).await;
    inboxes.projected().await;
    assert_eq!(inboxes.run(&["verify"]).await.code, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_is_refused_without_the_beginning_of_the_log() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(300).await;
    inboxes.projected().await;
    inboxes.log.purge_below(domain::StreamName::Inbox(1), 11).await.unwrap();
    let answer = inboxes.run(&["verify", "--json"]).await;
    let found = report(&answer);
    assert_eq!((answer.code, &found["equal"]), (2, &Value::Null));
    let cause = found["cause"].as_str().unwrap();
    assert!(cause.contains("INBOX_1 starts at 11") && cause.contains("up to 10"), "{cause}");
    assert!(answer.errors.contains(cause));
    assert_eq!(inboxes.text(SCRATCH).await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tables_of_a_killed_verification_are_dropped_and_a_concurrent_one_is_refused() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(300).await;
    inboxes.projected().await;
    // Hold the lock that another running verification would hold.
    let mut other = inboxes.database.acquire().await.unwrap();
    let lock = "SELECT pg_advisory_lock(hashtextextended('inbox_verify', 0))";
    sqlx::query(lock).execute(&mut *other).await.unwrap();
    let answer = inboxes.run(&["verify"]).await;
    assert!(answer.code == 2 && answer.errors.contains("is running"), "{answer:?}");
    sqlx::query("SELECT pg_advisory_unlock_all()").execute(&mut *other).await.unwrap();
    inboxes.execute("CREATE SCHEMA inbox_verify; CREATE TABLE inbox_verify.inbox_item (id bigint)").await;
    assert_eq!(inboxes.run(&["verify"]).await.code, 0);
    assert_eq!(inboxes.text(SCRATCH).await, "0");
}
