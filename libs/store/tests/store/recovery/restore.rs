//! Restore of rows from the log.

mod ledger;
mod plans;
mod unknown;

use std::sync::Arc;
use std::time::Duration;

use domain::content::{Content, SmsContent};
use domain::event::{ChunkDecisions, ChunkPlanned, DeliveryJob, DeliverySettled, Shape, UserErased};
use domain::send::{IdempotencyKey, Recipient};
use domain::{
    AppId, Channel, DeliveryIds, Digest, Envelope, Event, Lane, SendId, Status, StreamName, Timestamp,
    UserNumber,
};
use store::database::installation::{LogMark, RecordedDatabase};
use store::recovery::restore::{FoundJob, FoundOutcome, FoundPlan, Restore};
use store::sends::cancellation_key::KeyedSends;
use store::sends::chunk::Chunk;
use store::sends::idempotency::{Reservation, ReservedSend};
use store::{Settings, Store};
use testkit::eventually;
use uuid::Uuid;

use crate::{Fixture, NOW, fixture, recipient, send_id, send_to};

const SOON: Duration = Duration::from_secs(10);

impl Fixture {
    async fn restore(&self) -> Restore {
        self.store.recovery().begin_restore().await.unwrap().expect("no other restore is running")
    }

    /// Returns a job for the recipient with the index `place`, whose user number is 100 + `place`.
    fn job(&self, app: AppId, place: u32, channel: Channel, attempt: u32) -> FoundJob {
        let user = UserNumber(100 + i64::from(place));
        let target = format!("target-{place}");
        let id = DeliveryIds::Hashed.derive(send_id(1), user, channel, &target);
        let content = Content::Sms(SmsContent::default());
        let job = DeliveryJob {
            attempt,
            recipient: Some(place),
            ..DeliveryJob::first(id, channel, user, target, content)
        };
        FoundJob { app, send_id: send_id(1), handed_out: true, job }
    }
}

fn accepted(app: AppId, recipients: Vec<Recipient>) -> Chunk {
    Chunk::listed(app, send_id(1), 0, NOW, Arc::new(send_to(recipients)))
}

fn people(count: usize) -> Vec<Recipient> {
    (0..count).map(|place| recipient(&format!("user-{place}"))).collect()
}

/// Returns a plan in which the first `recipients` recipients of a chunk get an inbox item. The plan has `deliveries` external
/// deliveries in total.
fn plan(app: AppId, chunk: u32, recipients: u32, deliveries: u32) -> FoundPlan {
    let first = 100 + i64::from(chunk) * 500;
    let users = (first..).take(recipients as usize).map(|user| (Some(UserNumber(user)), 0)).collect();
    let shapes = vec![Shape { in_app: true, skips: vec![(Channel::WebPush, domain::Reason::NoAddress)] }];
    let decided = ChunkDecisions { shapes, recipients: users, ..ChunkDecisions::default() };
    let (in_app, skipped) = (recipients, recipients);
    let planned = ChunkPlanned {
        chunk,
        recipients,
        in_app,
        deliveries,
        skipped,
        decided: Some(decided),
        expansion: None,
    };
    FoundPlan { app, send_id: send_id(1), planned }
}

fn outcome(found: &FoundJob, status: Status) -> FoundOutcome {
    let settled = DeliverySettled {
        delivery_id: found.job.delivery_id,
        channel: found.job.channel,
        user: found.job.user,
        attempt: found.job.attempt,
        status,
        reason: None,
        provider: Some("main".to_owned()),
    };
    FoundOutcome { app: found.app, at: NOW, settled }
}

#[tokio::test]
async fn one_restore_runs_at_a_time_and_no_service_starts_meanwhile() {
    let fixture = fixture().await;
    fixture.store.database().fix_partitions(1).await.unwrap();
    assert_eq!(fixture.store.database().recorded_database().await.unwrap(), RecordedDatabase::Nowhere);
    fixture.store.database().record_database().await.unwrap();
    assert_eq!(fixture.store.database().recorded_database().await.unwrap(), RecordedDatabase::Here);

    let restore = fixture.restore().await;
    assert!(fixture.store.recovery().begin_restore().await.unwrap().is_none());
    fixture.store.database().record_database().await.unwrap();
    assert_eq!(fixture.store.database().recorded_database().await.unwrap(), RecordedDatabase::HalfRestored);
    drop(restore);
    assert!(
        !fixture.store.recovery().adopt_database().await.unwrap(),
        "an unfinished restore is not adopted"
    );
    assert_eq!(fixture.store.database().recorded_database().await.unwrap(), RecordedDatabase::HalfRestored);
    fixture.restore().await.finish().await.unwrap();
    assert_eq!(fixture.store.database().recorded_database().await.unwrap(), RecordedDatabase::Here);
}

