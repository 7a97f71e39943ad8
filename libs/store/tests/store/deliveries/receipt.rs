//! Receipts that arrive after their attempt was settled.

mod early;
mod notations;

use std::time::Duration;

use domain::content::{Content, SmsContent};
use domain::event::{DeliveryJob, DeliverySettled};
use domain::outcome::RetryLimit;
use domain::receipt::{Receipt, ReceiptSubject};
use domain::retry::RetryPolicy;
use domain::{
    Answer, AppId, Channel, DeliveryId, Envelope, Event, Lane, Outcome, Reason, Status, StreamName,
    UserNumber,
};
use store::deliveries::ledger::{Claim, ClaimRequest};
use store::deliveries::receipt::ReceiptResult;
use store::deliveries::settlement::{RecordedStep, Settlement};
use store::sends::pairs::PairFilter;
use uuid::Uuid;

use crate::{Fixture, NOW, fixture, send_id};

const STREAM: StreamName = StreamName::Job(Channel::Sms, Lane::Transactional);
const LEASE: Duration = Duration::from_secs(60);

fn policy() -> RetryPolicy {
    RetryPolicy { schedule: [0, 5].map(Duration::from_secs).to_vec() }
}

fn receipt(app: AppId, number: u128, about: ReceiptSubject, outcome: Outcome) -> Receipt {
    let answer = Answer::new(outcome, "30008", "as\0 said");
    Receipt { id: Uuid::from_u128(1_000 + number), app, about, answer, at: NOW, random: 0.5 }
}

fn arrived() -> Outcome {
    Outcome::Sent { provider_id: None }
}

fn of(delivery: DeliveryId) -> ReceiptSubject {
    ReceiptSubject::Delivery(delivery, None)
}

fn by_id(id: &str) -> ReceiptSubject {
    ReceiptSubject::Message { provider: "main".to_owned(), id: id.to_owned() }
}

fn job(delivery: DeliveryId) -> Vec<u8> {
    let content = Content::Sms(SmsContent { text: "Hello".to_owned(), from: None });
    let user = UserNumber(1);
    let order = DeliveryJob::first(delivery, Channel::Sms, user, "+4915112345678".to_owned(), content);
    let event = Event::DeliveryJob(Box::new(order));
    let id = Uuid::from_u128(77);
    let send_id = Some(send_id(1));
    Envelope { id, app: AppId(1), at: NOW, send_id, caused_by: None, trace: None, event }.encode().unwrap()
}

impl Fixture {
    /// Adds SMS deliveries, and claims and settles their first attempts as `sent`. The provider's message ids are
    /// `p-{number}`.
    async fn taken(&self, app: AppId, count: i64) -> Vec<DeliveryId> {
        let ids = self.deliveries(app, count).await;
        sqlx::query("UPDATE delivery SET channel = 'sms'").execute(&self.pool).await.unwrap();
        for (place, delivery) in ids.iter().enumerate() {
            let sent = Outcome::Sent { provider_id: Some(format!("p-{}", place + 1)) };
            self.settle_sms(app, *delivery, sent, RecordedStep::End(Status::Sent, None)).await;
        }
        ids
    }

    async fn claim_sms(&self, app: AppId, delivery: DeliveryId) -> Uuid {
        let request = ClaimRequest { app, delivery, attempt: 1, provider: Some("main".to_owned()) };
        match self.store.deliveries().claim(&[request], LEASE).await.unwrap().remove(0) {
            Claim::Granted { token, .. } => token,
            other => panic!("{other:?}"),
        }
    }

    async fn settle_sms(&self, app: AppId, delivery: DeliveryId, outcome: Outcome, next: RecordedStep) {
        let token = self.claim_sms(app, delivery).await;
        let answer = Answer { segments: Some(2), ..Answer::new(outcome, "201", "queued") };
        let user = UserNumber(i64::try_from(delivery.0.as_u128()).unwrap());
        let settlement = Settlement {
            app,
            send_id: Some(send_id(1)),
            delivery,
            user,
            token,
            attempt: 1,
            provider: Some("main".to_owned()),
            started_at: NOW,
            ended_at: NOW,
            answer,
            next,
            job: (STREAM, job(delivery).into()),
            receipts: true,
        };
        assert_eq!(self.store.deliveries().settle(&[settlement]).await.unwrap(), [true]);
    }

    async fn record(&self, receipt: Receipt) -> ReceiptResult {
        self.store.deliveries().record_receipts(&[receipt], &policy()).await.unwrap()[0]
    }

    async fn state(&self, app: AppId, delivery: DeliveryId) -> (Status, Option<Reason>, u32) {
        let state = self.store.deliveries().delivery_states(&[(app, delivery)]).await.unwrap().remove(0);
        (state.status, state.reason, state.attempt)
    }

