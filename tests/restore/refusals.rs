//! Databases that `tidings restore` refuses, and services that refuse to start until `tidings restore` has run.

use std::time::Duration;

use domain::StreamName;
use event_log::Message;
use serde_json::Value;
use sqlx::PgPool;
use testkit::{Database, Service, eventually};

use crate::installation::Installation;

const SOON: Duration = Duration::from_secs(60);
/// Turns the schema into that of an earlier release, which does not record how far the log was processed.
const OF_BEFORE: &str =
    "DROP INDEX planned_recipient_person;
    CREATE INDEX planned_recipient_user ON planned_recipient (app_id, user_number) WHERE user_number IS NOT NULL;
    ALTER TABLE timer DROP COLUMN delivery_id, DROP COLUMN wait_reason, DROP COLUMN provider, DROP COLUMN code;
    ALTER TABLE installation DROP COLUMN system_identifier, DROP COLUMN database_oid, DROP COLUMN table_oid;
    DROP TABLE cancellation_key;
    DROP TABLE log_mark, restored_job;
    DROP TRIGGER audit_is_append_only ON audit;
    DROP FUNCTION refuse_audit_change;
    DROP INDEX audit_by_app;
    ALTER TABLE audit DROP COLUMN actor_kind, DROP COLUMN before, DROP COLUMN after, DROP COLUMN ip, DROP COLUMN request_id;
    ALTER TABLE delivery DROP CONSTRAINT delivery_status, RESET (fillfactor);
    ALTER TABLE attempt DROP CONSTRAINT attempt_outcome;
    ALTER TABLE webhook_message DROP CONSTRAINT webhook_message_status;
    ALTER TABLE installation DROP COLUMN inbox_removed_before;
    DROP INDEX inbox_item_age;
    DROP TRIGGER webhook_message_passed_on ON webhook_message;
    DROP FUNCTION webhook_messages_pass_on;
    CREATE TRIGGER webhook_message_passed_on AFTER UPDATE ON webhook_message FOR EACH ROW
      WHEN (OLD.head AND (NEW.settled_at IS NOT NULL OR OLD.token IS NOT NULL AND NEW.token IS NULL))
      EXECUTE FUNCTION webhook_message_passes_on();
    ALTER TABLE app DROP COLUMN keep_sends;
    DROP FUNCTION send_id_at;
    ALTER TABLE idempotency_key ADD CONSTRAINT idempotency_key_app_id_fkey FOREIGN KEY (app_id) REFERENCES app;
    ALTER TABLE request ADD CONSTRAINT request_app_id_fkey FOREIGN KEY (app_id) REFERENCES app;
    ALTER TABLE suppression DROP COLUMN user_number;
    ALTER TABLE request DROP COLUMN delivery_ids;
    DROP TABLE topic_subscription, deleted_topic, topic;
    ALTER TABLE app DROP COLUMN max_topics, DROP COLUMN max_subscriptions, DROP COLUMN realtime_connections;
    ALTER TABLE app DROP COLUMN max_send_megabytes, DROP COLUMN max_file_megabytes;
    ALTER TABLE app DROP COLUMN brand_name, DROP COLUMN brand_logo, DROP COLUMN brand_color, DROP COLUMN brand_address,
      DROP COLUMN email_button, DROP COLUMN email_unsubscribe, DROP COLUMN email_layout;
    ALTER TABLE installation DROP COLUMN log_store;
    ALTER TABLE checkpoint DROP COLUMN started_at;
    DROP TABLE app_bytes;
    ALTER TABLE request DROP COLUMN topics, DROP COLUMN expanding;
    ALTER TABLE plan DROP COLUMN expansion;
    DROP INDEX timer_publishes_send;
    DROP INDEX inbox_item_snoozed;
    ALTER TABLE inbox_item DROP COLUMN archived_at, DROP COLUMN snoozed_until;
    ALTER TABLE inbox_counter DROP COLUMN hidden;
    CREATE INDEX inbox_item_list ON inbox_item (app_id, user_number, created_at DESC, id DESC) WHERE deleted_at IS NULL;
    DROP INDEX delivery_send, delivery_user;
    CREATE INDEX delivery_send ON delivery (app_id, send_id, recipient_index);
    CREATE INDEX delivery_user ON delivery (app_id, user_number);
    DROP INDEX app_user_email, app_user_phone, app_user_identifier, app_user_name;
    DROP INDEX suppression_mailbox;
    DROP FUNCTION mailbox_key;
    ALTER TABLE delivery DROP COLUMN detail;
    ALTER TABLE planned_recipient DROP COLUMN details;
    DROP INDEX attempt_receipt_key, early_receipt_uncounted;
    ALTER TABLE early_receipt DROP COLUMN notation, DROP COLUMN number_ends, DROP COLUMN missed_at;
    ALTER TABLE message_failure DROP COLUMN unended;
    ALTER TABLE app_user DROP COLUMN unproven;
    ALTER TABLE web_push_subscription DROP COLUMN proven;
    DROP TABLE admin_token, redrive_run, refused_call, operator_code, operator_session, operator_grant, operator_identity, operator;
    DROP INDEX parked_age, suppression_pruned;
    ALTER TABLE category DROP COLUMN position;
    ALTER TABLE template_version DROP COLUMN mjml;
    ALTER TABLE provider DROP COLUMN set_times;
    ALTER INDEX checkpoint_pkey RESET (deduplicate_items);
    ALTER INDEX inbox_counter_pkey RESET (deduplicate_items);
    ALTER TABLE inbox_counter SET (fillfactor = 70);
    DELETE FROM _sqlx_migrations WHERE version IN (21, 24, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 57, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 77, 78, 80, 81, 82)";