#[tokio::test]
async fn a_dump_restored_into_another_database_is_detected() {
    let fixture = fixture().await;
    fixture.store.database().fix_partitions(1).await.unwrap();
    fixture.store.database().record_database().await.unwrap();
    sqlx::query("UPDATE installation SET database_oid = database_oid + 1")
        .execute(&fixture.pool)
        .await
        .unwrap();
    assert_eq!(fixture.store.database().recorded_database().await.unwrap(), RecordedDatabase::Elsewhere);
    fixture.store.database().record_database().await.unwrap();
    assert_eq!(
        fixture.store.database().recorded_database().await.unwrap(),
        RecordedDatabase::Elsewhere,
        "the identity is not stored again"
    );
    assert!(
        fixture.store.recovery().adopt_database().await.unwrap(),
        "the operator confirms that the database was only moved"
    );
    assert_eq!(fixture.store.database().recorded_database().await.unwrap(), RecordedDatabase::Here);
}

#[tokio::test]
async fn a_dump_restored_over_its_own_database_is_detected() {
    let fixture = fixture().await;
    fixture.store.database().fix_partitions(1).await.unwrap();
    fixture.store.database().record_database().await.unwrap();
    // The table is dropped and created again, as by `pg_restore --clean`.
    sqlx::raw_sql(
        "CREATE TABLE kept AS TABLE installation; DROP TABLE installation;
         CREATE TABLE installation AS TABLE kept",
    )
    .execute(&fixture.pool)
    .await
    .unwrap();
    assert_eq!(fixture.store.database().recorded_database().await.unwrap(), RecordedDatabase::Elsewhere);
}

#[tokio::test]
async fn a_missing_table_identity_is_recorded_if_the_database_is_the_same() {
    let fixture = fixture().await;
    fixture.store.database().fix_partitions(1).await.unwrap();
    fixture.store.database().record_database().await.unwrap();
    let of_before = "UPDATE installation SET table_oid = NULL";
    sqlx::query(of_before).execute(&fixture.pool).await.unwrap();
    assert_eq!(fixture.store.database().recorded_database().await.unwrap(), RecordedDatabase::Nowhere);
    fixture.store.database().record_database().await.unwrap();
    assert_eq!(fixture.store.database().recorded_database().await.unwrap(), RecordedDatabase::Here);

    sqlx::query(of_before).execute(&fixture.pool).await.unwrap();
    fixture.store.database().disown_unrecorded().await.unwrap();
    fixture.store.database().record_database().await.unwrap();
    assert_eq!(fixture.store.database().recorded_database().await.unwrap(), RecordedDatabase::Elsewhere);
    sqlx::query("UPDATE installation SET system_identifier = 1, table_oid = NULL")
        .execute(&fixture.pool)
        .await
        .unwrap();
    fixture.store.database().record_database().await.unwrap();
    assert_eq!(
        fixture.store.database().recorded_database().await.unwrap(),
        RecordedDatabase::Elsewhere,
        "the database was restored from an earlier dump"
    );
}

#[tokio::test]
async fn sessions_of_other_processes_are_listed() {
    let fixture = fixture().await;
    // A pool returns a connection after the statement has ended. With a second connection, the next statement could open a session.
    let settings = Settings { url: fixture.database.url().to_owned(), max_connections: 1 };
    fixture.store.close().await;
    let asking = Store::connect(&settings).await.unwrap();
    eventually(SOON, "the other sessions have ended", async || {
        asking.recovery().other_sessions().await.unwrap().is_empty().then_some(())
    })
    .await;
    let _service = Store::connect(&settings).await.unwrap();
    assert_eq!(asking.recovery().other_sessions().await.unwrap().len(), 1);
}

#[tokio::test]
async fn log_marks_never_decrease() {
    let fixture = fixture().await;
    let mark = |seq, second| LogMark { stream: StreamName::Outcome, seq, at: at(second) };
    for (seq, second) in [(5, 1), (7, 2), (6, 3), (7, 4)] {
        fixture.store.database().mark_log(&[mark(seq, second)]).await.unwrap();
    }
    assert_eq!(fixture.store.database().log_marks().await.unwrap(), [mark(7, 4)]);
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(NOW.millis() + second * 1_000)
}

