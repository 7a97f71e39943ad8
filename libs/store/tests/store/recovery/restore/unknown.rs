//! Deliveries whose outcome the log does not contain end as `unknown`; no provider is called for them again.

use std::time::Duration;

use domain::{AppId, Channel, Envelope, Event, Status, StreamName};
use store::deliveries::ledger::{Claim, ClaimRequest};
use store::deliveries::timer::NewTimer;
use store::recovery::restore::FoundJob;
use uuid::Uuid;

use super::outcome;
use crate::{Fixture, NOW, fixture};

impl Fixture {
    async fn claim_of(&self, found: &FoundJob) -> Claim {
        let FoundJob { app, job, .. } = found;
        let provider = Some("main".to_owned());
        let request = ClaimRequest { app: *app, delivery: job.delivery_id, attempt: job.attempt, provider };
        self.store.deliveries().claim(&[request], Duration::from_secs(60)).await.unwrap().remove(0)
    }

    async fn status_of(&self, found: &FoundJob) -> String {
        sqlx::query_scalar("SELECT status FROM delivery WHERE id = $1")
            .bind(found.job.delivery_id.0)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }
}

fn waiting(found: FoundJob) -> FoundJob {
    FoundJob { handed_out: false, ..found }
}

/// Encodes the job as a message with its envelope.
fn message(found: &FoundJob) -> Vec<u8> {
    let event = Event::DeliveryJob(Box::new(found.job.clone()));
    let send_id = Some(found.send_id);
    let envelope =
        Envelope { id: Uuid::nil(), app: found.app, at: NOW, send_id, caused_by: None, trace: None, event };
    envelope.encode().unwrap()
}

async fn park(fixture: &Fixture, found: &FoundJob) {
    sqlx::query(
        "INSERT INTO parked (id, app_id, send_id, delivery_id, stream, message, cause)
         VALUES (gen_random_uuid(), $1, $2, $3, 'JOB_email_transactional', $4, 'timeout')",
    )
    .bind(found.app.0)
    .bind(found.send_id.0)
    .bind(found.job.delivery_id.0)
    .bind(message(found))
    .execute(&fixture.pool)
    .await
    .unwrap();
}

async fn await_receipt(fixture: &Fixture, found: &FoundJob) {
    sqlx::query(
        "INSERT INTO awaiting_receipt (app_id, delivery_id, user_number, stream, message)
         VALUES ($1, $2, $3, 'JOB_sms_transactional', $4)",
    )
    .bind(found.app.0)
    .bind(found.job.delivery_id.0)
    .bind(found.job.user.0)
    .bind(message(found))
    .execute(&fixture.pool)
    .await
    .unwrap();
}

#[tokio::test]
async fn a_job_without_an_outcome_ends_unknown_and_is_never_claimed() {
    for channel in [Channel::Sms, Channel::Email] {
        let fixture = fixture().await;
        let app = fixture.app("shop").await;
        let job = |place: u32| fixture.job(app, place, channel, 1);
        let [had, sent, retried] = [0, 1, 2].map(job);
        let untouched = waiting(job(3));
        let jobs = [had.clone(), sent.clone(), retried.clone(), untouched.clone()];
        let mut restore = fixture.restore().await;
        restore.add_jobs(&jobs).await.unwrap();
        let outcomes = [outcome(&sent, Status::Sent), outcome(&retried, Status::Retrying)];
        restore.add_outcomes(&outcomes).await.unwrap();
        assert_eq!(restore.end_unknown(NOW).await.unwrap(), 2);
        assert_eq!(restore.end_unknown(NOW).await.unwrap(), 0);

        for lost in [&had, &retried] {
            let claim = fixture.claim_of(lost).await;
            assert!(matches!(claim, Claim::NotDue(state) if state.status == Status::Unknown), "{channel}");
        }
        assert!(
            matches!(fixture.claim_of(&sent).await, Claim::NotDue(state) if state.status == Status::Sent)
        );
        assert!(matches!(fixture.claim_of(&untouched).await, Claim::Granted { .. }), "no worker received it");

        let due = fixture.store.deliveries().due_timers(10).await.unwrap().timers;
        let mut published = Vec::new();
        for timer in &due {
            assert_eq!(timer.stream, StreamName::Outcome);
            let Event::DeliverySettled(settled) = Envelope::decode(&timer.message).unwrap().event else {
                panic!("unexpected event")
            };
            assert_eq!(settled.status, Status::Unknown);
            published.push(settled.delivery_id);
        }
        published.sort();
        let mut expected = [had.job.delivery_id, retried.job.delivery_id];
        expected.sort();
        assert_eq!(published, expected);
    }
}

