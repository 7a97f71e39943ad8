//! Settlement of attempts.

use std::time::Duration;

use domain::{Answer, AppId, Channel, DeliveryId, Lane, Outcome, Reason, Status, StreamName, UserNumber};
use sqlx::Row;
use store::deliveries::ledger::{Claim, ClaimRequest};
use store::deliveries::settlement::{RecordedStep, Settlement};
use store::deliveries::timer::NewTimer;
use uuid::Uuid;

use crate::{Fixture, NOW, fixture, send_id};

const STREAM: StreamName = StreamName::Job(Channel::Email, Lane::Transactional);
const SENT: Outcome = Outcome::Sent { provider_id: None };
const RETRY: Outcome = Outcome::Retry { after: None, limit: None };

impl Fixture {
    /// Claims the attempt, and returns a settlement of the attempt.
    async fn attempt(&self, app: AppId, delivery: DeliveryId, attempt: u32, outcome: Outcome) -> Settlement {
        let request = ClaimRequest { app, delivery, attempt, provider: Some("main".to_owned()) };
        let lease = Duration::from_secs(60);
        let Claim::Granted { token, .. } =
            self.store.deliveries().claim(&[request], lease).await.unwrap().remove(0)
        else {
            panic!("not granted")
        };
        let next = match outcome {
            Outcome::Sent { .. } => RecordedStep::End(Status::Sent, None),
            Outcome::TargetGone(_) => RecordedStep::End(Status::Failed, Some(Reason::TargetGone)),
            _ => RecordedStep::Retry(timer(app, 1)),
        };
        Settlement {
            app,
            send_id: Some(send_id(1)),
            delivery,
            user: UserNumber(1),
            token,
            attempt,
            provider: Some("main".to_owned()),
            started_at: NOW,
            ended_at: NOW + Duration::from_millis(5),
            answer: Answer::new(outcome, "250", "as said"),
            next,
            job: (STREAM, b"the job".to_vec().into()),
            receipts: false,
        }
    }

    async fn settle(&self, settlement: &Settlement) -> bool {
        self.store.deliveries().settle(std::slice::from_ref(settlement)).await.unwrap()[0]
    }

    /// Returns the delivery's status and attempt, and the numbers of settled attempts, timers and parked rows.
    async fn ledger(&self, delivery: DeliveryId) -> (String, i32, i64, i64, i64) {
        sqlx::query_as(
            "SELECT status, attempt, (SELECT count(*) FROM attempt WHERE delivery_id = id),
               (SELECT count(*) FROM timer), (SELECT count(*) FROM parked) FROM delivery WHERE id = $1",
        )
        .bind(delivery.0)
        .fetch_one(&self.pool)
        .await
        .unwrap()
    }
}

fn timer(app: AppId, number: u128) -> NewTimer {
    let id = Uuid::from_u128(number);
    let send_id = Some(send_id(1));
    NewTimer {
        id,
        due_at: NOW,
        stream: STREAM,
        message: b"again".to_vec(),
        app,
        send_id,
        user: Some(UserNumber(1)),
        wait: None,
    }
}

#[tokio::test]
async fn the_holder_of_a_claim_settles_once() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.deliveries(app, 1).await[0];
    let mine = fixture.attempt(app, id, 1, Outcome::Sent { provider_id: Some("p-7".to_owned()) }).await;
    let foreign = Settlement { token: Uuid::from_u128(9), ..mine.clone() };
    assert!(!fixture.settle(&foreign).await);
    assert_eq!(fixture.ledger(id).await, ("sending".to_owned(), 1, 0, 0, 0));
    assert!(fixture.settle(&mine).await);
    assert_eq!(fixture.ledger(id).await, ("sent".to_owned(), 1, 1, 0, 0));
    assert!(!fixture.settle(&mine).await, "already settled");
    assert_eq!(fixture.ledger(id).await, ("sent".to_owned(), 1, 1, 0, 0));
    let attempt = sqlx::query("SELECT * FROM attempt").fetch_one(&fixture.pool).await.unwrap();
    let text = |column| attempt.get::<&str, _>(column);
    assert_eq!(
        ["provider", "outcome", "provider_code", "provider_message", "provider_id"].map(text),
        ["main", "sent", "250", "as said", "p-7"]
    );
    let times = ["started_at", "ended_at"]
        .map(|column| domain::Timestamp::from(attempt.get::<chrono::DateTime<chrono::Utc>, _>(column)));
    assert_eq!(times, [mine.started_at, mine.ended_at]);
    let ended = "SELECT count(*) FROM delivery
                 WHERE provider_id = 'p-7' AND lease_until IS NULL AND settled_at IS NOT NULL";
    assert_eq!(fixture.count(ended).await, 1);
}