#[tokio::test]
async fn no_number_is_assigned_twice() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.store.directory().merge_user(app, "ada", domain::content::Object::new()).await.unwrap();
    let number =
        async |user: &str| fixture.store.directory().find_user(app, user).await.unwrap().unwrap().number;
    fixture.restore().await.finish().await.unwrap();
    fixture.store.directory().merge_user(app, "bob", domain::content::Object::new()).await.unwrap();
    assert!(number("bob").await.0 > number("ada").await.0 + 1_000_000_000);
    assert!(fixture.app("other").await.0 > app.0 + 1_000_000);
}

#[tokio::test]
async fn lost_apps_get_a_disabled_row() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let lost = AppId(app.0 + 7);
    let mut restore = fixture.restore().await;
    assert_eq!(restore.add_apps(&[app, lost].into()).await.unwrap(), [lost]);
    assert_eq!(restore.add_apps(&[app, lost].into()).await.unwrap(), []);
    assert_eq!(fixture.count("SELECT count(*) FROM app WHERE disabled AND name LIKE 'lost-%'").await, 1);
}

#[tokio::test]
async fn an_unexpired_idempotency_key_names_its_send_again() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let now: chrono::DateTime<chrono::Utc> =
        sqlx::query_scalar("SELECT now()").fetch_one(&fixture.pool).await.unwrap();
    let keyed = |number: u128, key: &str, accepted_at| {
        let mut send = send_to(people(1));
        let body_hash = Digest([u8::try_from(number).unwrap(); 32]);
        send.idempotency = Some(IdempotencyKey { key: key.to_owned(), body_hash });
        Chunk::listed(app, send_id(number), 0, accepted_at, Arc::new(send))
    };
    let known = ReservedSend { send_id: send_id(9), body_hash: [9; 32], lane: Lane::Bulk };
    let reservation = Reservation { app, key: "known".to_owned(), send: known };
    fixture.store.sends().reserve_keys(&[reservation]).await.unwrap();

    let fresh = keyed(1, "fresh", now.into());
    let accepted = [fresh.clone(), fresh, keyed(2, "old", NOW), keyed(3, "known", now.into())];
    let mut restore = fixture.restore().await;
    for _ in 0..2 {
        restore.add_sends(&accepted).await.unwrap();
    }
    let of = async |key: &str| fixture.store.sends().reserved_key(app, key).await.unwrap();
    let lane = Lane::Transactional;
    assert_eq!(of("fresh").await, Some(ReservedSend { send_id: send_id(1), body_hash: [1; 32], lane }));
    assert_eq!(of("old").await, None);
    assert_eq!(of("known").await, Some(known));
    assert_eq!(fixture.count("SELECT count(*) FROM request WHERE body IS NOT NULL").await, 3);
}

#[tokio::test]
async fn a_cancellation_key_names_its_sends_again() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let send = domain::SendRequest { cancellation_key: Some("order-7".to_owned()), ..send_to(people(1)) };
    let chunk = Chunk::listed(app, send_id(1), 0, NOW, Arc::new(send));
    fixture.restore().await.add_sends(&[chunk]).await.unwrap();
    let sends = KeyedSends { app, key: "order-7", template: None };
    assert_eq!(fixture.store.sends().mark_cancelled(sends, 10).await.unwrap(), [send_id(1)]);
}

#[tokio::test]
async fn a_send_that_is_parked_in_the_backup_is_planned_again() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    park_send(&fixture, app, b"").await;
    let restored = fixture.restore().await.add_sends(&[accepted(app, people(1))]).await.unwrap();
    assert_eq!((restored.requests, fixture.count("SELECT count(*) FROM parked").await), (1, 0));
}

/// Parks the message of a send, so that the backup contains it as parked.
async fn park_send(fixture: &Fixture, app: AppId, message: &[u8]) {
    sqlx::query(
        "INSERT INTO parked (id, app_id, send_id, stream, message, cause)
         VALUES (gen_random_uuid(), $1, $2, 'SEND_transactional', $3, 'own failure')",
    )
    .bind(app.0)
    .bind(send_id(1).0)
    .bind(message)
    .execute(&fixture.pool)
    .await
    .unwrap();
}