    /// Returns the outcomes to be published (timers of `OUTCOME`) and the number of other due timers.
    async fn published(&self) -> (Vec<DeliverySettled>, usize) {
        let due = self.store.deliveries().due_timers(100).await.unwrap();
        let (outcomes, jobs): (Vec<_>, Vec<_>) =
            due.timers.iter().partition(|timer| timer.stream == StreamName::Outcome);
        let settled =
            outcomes.iter().filter_map(|timer| match Envelope::decode(&timer.message).unwrap().event {
                Event::DeliverySettled(settled) => Some(settled),
                _ => None,
            });
        (settled.collect(), jobs.len())
    }
}

#[tokio::test]
async fn a_receipt_turns_sent_into_delivered_once_and_publishes_it() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.taken(app, 1).await[0];
    assert_eq!(fixture.count("SELECT count(*) FROM awaiting_receipt").await, 1);
    let recorded = fixture.record(receipt(app, 1, of(id), arrived())).await;
    assert_eq!(recorded, ReceiptResult::Settled(Status::Delivered));
    assert_eq!(fixture.state(app, id).await, (Status::Delivered, None, 1));
    assert_eq!(fixture.count("SELECT count(*) FROM awaiting_receipt").await, 0);
    let (reported, jobs) = fixture.published().await;
    assert_eq!((reported.len(), reported[0].status, reported[0].attempt, jobs), (1, Status::Delivered, 1, 0));

    for again in [arrived(), Outcome::Failed, Outcome::RETRY] {
        assert_eq!(fixture.record(receipt(app, 2, of(id), again)).await, ReceiptResult::Unchanged);
    }
    assert_eq!(fixture.state(app, id).await, (Status::Delivered, None, 1));
    assert_eq!(fixture.published().await.0.len(), 1);
}

#[tokio::test]
async fn receipts_name_messages_by_the_providers_id_within_app_and_provider() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("bank").await;
    let ids = fixture.taken(app, 3).await;
    let elsewhere = ReceiptSubject::Message { provider: "backup".to_owned(), id: "p-1".to_owned() };
    let receipts = [
        receipt(other, 1, by_id("p-1"), arrived()),
        receipt(app, 2, elsewhere, arrived()),
        receipt(app, 3, by_id("p-2"), arrived()),
        receipt(app, 4, by_id("p-3"), Outcome::Failed),
        receipt(app, 5, by_id("p-3"), arrived()),
        receipt(other, 6, of(ids[0]), arrived()),
    ];
    let recorded = fixture.store.deliveries().record_receipts(&receipts, &policy()).await.unwrap();
    let delivered = ReceiptResult::Settled(Status::Delivered);
    let failed = ReceiptResult::Settled(Status::Failed);
    let early = ReceiptResult::Early;
    let same = ReceiptResult::Unchanged;
    assert_eq!(recorded, [early, early, delivered, failed, same, early]);
    assert_eq!(fixture.state(app, ids[0]).await, (Status::Sent, None, 1));
    assert_eq!(fixture.state(app, ids[2]).await, (Status::Failed, Some(Reason::ProviderRefused), 1));
}

#[tokio::test]
async fn a_receipt_without_effect_does_not_hide_the_next_one_for_its_delivery() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.taken(app, 1).await[0];
    let receipts = [
        receipt(app, 1, ReceiptSubject::Delivery(id, Some(9)), Outcome::Failed),
        receipt(app, 2, of(id), arrived()),
        receipt(app, 3, of(id), Outcome::Failed),
    ];
    let recorded = fixture.store.deliveries().record_receipts(&receipts, &policy()).await.unwrap();
    let delivered = ReceiptResult::Settled(Status::Delivered);
    assert_eq!(recorded, [ReceiptResult::Unchanged, delivered, ReceiptResult::Unchanged]);
}

#[tokio::test]
async fn a_receipt_that_reports_a_dead_target_suppresses_it() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.taken(app, 1).await[0];
    let recorded = fixture.record(receipt(app, 1, of(id), Outcome::GONE)).await;
    assert_eq!(recorded, ReceiptResult::Settled(Status::Failed));
    assert_eq!(fixture.state(app, id).await, (Status::Failed, Some(Reason::TargetGone), 1));
    assert_eq!(fixture.count("SELECT count(*) FROM suppression WHERE code = '30008'").await, 1);
    let suppressed = "SELECT count(*) FROM timer WHERE encode(message, 'escape') LIKE '%TargetSuppressed%'";
    assert_eq!(fixture.count(suppressed).await, 1);
}

