//! Deliveries whose next attempt is lost, and deliveries that must not have one.

use std::time::Duration;

use domain::{Channel, Envelope, Event, Status, StreamName, UserNumber};
use store::deliveries::ledger::{Claim, ClaimRequest};
use store::deliveries::timer::NewTimer;
use store::recovery::restore::{FoundJob, LastJob, Stranded, StrandedAs};
use uuid::Uuid;

use super::outcome;
use crate::{NOW, fixture};

#[tokio::test]
async fn an_sms_handed_to_a_worker_is_unknown_and_any_other_is_sent() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let had = fixture.job(app, 0, Channel::Sms, 1);
    let untouched = FoundJob { handed_out: false, ..fixture.job(app, 1, Channel::Sms, 1) };
    let sent = fixture.job(app, 2, Channel::Sms, 1);
    let again = fixture.job(app, 3, Channel::Sms, 1);
    let jobs = [had.clone(), untouched.clone(), sent.clone(), again.clone()];
    let mut restore = fixture.restore().await;
    restore.add_jobs(&jobs).await.unwrap();
    restore.add_outcomes(&[outcome(&sent, Status::Sent), outcome(&again, Status::Retrying)]).await.unwrap();
    assert_eq!(restore.end_unknown(NOW).await.unwrap(), 1);
    assert_eq!(restore.end_unknown(NOW).await.unwrap(), 0);

    let claim = async |found: &FoundJob| {
        let delivery = found.job.delivery_id;
        let request = ClaimRequest { app, delivery, attempt: 1, provider: Some("main".to_owned()) };
        fixture.store.deliveries().claim(&[request], Duration::from_secs(60)).await.unwrap().remove(0)
    };
    assert!(matches!(claim(&had).await, Claim::Done(state) if state.status == Status::Unknown));
    assert!(matches!(claim(&untouched).await, Claim::Ours { .. }));
    assert!(matches!(claim(&sent).await, Claim::Done(state) if state.status == Status::Sent));
    let due = fixture.store.deliveries().due_timers(10).await.unwrap().timers;
    let told = Envelope::decode(&due[0].message).unwrap().event;
    assert_eq!((due.len(), due[0].stream), (1, StreamName::Outcome));
    assert!(matches!(told, Event::DeliverySettled(told) if told.delivery_id == had.job.delivery_id
        && told.status == Status::Unknown));
    let stranded = restore.stranded(None, 10).await.unwrap();
    let stranded: Vec<_> = stranded.iter().map(|stranded| (stranded.delivery, stranded.stranded)).collect();
    assert_eq!(stranded, [(again.job.delivery_id, StrandedAs::Retrying)], "a certain failure is retried");
}

#[tokio::test]
async fn stranded_deliveries_are_found_with_their_last_job() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let job = |place, attempt| fixture.job(app, place, Channel::Email, attempt);
    let coming = FoundJob { handed_out: false, ..job(3, 1) };
    let jobs = [job(0, 1), job(1, 1), job(2, 1), coming, job(4, 1), job(5, 1), job(5, 2)];
    let mut restore = fixture.restore().await;
    restore.add_jobs(&jobs).await.unwrap();
    let told = [
        outcome(&job(1, 1), Status::Retrying),
        outcome(&job(2, 1), Status::Parked),
        outcome(&job(4, 1), Status::Sent),
        outcome(&job(5, 1), Status::Retrying),
    ];
    restore.add_outcomes(&told).await.unwrap();
    let mut found = Vec::new();
    let mut after = None;
    while let Some(stranded) = restore.stranded(after, 1).await.unwrap().pop() {
        after = Some((stranded.app, stranded.delivery));
        found.push(stranded);
    }
    let of = |job: FoundJob| {
        let found = found.iter().find(|stranded| stranded.delivery == job.job.delivery_id);
        found.map(|stranded| (stranded.stranded, stranded.job.clone(), stranded.attempt))
    };
    assert_eq!(found.len(), 4);
    assert_eq!(of(job(0, 1)), Some((StrandedAs::HandedOut, LastJob::InLog(1), 1)));
    assert_eq!(of(job(1, 1)), Some((StrandedAs::Retrying, LastJob::InLog(1), 2)));
    assert_eq!(of(job(2, 1)), Some((StrandedAs::Parked, LastJob::InLog(1), 2)));
    assert_eq!(of(job(5, 2)), Some((StrandedAs::HandedOut, LastJob::InLog(2), 2)));

    let parked = found.iter().find(|stranded| stranded.stranded == StrandedAs::Parked).unwrap().clone();
    let timer = NewTimer {
        id: Uuid::from_u128(1),
        due_at: NOW,
        stream: parked.stream,
        message: b"job".to_vec(),
        app,
        send_id: None,
        user: None,
    };
    for _ in 0..2 {
        restore.put_back(std::slice::from_ref(&timer), &[]).await.unwrap();
    }
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 1, "the earlier timer is replaced");
    restore.put_back(&[], &[(parked, b"job".to_vec())]).await.unwrap();
    assert_eq!(restore.stranded(None, 10).await.unwrap().len(), 3, "a parked delivery is no longer stranded");
}

