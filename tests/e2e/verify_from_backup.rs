//! `tidings verify --backup`: if the first messages were removed from the log, the replay starts from the rows of a restored
//! backup and continues with the messages that came after the backup.

use domain::{AppId, UserNumber};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::directory::Answer;
use crate::inboxes::Inboxes;

fn report(answer: &Answer) -> Value {
    serde_json::from_str(&answer.output).unwrap_or_else(|_| panic!("{answer:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_ends_before_the_log_starts_is_refused_with_the_needed_position() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(300).await;
    inboxes.projected().await;
    let early = inboxes.backed_up().await;
    inboxes.publish(300).await;
    inboxes.projected().await;
    let starts = inboxes.shorten_log().await;

    let alone = inboxes.run(&["verify", "--json"]).await;
    let found = report(&alone);
    assert_eq!((alone.code, &found["equal"]), (2, &Value::Null), "{alone:?}");
    let cause = found["cause"].as_str().unwrap();
    for (stream, start) in ["INBOX_0", "INBOX_1"].into_iter().zip(&starts) {
        let needed =
            format!("{stream} starts at {start}: a backup must have the inbox up to {} at least", start - 1);
        assert!(cause.contains(&needed), "{needed}: {cause}");
    }
    assert!(cause.contains("--backup postgres://"), "{cause}");

    let late = inboxes.run(&["verify", "--backup", early.url()]).await;
    assert!(late.code == 2 && late.errors.contains(", and this goes up to "), "{late:?}");
    assert!(!late.errors.contains(early.url()), "{}", late.errors);

    let others = Inboxes::start().await;
    let foreign = others.backed_up().await;
    let answer = inboxes.run(&["verify", "--backup", foreign.url()]).await;
    assert!(answer.code == 2 && answer.errors.contains("of another installation"), "{answer:?}");
    assert_eq!(inboxes.text("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'inbox_%'").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_backup_and_the_log_after_it_give_the_same_inbox() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(1_500).await;
    inboxes.projected().await;
    let backup = inboxes.backed_up().await;
    inboxes.shorten_log().await;
    inboxes.publish(700).await;
    inboxes.projected().await;
    let from_backup = ["verify", "--backup", backup.url(), "--json"];
    let verified = inboxes.run(&from_backup).await;
    assert_eq!((verified.code, &report(&verified)["equal"]), (0, &json!(true)), "{verified:?}");

    inboxes
        .execute(
            "UPDATE inbox_item SET state = 'forged' WHERE app_id = 1 AND user_number = 8 AND deleted_at IS NULL",
        )
        .await;
    let verified = inboxes.run(&from_backup).await;
    let found = report(&verified);
    assert_eq!((verified.code, &found["differences"]), (1, &json!(1)), "{verified:?}");
    assert_eq!(found["shown"][0]["user"], json!(8));

    // `verify` ignores rows of an erased user in the backup.
    let (app, user) = (AppId(1), UserNumber(8));
    inboxes.publish_erasure(app, user).await;
    inboxes.note_erasure(app, user, true).await;
    inboxes.projected().await;
    let verified = inboxes.run(&from_backup).await;
    assert_eq!((verified.code, &report(&verified)["equal"]), (0, &json!(true)), "{verified:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_an_earlier_release_is_migrated_and_one_of_a_newer_release_refused() {
    let inboxes = Inboxes::start().await;
    inboxes.hides_items.set(false);
    inboxes.publish(600).await;
    inboxes.projected().await;
    let earlier = inboxes.backed_up_by_an_earlier_release().await;
    inboxes.shorten_log().await;
    inboxes.hides_items.set(true);
    inboxes.publish(300).await;
    inboxes.projected().await;
    let from_backup = ["verify", "--backup", earlier.url(), "--json"];
    let verified = inboxes.run(&from_backup).await;
    assert_eq!((verified.code, &report(&verified)["equal"]), (0, &json!(true)), "{verified:?}");

    // A backup of a newer release is refused and not migrated.
    let later = "INSERT INTO _sqlx_migrations SELECT version + 1, description, now(), success, checksum, 0
                 FROM _sqlx_migrations ORDER BY version DESC LIMIT 1";
    let backup = PgPool::connect(earlier.url()).await.unwrap();
    sqlx::raw_sql(later).execute(&backup).await.unwrap();
    let refused = inboxes.run(&from_backup).await;
    assert!(refused.code == 2 && refused.errors.contains("of a newer release"), "{refused:?}");
}