#[tokio::test]
async fn a_temporary_failure_sends_the_kept_message_again() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.taken(app, 1).await[0];
    let recorded = fixture.record(receipt(app, 1, by_id("p-1"), Outcome::RETRY)).await;
    assert_eq!(recorded, ReceiptResult::Settled(Status::Retrying));
    assert_eq!(fixture.state(app, id).await, (Status::Retrying, None, 2));
    let due = fixture.store.deliveries().due_timers(10).await.unwrap();
    let timer = due.timers.iter().find(|timer| timer.stream == STREAM).unwrap();
    let envelope = Envelope::decode(&timer.message).unwrap();
    assert_eq!((timer.id, envelope.id), (Uuid::from_u128(1_001), Uuid::from_u128(1_001)));
    let Event::DeliveryJob(order) = envelope.event else { panic!("no job") };
    assert_eq!((order.delivery_id, order.attempt), (id, 2));
    drop(due);
    assert_eq!(
        fixture.record(receipt(app, 2, by_id("p-1"), arrived())).await,
        ReceiptResult::Unchanged,
        "a retry is already scheduled"
    );
    let trouble = "SELECT count(*) FROM timer WHERE due_at = '2026-01-02 03:04:10+00'";
    assert_eq!(fixture.count(trouble).await, 1, "the retry follows the normal schedule");
}

#[tokio::test]
async fn a_paused_provider_is_passed_over() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.taken(app, 1).await[0];
    fixture.record(receipt(app, 1, of(id), Outcome::PauseProvider)).await;
    let due = fixture.store.deliveries().due_timers(10).await.unwrap();
    let timer = due.timers.iter().find(|timer| timer.stream == STREAM).unwrap();
    let Event::DeliveryJob(order) = Envelope::decode(&timer.message).unwrap().event else { panic!("no job") };
    assert_eq!(order.route.passed_over, ["main"]);
}

#[tokio::test]
async fn receipts_respect_limited_retries_and_the_end_of_the_schedule() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ids = fixture.taken(app, 4).await;
    let none = Some(RetryLimit { retries: 0, over: Duration::ZERO });
    let limited = Outcome::Retry { after: None, limit: none };
    fixture.record(receipt(app, 1, of(ids[0]), limited)).await;
    assert_eq!(fixture.state(app, ids[0]).await, (Status::Failed, Some(Reason::RetriesExhausted), 1));

    let once = Some(RetryLimit { retries: 1, over: Duration::ZERO });
    let limited = Outcome::Retry { after: None, limit: once };
    fixture.record(receipt(app, 4, of(ids[3]), limited)).await;
    let due = fixture.store.deliveries().due_timers(10).await.unwrap();
    let timer = due.timers.iter().find(|timer| timer.stream == STREAM).unwrap();
    let Event::DeliveryJob(order) = Envelope::decode(&timer.message).unwrap().event else { panic!("no job") };
    assert_eq!((order.attempt, order.limited_retries), (2, 1), "the retry counts as limited");
    drop(due);

    let last = RetryPolicy { schedule: vec![Duration::ZERO] };
    let receipts = [receipt(app, 2, of(ids[1]), Outcome::RETRY)];
    let recorded = fixture.store.deliveries().record_receipts(&receipts, &last).await.unwrap();
    assert_eq!(recorded, [ReceiptResult::Settled(Status::Parked)]);
    assert_eq!(fixture.state(app, ids[1]).await, (Status::Parked, Some(Reason::RetriesExhausted), 2));
    assert_eq!(fixture.count("SELECT count(*) FROM parked WHERE cause = '30008'").await, 1);

    // The stored job of the third delivery is removed because of its age, so no further attempt can follow.
    let nothing = fixture.store.deliveries().forget_awaited_receipts(LEASE, 10).await.unwrap();
    sqlx::query("UPDATE awaiting_receipt SET kept_at = now() - interval '73 hours'")
        .execute(&fixture.pool)
        .await
        .unwrap();
    assert_eq!(
        (nothing, fixture.store.deliveries().forget_awaited_receipts(LEASE, 10).await.unwrap()),
        (0, 1)
    );
    fixture.record(receipt(app, 3, of(ids[2]), Outcome::RETRY)).await;
    assert_eq!(fixture.state(app, ids[2]).await, (Status::Failed, Some(Reason::RetriesExhausted), 1));
}

