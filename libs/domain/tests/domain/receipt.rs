//! Tests of the effects of receipts.

use std::time::Duration;

use domain::content::{Content, SmsContent};
use domain::event::DeliveryJob;
use domain::outcome::RetryLimit;
use domain::receipt::{Change, Effect, NextAttempt, Receipt, ReceiptSubject, ReportedDelivery};
use domain::retry::RetryPolicy;
use domain::transition::Step;
use domain::{
    Answer, AppId, Channel, DeliveryId, Envelope, Event, Lane, Outcome, Reason, Route, SendId, Status,
    StreamName, Timestamp, UserNumber,
};
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const STREAM: StreamName = StreamName::Job(Channel::Sms, Lane::Transactional);
const DELIVERED: Outcome = Outcome::Sent { provider_id: None };

fn policy() -> RetryPolicy {
    RetryPolicy { schedule: [0, 5].map(Duration::from_secs).to_vec() }
}

fn receipt(outcome: Outcome) -> Receipt {
    let about = ReceiptSubject::Delivery(DeliveryId(Uuid::from_u128(3)), None);
    let answer = Answer::new(outcome, "30008", "undelivered");
    Receipt { id: Uuid::from_u128(1), app: AppId(1), about, answer, at: NOW, random: 0.5 }
}

fn job(limited_retries: u32) -> Vec<u8> {
    let content = Content::Sms(SmsContent { text: "Hello".to_owned(), from: None });
    let target = "+4915112345678".to_owned();
    let first =
        DeliveryJob::first(DeliveryId(Uuid::from_u128(3)), Channel::Sms, UserNumber(4), target, content);
    let route = Route { only: Some("main".to_owned()), ..Route::default() };
    let event = Event::DeliveryJob(Box::new(DeliveryJob { route, limited_retries, ..first }));
    let id = Uuid::from_u128(77);
    let send_id = Some(SendId(Uuid::from_u128(2)));
    Envelope { id, app: AppId(1), at: NOW, send_id, caused_by: None, trace: None, event }.encode().unwrap()
}

fn delivery(status: Status) -> ReportedDelivery {
    ReportedDelivery {
        app: AppId(1),
        id: DeliveryId(Uuid::from_u128(3)),
        send_id: SendId(Uuid::from_u128(2)),
        user: UserNumber(4),
        channel: Channel::Sms,
        status,
        attempt: 1,
        provider: Some("main".to_owned()),
        expires_at: None,
        is_erased: false,
        is_cancelled: false,
        job: Some((STREAM, job(0))),
    }
}

fn effect(outcome: Outcome, delivery: &ReportedDelivery) -> Effect {
    receipt(outcome).effect(None, delivery, &policy()).unwrap()
}

#[track_caller]
fn changed(outcome: Outcome, delivery: &ReportedDelivery) -> (Status, Option<Reason>) {
    match effect(outcome, delivery) {
        Effect::Change(Change { status, reason, next: None }) => (status, reason),
        other => panic!("not an end: {other:?}"),
    }
}

#[track_caller]
fn next_job(effect: Effect) -> (Option<Timestamp>, DeliveryJob) {
    match effect {
        Effect::Change(Change { next: Some(NextAttempt { stream: STREAM, job, due_at }), .. }) => {
            assert_eq!((job.id, job.caused_by), (Uuid::from_u128(1), Some(Uuid::from_u128(77))));
            let Event::DeliveryJob(job) = job.event else { panic!("not a job") };
            (due_at, *job)
        }
        other => panic!("no attempt follows: {other:?}"),
    }
}

#[test]
fn a_receipt_changes_only_what_was_sent_or_is_unknown() {
    for status in Status::STORED {
        let expected = match status {
            Status::Sent | Status::Unknown => {
                let (status, reason) = (Status::Delivered, None);
                Effect::Change(Change { status, reason, next: None })
            }
            Status::Sending => Effect::Early,
            _ => Effect::Unchanged,
        };
        assert_eq!(effect(DELIVERED, &delivery(status)), expected, "{status}");
    }
    assert_eq!(effect(Outcome::Unknown, &delivery(Status::Sent)), Effect::Unchanged);
}

#[test]
fn every_change_is_a_legal_transition() {
    let pause = Outcome::PauseProvider;
    for outcome in [DELIVERED, Outcome::Failed, Outcome::GONE, Outcome::RETRY, pause] {
        for (is_erased, is_cancelled, attempt) in [(false, false, 1), (true, false, 1), (false, true, 9)] {
            for status in Status::REPORTABLE {
                let delivery = ReportedDelivery { is_erased, is_cancelled, attempt, ..delivery(status) };
                let Effect::Change(change) = effect(outcome.clone(), &delivery) else { continue };
                assert!(Step::Report.allows(status, change.status), "{status} to {}", change.status);
            }
        }
    }
}