#[tokio::test]
async fn a_delivery_redriven_after_the_backup_is_reopened() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let job = |attempt| fixture.job(app, 0, Channel::Email, attempt);
    let mut restore = fixture.restore().await;
    restore.add_jobs(&[job(1)]).await.unwrap();
    restore.add_outcomes(&[outcome(&job(1), Status::Parked)]).await.unwrap();
    let stranded = restore.stranded(None, 10).await.unwrap().remove(0);
    restore.put_back(&[], &[(stranded, message(&job(2)))]).await.unwrap();
    assert_eq!(restore.reopen().await.unwrap(), 0);
    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 1, "it stays parked, as in the log");

    restore.add_jobs(&[job(2)]).await.unwrap();
    restore.add_outcomes(&[outcome(&job(1), Status::Parked)]).await.unwrap();
    restore.reopen().await.unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM parked").await, 0);
    let open =
        "SELECT count(*) FROM delivery WHERE status = 'retrying' AND attempt = 2 AND settled_at IS NULL";
    assert_eq!(fixture.count(open).await, 1);
}

/// Encodes the job as a whole message.
fn message(found: &FoundJob) -> Vec<u8> {
    let event = Event::DeliveryJob(Box::new(found.job.clone()));
    let send_id = Some(found.send_id);
    let envelope =
        Envelope { id: Uuid::nil(), app: found.app, at: NOW, send_id, caused_by: None, trace: None, event };
    envelope.encode().unwrap()
}

#[tokio::test]
async fn a_delivery_parked_again_after_a_redrive_keeps_its_last_job() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let job = |attempt| fixture.job(app, 0, Channel::Email, attempt);
    let mut restore = fixture.restore().await;
    restore.add_jobs(&[job(1)]).await.unwrap();
    restore.add_outcomes(&[outcome(&job(1), Status::Parked)]).await.unwrap();
    let stranded = restore.stranded(None, 10).await.unwrap().remove(0);
    restore.put_back(&[], &[(stranded, message(&job(2)))]).await.unwrap();

    restore.add_jobs(&[job(2)]).await.unwrap();
    restore.add_outcomes(&[outcome(&job(2), Status::Parked)]).await.unwrap();
    assert_eq!(restore.reopen().await.unwrap(), 0, "it is parked");
    assert_eq!(
        fixture.count("SELECT count(*) FROM parked").await,
        0,
        "its message asked for an attempt that has been made"
    );
    let stranded = restore.stranded(None, 10).await.unwrap();
    let stranded: Vec<_> =
        stranded.iter().map(|stranded| (stranded.stranded, stranded.job.clone(), stranded.attempt)).collect();
    assert_eq!(stranded, [(StrandedAs::Parked, LastJob::InLog(2), 3)]);
}

#[tokio::test]
async fn deliveries_retried_or_parked_by_receipts_are_found_with_their_kept_job() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let job = |place, attempt| fixture.job(app, place, Channel::Sms, attempt);
    let mut restore = fixture.restore().await;
    let sent: Vec<FoundJob> = (0..5).map(|place| job(place, 1)).collect();
    restore.add_jobs(&sent).await.unwrap();
    let told: Vec<_> = sent.iter().map(|sent| outcome(sent, Status::Sent)).collect();
    restore.add_outcomes(&told).await.unwrap();
    for kept in &sent[..4] {
        sqlx::query(
            "INSERT INTO awaiting_receipt (app_id, delivery_id, user_number, stream, message) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(app.0)
        .bind(kept.job.delivery_id.0)
        .bind(kept.job.user.0)
        .bind(kept.stream.to_string())
        .bind(message(kept))
        .execute(&fixture.pool)
        .await
        .unwrap();
    }
    // The state of the backup: the log is read from after their jobs, and has only the retry of the third.
    sqlx::query("TRUNCATE restored_job").execute(&fixture.pool).await.unwrap();
    restore.add_jobs(&[FoundJob { handed_out: false, ..job(2, 2) }]).await.unwrap();
    let states = [Status::Retrying, Status::Parked, Status::Retrying, Status::Delivered, Status::Retrying];
    let told: Vec<_> = sent.iter().zip(states).map(|(sent, status)| outcome(sent, status)).collect();
    restore.add_outcomes(&told).await.unwrap();
    assert_eq!(restore.stranded(None, 10).await.unwrap(), []);

    let mut found = Vec::new();
    while let Some(stranded) = {
        let after = found.last().map(|stranded: &Stranded| (stranded.app, stranded.delivery));
        restore.stranded_by_receipts(after, 1).await.unwrap().pop()
    } {
        found.push(stranded);
    }
    found.sort_by_key(|stranded| stranded.user);
    let of = |stranded: &Stranded| (stranded.user, stranded.stranded, stranded.job.clone(), stranded.attempt);
    let kept = |place: usize| LastJob::Kept(message(&sent[place]));
    assert_eq!(
        found.iter().map(of).collect::<Vec<_>>(),
        [
            (UserNumber(100), StrandedAs::Retrying, kept(0), 2),
            (UserNumber(101), StrandedAs::Parked, kept(1), 2),
        ]
    );

    let timer = NewTimer {
        id: Uuid::from_u128(1),
        due_at: NOW,
        stream: found[0].stream,
        message: message(&job(0, 2)),
        app,
        send_id: Some(found[0].send_id),
        user: Some(found[0].user),
    };
    restore.put_back(&[timer], &[(found[1].clone(), message(&job(1, 2)))]).await.unwrap();
    assert_eq!(restore.forget_kept_jobs().await.unwrap(), 1, "nothing was kept for the last one");
    assert_eq!(restore.stranded_by_receipts(None, 10).await.unwrap(), []);
    assert_eq!(fixture.count("SELECT count(*) FROM awaiting_receipt").await, 0, "none waits for a receipt");
}