#[tokio::test]
async fn providers_whose_apps_await_receipts_are_found() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let other = fixture.app("other").await;
    for app in [app, other] {
        for (identifier, kind, enabled) in
            [("a", "smpp", true), ("b", "smpp", true), ("off", "smpp", false), ("web", "twilio", true)]
        {
            sqlx::query(
                "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
                 VALUES ($1, $2, 'sms', $3, 1, $4, '{}')",
            )
            .bind(app.0)
            .bind(identifier)
            .bind(kind)
            .bind(enabled)
            .execute(&fixture.pool)
            .await
            .unwrap();
        }
    }
    let found = async |most| {
        let rows =
            fixture.store.control().providers_awaiting_receipts(Channel::Sms, "smpp", most).await.unwrap();
        rows.into_iter().map(|(app, row)| (app, row.identifier)).collect::<Vec<_>>()
    };
    assert_eq!(found(10).await, []);
    fixture.taken(app, 2).await;
    assert_eq!(found(10).await, [(app, "a".to_owned()), (app, "b".to_owned())]);
    assert_eq!(found(1).await, [(app, "a".to_owned())]);
}

#[tokio::test]
async fn an_unknown_outcome_is_corrected_by_a_receipt_even_without_an_attempt() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ids = fixture.deliveries(app, 2).await;
    sqlx::query("UPDATE delivery SET channel = 'sms'").execute(&fixture.pool).await.unwrap();
    let unknown = RecordedStep::End(Status::Unknown, Some(Reason::OutcomeUnknown));
    fixture.settle_sms(app, ids[0], Outcome::Unknown, unknown).await;
    sqlx::query("UPDATE delivery SET status = 'unknown', provider = 'main' WHERE user_number = 2")
        .execute(&fixture.pool)
        .await
        .unwrap();
    let receipts = [
        receipt(app, 1, ReceiptSubject::Delivery(ids[0], Some(1)), Outcome::RETRY),
        receipt(app, 2, of(ids[1]), arrived()),
    ];
    let recorded = fixture.store.deliveries().record_receipts(&receipts, &policy()).await.unwrap();
    assert_eq!(
        recorded,
        [ReceiptResult::Settled(Status::Retrying), ReceiptResult::Settled(Status::Delivered)]
    );
    let attempt = "SELECT count(*) FROM attempt WHERE delivery_id = '00000000-0000-0000-0000-000000000002'
                   AND outcome = 'unknown' AND provider = 'main' AND receipt = 'delivered'";
    assert_eq!(fixture.count(attempt).await, 1);
}

#[tokio::test]
async fn no_attempt_follows_for_erased_users_and_cancelled_requests() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let ids = fixture.taken(app, 3).await;
    sqlx::query("INSERT INTO erased (app_id, user_number, erased_at) VALUES ($1, 1, now()), ($1, 3, now())")
        .bind(app.0)
        .execute(&fixture.pool)
        .await
        .unwrap();
    sqlx::query(
        "INSERT INTO request (app_id, send_id, accepted_at, lane, recipients, cancelled_at)
         VALUES ($1, $2, now(), 'transactional', 3, now())",
    )
    .bind(app.0)
    .bind(send_id(1).0)
    .execute(&fixture.pool)
    .await
    .unwrap();
    let receipts = [
        receipt(app, 1, of(ids[0]), Outcome::RETRY),
        receipt(app, 2, of(ids[1]), Outcome::RETRY),
        receipt(app, 3, of(ids[2]), Outcome::GONE),
    ];
    fixture.store.deliveries().record_receipts(&receipts, &policy()).await.unwrap();
    assert_eq!(fixture.state(app, ids[0]).await, (Status::Skipped, Some(Reason::RecipientErased), 1));
    assert_eq!(fixture.state(app, ids[1]).await, (Status::Cancelled, Some(Reason::RequestCancelled), 1));
    assert_eq!(fixture.state(app, ids[2]).await, (Status::Failed, Some(Reason::TargetGone), 1));
    let (reported, jobs) = fixture.published().await;
    assert_eq!((reported.len(), jobs), (3, 0));
    assert_eq!(fixture.count("SELECT count(*) FROM suppression").await, 0);
    let words = "SELECT count(*) FROM attempt WHERE receipt_message <> ''";
    assert_eq!(fixture.count(words).await, 1);
}

#[tokio::test]
async fn deliveries_show_segments_and_receipts() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let id = fixture.taken(app, 1).await[0];
    sqlx::query(
        "INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
         VALUES ($1, $2, 0, 0, 'ada', 1, false, '{}')",
    )
    .bind(app.0)
    .bind(send_id(1).0)
    .execute(&fixture.pool)
    .await
    .unwrap();
    fixture.record(receipt(app, 1, of(id), arrived())).await;
    let filter = PairFilter::default();
    let listed = fixture.store.sends().list_pairs(app, send_id(1), filter, None, 10).await.unwrap();
    let attempt = &listed[0].attempts[0];
    assert_eq!(attempt.segments, Some(2));
    let receipt = attempt.receipt.as_ref().unwrap();
    assert_eq!((receipt.outcome.as_str(), receipt.provider_code.as_str()), ("delivered", "30008"));
    assert_eq!((receipt.provider_message.as_str(), receipt.received_at), ("as said", NOW));
}