#[tokio::test]
async fn settling_a_retry_sets_a_timer_and_exhausted_retries_park_the_job() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.deliveries(app, 1).await[0];
    let first = fixture.attempt(app, id, 1, RETRY).await;
    assert!(fixture.settle(&first).await && !fixture.settle(&first).await);
    assert_eq!(fixture.ledger(id).await, ("retrying".to_owned(), 2, 1, 1, 0));
    let due = fixture.store.deliveries().due_timers(1).await.unwrap();
    assert_eq!((due.timers[0].stream, &due.timers[0].message[..]), (STREAM, &b"again"[..]));
    drop(due);

    let parking = Settlement {
        next: RecordedStep::Park(STREAM, b"last".to_vec()),
        ..fixture.attempt(app, id, 2, RETRY).await
    };
    assert!(fixture.settle(&parking).await && !fixture.settle(&parking).await);
    assert_eq!(fixture.ledger(id).await, ("parked".to_owned(), 3, 2, 1, 1));
    let state = fixture.store.deliveries().delivery_states(&[(app, id)]).await.unwrap().remove(0);
    assert!(state.is_parked_after(2) && !state.is_parked_after(1));
    assert_eq!(state.reason, Some(Reason::RetriesExhausted));
    let parked = "SELECT count(*) FROM parked WHERE delivery_id IS NOT NULL AND user_number = 1
                  AND message = 'last' AND cause = '250' AND stream = 'JOB_email_transactional'";
    assert_eq!(fixture.count(parked).await, 1);
}

#[tokio::test]
async fn a_dead_target_is_suppressed() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ids = fixture.deliveries(app, 2).await;
    let gone = fixture.attempt(app, ids[0], 1, Outcome::GONE).await;
    let lost = Settlement { token: Uuid::nil(), ..fixture.attempt(app, ids[1], 1, Outcome::GONE).await };
    assert_eq!(fixture.store.deliveries().settle(&[lost, gone]).await.unwrap(), [false, true]);
    let target: String =
        sqlx::query_scalar("SELECT target FROM suppression").fetch_one(&fixture.pool).await.unwrap();
    assert_eq!(target, "user-1@example.com");
}

#[tokio::test]
async fn a_delivery_of_another_app_is_not_settled() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let id = fixture.deliveries(app, 1).await[0];
    let mine = fixture.attempt(app, id, 1, SENT).await;
    assert!(!fixture.settle(&Settlement { app: other, ..mine.clone() }).await);
    assert!(!fixture.settle(&Settlement { attempt: 2, ..mine.clone() }).await, "wrong attempt");
    assert_eq!(fixture.ledger(id).await, ("sending".to_owned(), 1, 0, 0, 0));
    assert!(fixture.settle(&mine).await);
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_does_not_settle() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.deliveries(app, 1).await[0];
    let late = fixture.attempt(app, id, 1, SENT).await;
    sqlx::query("UPDATE delivery SET lease_until = now()").execute(&fixture.pool).await.unwrap();
    let next = fixture.attempt(app, id, 1, RETRY).await;
    assert!(!fixture.settle(&late).await);
    assert_eq!(fixture.store.deliveries().settle(&[late.clone(), next]).await.unwrap(), [false, true]);
    assert_eq!(fixture.ledger(id).await, ("retrying".to_owned(), 2, 1, 1, 0));
}

#[tokio::test]
async fn a_late_answer_overrides_the_expiry_that_a_claim_recorded() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ids = fixture.deliveries(app, 2).await;
    let late = fixture.attempt(app, ids[0], 1, SENT).await;
    let expired = Settlement {
        next: RecordedStep::End(Status::Expired, None),
        ..fixture.attempt(app, ids[1], 1, RETRY).await
    };
    sqlx::query("UPDATE delivery SET lease_until = now(), expires_at = now() WHERE user_number = 1")
        .execute(&fixture.pool)
        .await
        .unwrap();
    let request = ClaimRequest { app, delivery: ids[0], attempt: 1, provider: None };
    let claim =
        fixture.store.deliveries().claim(&[request], Duration::from_secs(60)).await.unwrap().remove(0);
    assert!(matches!(claim, Claim::NotDue(state) if state.status == Status::Expired));
    assert_eq!(
        fixture.store.deliveries().settle(&[late.clone(), expired.clone()]).await.unwrap(),
        [true, true]
    );
    assert_eq!(fixture.ledger(ids[0]).await, ("sent".to_owned(), 1, 1, 1, 0));
    assert_eq!(
        fixture.store.deliveries().settle(&[late, expired]).await.unwrap(),
        [false, false],
        "already settled"
    );
    // A worker that read the status `expired` may acknowledge the job after the late answer was written, so the job is
    // published again.
    let due = fixture.store.deliveries().due_timers(10).await.unwrap();
    let again: Vec<_> = due.timers.iter().map(|timer| (timer.stream, &timer.message[..])).collect();
    assert_eq!(again, [(STREAM, &b"the job"[..])]);
}

#[tokio::test]
async fn a_failing_batch_writes_nothing() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ids = fixture.deliveries(app, 2).await;
    let good = fixture.attempt(app, ids[0], 1, RETRY).await;
    let mut bad = fixture.attempt(app, ids[1], 1, RETRY).await;
    bad.next = RecordedStep::Retry(timer(app, 2));
    sqlx::query("ALTER TABLE timer ADD CHECK (id <> '00000000-0000-0000-0000-000000000002')")
        .execute(&fixture.pool)
        .await
        .unwrap();
    let error = fixture.store.deliveries().settle(&[good.clone(), bad]).await.unwrap_err();
    assert!(error.is_refused_data(), "{error}");
    assert_eq!(fixture.ledger(ids[0]).await, ("sending".to_owned(), 1, 0, 0, 0));
    assert!(fixture.settle(&good).await);
}