#[tokio::test]
async fn a_copy_of_a_job_that_no_worker_received_does_not_reopen_its_delivery() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let job = |place| fixture.job(app, place, Channel::Sms, 1);
    let mut restore = fixture.restore().await;
    restore.add_jobs(&[job(0), waiting(job(0)), job(1)]).await.unwrap();
    restore.add_jobs(&[waiting(job(1)), waiting(job(0))]).await.unwrap();
    assert_eq!(restore.end_unknown(NOW).await.unwrap(), 2);
    restore.add_jobs(&[waiting(job(0)), waiting(job(1))]).await.unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM delivery WHERE status = 'unknown'").await, 2);
}

#[tokio::test]
async fn a_restored_delivery_keeps_waiting_if_it_has_a_timer_or_a_job_in_the_log() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let job = |place, attempt| waiting(fixture.job(app, place, Channel::Email, attempt));
    let [timed, queued, lost, retried] = [job(0, 2), job(1, 1), job(2, 1), job(3, 2)];
    let mut restore = fixture.restore().await;
    restore.add_jobs(&[timed.clone(), queued.clone(), lost.clone(), retried.clone()]).await.unwrap();
    let timer = |id, found: &FoundJob| NewTimer {
        id: Uuid::from_u128(id),
        due_at: NOW,
        stream: "JOB_email_transactional".parse().unwrap(),
        message: message(found),
        app,
        send_id: Some(found.send_id),
        user: Some(found.job.user),
        wait: None,
    };
    // Another delivery of the same user has no timer.
    let neighbour = FoundJob { job: domain::event::DeliveryJob { user: timed.job.user, ..lost.job }, ..lost };
    fixture.store.deliveries().set_timers(&[timer(1, &timed)]).await.unwrap();
    sqlx::query("UPDATE delivery SET user_number = $1 WHERE id = $2")
        .bind(timed.job.user.0)
        .bind(neighbour.job.delivery_id.0)
        .execute(&fixture.pool)
        .await
        .unwrap();

    for ended in [1, 0] {
        // The second round simulates a restore that was interrupted and is repeated.
        restore.doubt_waiting().await.unwrap();
        restore.add_jobs(&[queued.clone(), retried.clone()]).await.unwrap();
        assert_eq!(restore.end_unknown(NOW).await.unwrap(), ended);
        let statuses = [&timed, &queued, &neighbour, &retried];
        let mut found = Vec::new();
        for delivery in statuses {
            found.push(fixture.status_of(delivery).await);
        }
        assert_eq!(found, ["retrying", "queued", "unknown", "retrying"]);
    }
}

#[tokio::test]
async fn a_delivery_redriven_after_the_backup_follows_its_job() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut restore = fixture.restore().await;
    for (place, handed_out, status) in [(0, false, "retrying"), (1, true, "unknown")] {
        let job = |attempt| fixture.job(app, place, Channel::Email, attempt);
        restore.add_jobs(&[job(1)]).await.unwrap();
        restore.add_outcomes(&[outcome(&job(1), Status::Parked)]).await.unwrap();
        park(&fixture, &job(2)).await;
        restore.add_jobs(&[job(1)]).await.unwrap();
        restore.add_outcomes(&[outcome(&job(1), Status::Parked)]).await.unwrap();
        assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 1, "the job is parked, as in the log");

        restore.add_jobs(&[FoundJob { handed_out, ..job(2) }]).await.unwrap();
        restore.add_outcomes(&[outcome(&job(1), Status::Parked)]).await.unwrap();
        restore.end_unknown(NOW).await.unwrap();
        assert_eq!(fixture.status_of(&job(2)).await, status);
        assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 0, "the job cannot be redriven again");
    }
}

#[tokio::test]
async fn a_job_kept_for_a_receipt_is_removed_if_the_log_has_a_later_job_or_outcome() {
    let fixture = fixture().await;
    let app: AppId = fixture.app("shop").await;
    let job = |place, attempt| fixture.job(app, place, Channel::Sms, attempt);
    let mut restore = fixture.restore().await;
    for place in 0..4 {
        restore.add_jobs(&[job(place, 1)]).await.unwrap();
        restore.add_outcomes(&[outcome(&job(place, 1), Status::Sent)]).await.unwrap();
        await_receipt(&fixture, &job(place, 1)).await;
    }
    restore.add_jobs(&[job(0, 1), job(0, 2)]).await.unwrap();
    let outcomes = [
        outcome(&job(1, 1), Status::Retrying),
        outcome(&job(2, 1), Status::Delivered),
        outcome(&job(3, 1), Status::Sent),
    ];
    restore.add_outcomes(&outcomes).await.unwrap();
    restore.end_unknown(NOW).await.unwrap();
    let kept = "SELECT user_number FROM awaiting_receipt";
    assert_eq!(fixture.count(kept).await, job(3, 1).job.user.0, "a receipt may still arrive");
    for (place, status) in [(0, "unknown"), (1, "unknown"), (2, "delivered"), (3, "sent")] {
        assert_eq!(fixture.status_of(&job(place, 1)).await, status);
    }
}