async fn execute(database: &Database, statements: &'static str) {
    let pool = PgPool::connect(database.url()).await.unwrap();
    sqlx::raw_sql(statements).execute(&pool).await.unwrap();
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_use_is_not_restored() {
    let installation = Installation::start().await;
    let database = &installation.database;
    let mut service =
        Service::start("tidings-inbox", &[], &installation.environment(database).pairs()).unwrap();
    let pool = PgPool::connect(database.url()).await.unwrap();
    let sessions = async |most: i64| {
        let others: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tidings'",
        )
        .fetch_one(&pool)
        .await
        .unwrap();
        (others.min(1) == most).then_some(())
    };
    eventually(SOON, "the service is connected", async || sessions(1).await).await;
    let at_work = "Tidings is connected to this database";
    for arguments in [&["restore"][..], &["restore", "--dry-run"], &["restore", "--nothing-lost"]] {
        installation.refuses(database, arguments, at_work);
    }
    service.kill();
    eventually(SOON, "PostgreSQL has closed the sessions of the killed service", async || sessions(0).await)
        .await;

    for arguments in [&["restore"][..], &["restore", "--dry-run"]] {
        installation.refuses(database, arguments, "this is the database that services work on");
    }
    let report = installation.accepts(database, &["restore", "--physical-copy", "--json"]);
    let report: Value = serde_json::from_str(report.lines().next().unwrap()).unwrap();
    assert_eq!(report["report"]["outcome"], "restored", "{report}");
    installation.accepts(database, &["migrate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_dump_is_detected_anywhere_and_accepted_unchanged_only_if_complete() {
    let installation = Installation::start().await;
    let dump = installation.dump();
    installation.database.restore_in_place(&dump).unwrap();
    installation.refuses(&installation.database, &["migrate"], "restored from a backup");
    installation.accepts(&installation.database, &["restore", "--dry-run"]);
    installation.accepts(&installation.database, &["restore"]);
    installation.accepts(&installation.database, &["migrate"]);

    let moved = Database::restored(&dump).await.unwrap();
    installation.refuses(&moved, &["migrate"], "restored from a backup");
    execute(&moved, "UPDATE installation SET system_identifier = 0, database_oid = 0").await;
    installation.refuses(&moved, &["migrate"], "the log was not read to its end");
    installation.refuses(&moved, &["restore", "--nothing-lost"], "run `tidings restore` until it completes");
    installation.accepts(&moved, &["restore"]);

    moved.restore_in_place(&dump).unwrap();
    let said = installation.accepts(&moved, &["restore", "--nothing-lost"]);
    assert!(said.contains("Accepted as it is"), "{said}");
    installation.accepts(&moved, &["migrate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_of_an_earlier_release_is_restored_only_with_the_whole_log() {
    let installation = Installation::start().await;
    execute(&installation.database, OF_BEFORE).await;
    let dump = installation.dump();
    let restored = Database::restored(&dump).await.unwrap();
    installation.refuses(&restored, &["restore", "--dry-run"], "of an earlier release");
    let said = installation.accepts(&restored, &["restore"]);
    assert!(said.contains("Restored.") && said.contains("Cannot be recovered:"), "{said}");
    installation.accepts(&restored, &["migrate"]);

    // The dump does not record how far the log was processed, so the restore needs the log from its beginning.
    let log = installation.log().await;
    for _ in 0..3 {
        log.publish(Message { stream: StreamName::Outcome, id: None, payload: "event".into() })
            .await
            .unwrap();
    }
    log.purge_below(StreamName::Outcome, 3).await.unwrap();
    let too_old = Database::restored(&dump).await.unwrap();
    installation.refuses(
        &too_old,
        &["restore"],
        "stream OUTCOME begins at 3, but the backup contains its events only up to 0",
    );
    installation.refuses(&too_old, &["migrate"], "run `tidings restore` first");
}