#[tokio::test]
async fn erased_users_are_erased_again_and_not_re_created() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let known = fixture.store.directory().merge_user(app, "ada", domain::content::Object::new()).await;
    known.unwrap();
    let ada = fixture.store.directory().find_user(app, "ada").await.unwrap().unwrap().number;
    let mut restore = fixture.restore().await;
    for (user, is_new) in [(ada, true), (UserNumber(100), true), (ada, false)] {
        let erased = UserErased { user, digest: None };
        assert_eq!(restore.add_erasure(app, &erased, NOW).await.unwrap(), is_new);
    }
    assert!(fixture.store.directory().find_user(app, "ada").await.unwrap().is_none());
    assert_eq!(fixture.count("SELECT count(*) FROM erased WHERE digest IS NOT NULL").await, 1);

    // User 100 is not in the backup; only the plan contains the user's identifier.
    restore.add_sends(&[accepted(app, people(2))]).await.unwrap();
    let restored = restore.add_plans(&[plan(app, 0, 2, 0)]).await.unwrap();
    assert_eq!((restored.chunks, restored.users), (1, 1));
    assert!(fixture.store.directory().find_user(app, "user-0").await.unwrap().is_none());
    assert_eq!(fixture.count("SELECT count(*) FROM erased WHERE digest IS NOT NULL").await, 2);
}

#[tokio::test]
async fn an_erased_user_missing_from_the_backup_is_not_planned_again() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let named = app.0.to_string() + "\nuser-0";
    let digest: Vec<u8> = sqlx::query_scalar("SELECT sha256(convert_to($1, 'UTF8'))")
        .bind(named)
        .fetch_one(&fixture.pool)
        .await
        .unwrap();
    let erased = UserErased { user: UserNumber(100), digest: digest.try_into().ok().map(Digest) };
    let mut restore = fixture.restore().await;
    assert!(restore.add_erasure(app, &erased, at(60)).await.unwrap());

    let chunks = [accepted(app, people(2))];
    let mut freeze = fixture.store.sends().freeze(&chunks).await.unwrap();
    let facts = freeze.write_profiles_and_read_facts().await.unwrap();
    assert!(facts.is_erased(&chunks[0], "user-0") && !facts.is_erased(&chunks[0], "user-1"));
    freeze.commit(&facts).await.unwrap();
    assert!(fixture.store.directory().find_user(app, "user-0").await.unwrap().is_none());
}

#[tokio::test]
async fn a_send_is_planned_again_with_the_delivery_ids_of_its_jobs() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let chunks = [accepted(app, people(1))];
    for ids in [DeliveryIds::TimeOrdered, DeliveryIds::Hashed] {
        let mut restore = fixture.restore().await;
        restore.add_sends(&chunks).await.unwrap();
        let mut found = fixture.job(app, 0, Channel::Sms, 1);
        found.job.delivery_id = ids.derive(found.send_id, found.job.user, Channel::Sms, &found.job.target);
        restore.add_jobs(&[found]).await.unwrap();
        restore.finish().await.unwrap();
        let mut freeze = fixture.store.sends().freeze(&chunks).await.unwrap();
        let facts = freeze.write_profiles_and_read_facts().await.unwrap();
        assert_eq!(facts.delivery_ids(&chunks[0]), ids);
    }
}

#[tokio::test]
async fn cancelled_requests_stay_cancelled_after_restore() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut restore = fixture.restore().await;
    restore.add_sends(&[accepted(app, people(1))]).await.unwrap();
    let cancelled = [(app, send_id(1), NOW), (app, SendId(Uuid::from_u128(2)), NOW)];
    assert_eq!(restore.add_cancellations(&cancelled).await.unwrap(), 1);
    assert_eq!(restore.add_cancellations(&cancelled).await.unwrap(), 0);
    assert!(fixture.store.sends().find_request(app, send_id(1)).await.unwrap().unwrap().cancelled);
}

#[tokio::test]
async fn a_parked_send_stays_cancelled_after_restore() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let envelope = Envelope {
        id: send_id(1).0,
        app,
        at: NOW,
        send_id: Some(send_id(1)),
        caused_by: None,
        trace: None,
        event: Event::SendAccepted(Box::new(send_to(people(1)))),
    };
    park_send(&fixture, app, &envelope.encode().unwrap()).await;
    let mut restore = fixture.restore().await;
    let cancelled = [(app, send_id(1), NOW)];
    assert_eq!(restore.add_cancellations(&cancelled).await.unwrap(), 1);
    assert_eq!(restore.add_cancellations(&cancelled).await.unwrap(), 0);
    assert!(fixture.store.sends().find_request(app, send_id(1)).await.unwrap().unwrap().cancelled);
    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 0);
}