#[test]
fn a_receipt_for_an_earlier_attempt_changes_nothing() {
    let second = |status| ReportedDelivery { attempt: 2, ..delivery(status) };
    for status in [Status::Sent, Status::Sending] {
        let effect = receipt(DELIVERED).effect(Some(1), &second(status), &policy()).unwrap();
        assert_eq!(effect, Effect::Unchanged);
    }
}

#[test]
fn a_temporary_failure_leads_to_an_attempt_by_any_provider() {
    let (due_at, job) = next_job(effect(Outcome::RETRY, &delivery(Status::Sent)));
    assert_eq!(due_at, Some(NOW + Duration::from_secs(5)));
    assert_eq!((job.attempt, job.route), (2, Route::default()));
    let (_, job) = next_job(effect(Outcome::PauseProvider, &delivery(Status::Sent)));
    assert_eq!(job.route.passed_over, ["main"]);
}

#[test]
fn the_end_of_the_schedule_parks_the_job_and_restarts_its_count() {
    let last = ReportedDelivery { attempt: 2, job: Some((STREAM, job(3))), ..delivery(Status::Sent) };
    let effect = effect(Outcome::RETRY, &last);
    let Effect::Change(change) = &effect else { panic!("{effect:?}") };
    assert_eq!((change.status, change.reason), (Status::Parked, Some(Reason::RetriesExhausted)));
    let (due_at, job) = next_job(effect);
    assert_eq!((due_at, job.attempt, job.limited_retries), (None, 3, 0));
}

#[test]
fn limited_retries_are_counted_in_the_job() {
    let limit = Some(RetryLimit { retries: 2, over: Duration::ZERO });
    let limited = Outcome::Retry { after: None, limit };
    let sent = |made| ReportedDelivery { job: Some((STREAM, job(made))), ..delivery(Status::Sent) };
    assert_eq!(next_job(effect(limited.clone(), &sent(1))).1.limited_retries, 2);
    assert_eq!(changed(limited, &sent(2)), (Status::Failed, Some(Reason::RetriesExhausted)));
}

#[test]
fn no_attempt_follows_for_an_erased_user_a_cancelled_request_or_a_lost_job() {
    let sent = delivery(Status::Sent);
    let erased = ReportedDelivery { is_erased: true, is_cancelled: true, ..sent.clone() };
    assert_eq!(changed(Outcome::RETRY, &erased), (Status::Skipped, Some(Reason::RecipientErased)));
    let cancelled = ReportedDelivery { is_cancelled: true, ..sent.clone() };
    assert_eq!(changed(Outcome::RETRY, &cancelled), (Status::Cancelled, Some(Reason::RequestCancelled)));
    let lost = ReportedDelivery { job: None, ..sent };
    assert_eq!(changed(Outcome::RETRY, &lost), (Status::Failed, Some(Reason::RetriesExhausted)));
}

#[test]
fn a_stored_job_is_decoded_only_if_it_is_needed() {
    let newer = ReportedDelivery { job: Some((STREAM, b"{}".to_vec())), ..delivery(Status::Sent) };
    assert_eq!(changed(DELIVERED, &newer), (Status::Delivered, None));
    assert!(receipt(Outcome::RETRY).effect(None, &newer, &policy()).is_err());
}

#[test]
fn a_change_publishes_its_outcome_and_the_suppression_that_it_caused() {
    let sent = delivery(Status::Sent);
    let receipt = receipt(Outcome::GONE);
    assert!(receipt.kills_target(&sent));
    let Effect::Change(change) = receipt.effect(None, &sent, &policy()).unwrap() else { panic!("no change") };
    let kinds = |is_suppressed| -> Vec<_> {
        let events = receipt.events(&sent, &change, is_suppressed);
        events.iter().map(|envelope| (envelope.event.kind(), envelope.send_id)).collect()
    };
    let settled = ("DeliverySettled", Some(sent.send_id));
    assert_eq!(kinds(false), [settled]);
    assert_eq!(kinds(true), [settled, ("TargetSuppressed", Some(sent.send_id))]);
    assert!(!receipt.kills_target(&ReportedDelivery { is_erased: true, ..sent }));
}
