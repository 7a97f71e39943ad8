//! `tidings rebuild inbox` if the log has lost its first messages: from a restored backup, and the log from there.

use std::io::{BufRead, BufReader};

use domain::{AppId, UserNumber};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::directory::Answer;
use crate::inboxes::Inboxes;

fn report(answer: &Answer) -> Value {
    serde_json::from_str(&answer.output).unwrap_or_else(|_| panic!("{answer:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_without_a_sufficient_backup_is_refused_and_names_the_required_one() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(300).await;
    inboxes.projected().await;
    let early = inboxes.backed_up().await;
    inboxes.publish(300).await;
    inboxes.projected().await;
    let starts = inboxes.shorten_log().await;

    let alone = inboxes.run(&["rebuild", "inbox", "--json"]).await;
    let found = report(&alone);
    assert_eq!((alone.code, &found["switched"]), (2, &json!(false)), "{alone:?}");
    let cause = found["cause"].as_str().unwrap();
    for (stream, start) in ["INBOX_0", "INBOX_1"].into_iter().zip(&starts) {
        let needed =
            format!("{stream} starts at {start}: a backup must have the inbox up to {} at least", start - 1);
        assert!(cause.contains(&needed), "{needed}: {cause}");
    }
    assert!(cause.contains("--backup postgres://"), "{cause}");

    let late = inboxes.run(&["rebuild", "inbox", "--backup", early.url()]).await;
    assert!(late.code == 2 && late.errors.contains(", and this goes up to "), "{late:?}");
    assert!(!late.errors.contains(early.url()), "{}", late.errors);

    let others = Inboxes::start().await;
    let foreign = others.backed_up().await;
    let answer = inboxes.run(&["rebuild", "inbox", "--backup", foreign.url()]).await;
    assert!(answer.code == 1 && answer.errors.contains("of another installation"), "{answer:?}");
    assert_eq!(inboxes.text("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'inbox_%'").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_backup_and_the_later_log_produce_the_same_inbox() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(1_500).await;
    inboxes.projected().await;
    let backup = inboxes.backed_up().await;
    inboxes.shorten_log().await;
    inboxes.publish(700).await;
    inboxes.projected().await;
    let from_backup = ["--backup", backup.url(), "--json"];
    let verified = inboxes.run(&[&["verify"][..], &from_backup].concat()).await;
    assert_eq!((verified.code, &report(&verified)["equal"]), (0, &json!(true)), "{verified:?}");

    // A rebuild killed while it copies continues from there, but only with the backup.
    let mut child = inboxes.spawn(&["rebuild", "inbox", "--backup", backup.url()]);
    let errors = BufReader::new(child.stderr.take().unwrap());
    let copying = tokio::task::spawn_blocking(move || {
        errors.lines().map_while(Result::ok).any(|line| line.contains("copying the backup"))
    });
    assert!(copying.await.unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    inboxes.await_no_rebuild().await;

    let (app, user) = (AppId(1), UserNumber(7));
    inboxes.note_erasure(app, user, false).await;
    let damage =
        "UPDATE inbox_item SET state = 'forged' WHERE app_id = 1 AND user_number = 8 AND deleted_at IS NULL";
    inboxes.execute(damage).await;
    let refused = inboxes.run(&[&["rebuild", "inbox"][..], &from_backup].concat()).await;
    let found = report(&refused);
    assert_eq!(
        (refused.code, &found["source"], &found["differences"]),
        (1, &json!("backup"), &json!(1)),
        "{refused:?}"
    );
    assert_eq!(found["shown"][0]["user"], json!(8));
    // Everything is copied: the backup is no longer needed.
    let answer = inboxes.run(&["rebuild", "inbox", "--accept-differences", "--json"]).await;
    let found = report(&answer);
    assert_eq!(
        (answer.code, &found["switched"], &found["resumed"]),
        (0, &json!(true), &json!(true)),
        "{answer:?}"
    );

    // A user whose erasure is in progress has no rows in the new tables, even if backup and log have some.
    let of_erased = "SELECT (SELECT count(*) FROM inbox_item WHERE app_id = 1 AND user_number = 7)
                     + (SELECT count(*) FROM inbox_counter WHERE app_id = 1 AND user_number = 7)";
    assert_eq!(inboxes.text(of_erased).await, "0");
    inboxes.publish_erasure(app, user).await;
    inboxes.note_erasure(app, user, true).await;
    inboxes.publish(200).await;
    inboxes.projected().await;
    assert_eq!(inboxes.text(of_erased).await, "0");
    let verified = inboxes.run(&[&["verify"][..], &from_backup].concat()).await;
    assert_eq!(verified.code, 0, "{verified:?}");
    assert_eq!(inboxes.run(&["verify"]).await.code, 2, "the log alone is not sufficient");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_an_earlier_release_is_brought_up_to_date() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(600).await;
    inboxes.projected().await;
    let earlier = inboxes.backed_up_by_an_earlier_release().await;
    inboxes.shorten_log().await;
    inboxes.publish(300).await;
    inboxes.projected().await;
    let from_backup = ["--backup", earlier.url(), "--json"];
    let verified = inboxes.run(&[&["verify"][..], &from_backup].concat()).await;
    assert_eq!((verified.code, &report(&verified)["equal"]), (0, &json!(true)), "{verified:?}");
    let answer = inboxes.run(&[&["rebuild", "inbox"][..], &from_backup].concat()).await;
    assert_eq!((answer.code, &report(&answer)["switched"]), (0, &json!(true)), "{answer:?}");

    // A backup of a later release is not changed.
    let later = "INSERT INTO _sqlx_migrations SELECT version + 1, description, now(), success, checksum, 0
                 FROM _sqlx_migrations ORDER BY version DESC LIMIT 1";
    let backup = PgPool::connect(earlier.url()).await.unwrap();
    sqlx::raw_sql(later).execute(&backup).await.unwrap();
    let refused = inboxes.run(&[&["rebuild", "inbox"][..], &from_backup].concat()).await;
    assert!(refused.code == 1 && refused.errors.contains("of a newer release"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_the_log_no_longer_continues_is_not_finished() {
    let inboxes = Inboxes::start().await;
    inboxes.publish(300).await;
    inboxes.projected().await;
    let backup = inboxes.backed_up().await;
    inboxes.shorten_log().await;
    inboxes.execute("UPDATE inbox_counter SET unseen = 77 WHERE app_id = 1 AND user_number = 3").await;
    let rebuild = ["rebuild", "inbox", "--backup", backup.url(), "--json"];
    let begun = inboxes.run(&rebuild).await;
    assert!(begun.code == 1 && begun.errors.contains("copying the backup"), "{begun:?}");
    inboxes.execute("UPDATE inbox_rebuild.origin SET is_copied = false").await;

    inboxes.publish(300).await;
    inboxes.projected().await;
    inboxes.shorten_log().await;
    let refused = inboxes.run(&rebuild).await;
    assert!(refused.code == 2 && !refused.errors.contains("copying the backup"), "{refused:?}");
}
