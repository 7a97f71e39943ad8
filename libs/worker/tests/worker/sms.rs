//! A channel whose messages must not be sent twice, and whose providers send receipts.

use std::collections::HashSet;
use std::time::Duration;

use domain::receipt::{Receipt, ReceiptSubject};
use domain::retry::RetryPolicy;
use domain::{Channel, DeliveryId, Event, Outcome, Status, StreamName};
use service_kit::clock;
use store::deliveries::receipt::ReceiptResult;
use testkit::eventually;

use crate::scripted::{RETRY, ScriptedChannel, Step};
use crate::world::{SMS_JOBS, SOON, World, serve_sms};

const SENT: Outcome = Outcome::Sent { provider_id: None };

async fn world() -> World {
    let world = Box::pin(World::start()).await;
    world.provider_of("sms", Channel::Sms, "twilio", None).await;
    world
}

#[tokio::test]
async fn the_call_is_marked_and_not_repeated_after_the_lease_has_expired() {
    let world = world().await;
    let scripted = ScriptedChannel::new([Step::Hold(SENT)]);
    serve_sms(&world.context, &scripted);
    let order = world.sms(1).await;
    world.order(&order).await;
    eventually(SOON, "the call starts", async || (!scripted.calls().is_empty()).then_some(())).await;
    assert_eq!(world.count("SELECT count(*) FROM delivery WHERE calling AND status = 'sending'").await, 1);

    world.run("UPDATE delivery SET lease_until = now()").await;
    world.order(&order).await;
    world.reaches(order.delivery_id, Status::Unknown).await;
    eventually(SOON, "the outcome is published", async || {
        (world.settlings().await == [(1, Status::Unknown)]).then_some(())
    })
    .await;
    // The answer arrives late. The worker that made the call corrects the recorded status.
    scripted.release();
    world.reaches(order.delivery_id, Status::Sent).await;
    world.acknowledged_by(Channel::Sms, 2).await;
    assert_eq!(world.settlings().await, [(1, Status::Unknown), (1, Status::Sent)]);
    assert_eq!(scripted.calls().len(), 1);
    assert_eq!(world.count("SELECT count(*) FROM awaiting_receipt").await, 1);
}

#[tokio::test]
async fn a_provider_that_deduplicates_is_called_again_and_no_other() {
    let world = world().await;
    world.provider_of("another", Channel::Sms, "twilio", None).await;
    let scripted = ScriptedChannel::new([Step::Answer(Outcome::REPEAT)]);
    serve_sms(&world.context, &scripted);
    let order = world.sms(1).await;
    world.order(&order).await;
    world.acknowledged_by(Channel::Sms, 1).await;
    world.run("UPDATE provider SET priority = 0 WHERE identifier = 'sms'").await;
    world.fire_timers(1).await;
    world.acknowledged_by(Channel::Sms, 2).await;
    let called: Vec<String> = scripted.calls().into_iter().map(|call| call.provider).collect();
    assert_eq!(called, ["another", "another"]);
    assert_eq!(world.settlings().await, [(1, Status::Retrying), (2, Status::Sent)]);
    let open = "SELECT count(*) FROM attempt WHERE (number, outcome) = (1, 'unknown')";
    assert_eq!(world.count(open).await, 1, "the outcome of the first attempt is recorded as unknown");
}

#[tokio::test]
async fn a_delivery_whose_lease_expired_before_the_call_may_use_any_provider() {
    let world = world().await;
    let scripted = ScriptedChannel::new([]);
    let order = world.sms(1).await;
    world.run("UPDATE delivery SET status = 'sending', provider = 'gone', lease_until = now()").await;
    serve_sms(&world.context, &scripted);
    world.order(&order).await;
    world.reaches(order.delivery_id, Status::Sent).await;
    assert_eq!(scripted.calls()[0].provider, "sms", "any provider may be called");
}

#[tokio::test]
async fn a_worker_that_cannot_mark_the_call_because_it_lost_the_claim_does_not_call() {
    let world = world().await;
    // Every lease ends as soon as the delivery is claimed.
    world.run("CREATE FUNCTION over() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.lease_until := now(); RETURN NEW; END'").await;
    world
        .run("CREATE TRIGGER over BEFORE UPDATE OF token ON delivery FOR EACH ROW EXECUTE FUNCTION over()")
        .await;
    let scripted = ScriptedChannel::new([]);
    serve_sms(&world.context, &scripted);
    let order = world.sms(1).await;
    world.order(&order).await;
    eventually(SOON, "the job was tried twice", async || {
        let progress = world.context.log.consumer_progress(SMS_JOBS, "sms").await.unwrap()?;
        (progress.redelivered == 1).then_some(())
    })
    .await;
    assert!(scripted.calls().is_empty());
    world.run("DROP TRIGGER over ON delivery").await;
    world.reaches(order.delivery_id, Status::Sent).await;
    assert_eq!(scripted.calls().len(), 1);
}

#[tokio::test]
async fn a_call_that_cannot_be_marked_is_not_made_and_is_retried_later() {
    let world = World::with(|config| config.delivery.lease = Duration::from_secs(2)).await;
    world.provider_of("sms", Channel::Sms, "twilio", None).await;
    world.run("ALTER TABLE delivery ADD CONSTRAINT unmarked CHECK (NOT calling)").await;
    let scripted = ScriptedChannel::new([]);
    serve_sms(&world.context, &scripted);
    let order = world.sms(1).await;
    world.order(&order).await;
    world.reaches(order.delivery_id, Status::Retrying).await;
    assert!(scripted.calls().is_empty());
    assert_eq!(world.count("SELECT count(*) FROM attempt WHERE provider_code = 'not_marked'").await, 1);
    world.run("ALTER TABLE delivery DROP CONSTRAINT unmarked").await;
    world.acknowledged_by(Channel::Sms, 1).await;
    world.fire_timers(1).await;
    world.reaches(order.delivery_id, Status::Sent).await;
}

#[tokio::test]
async fn an_sms_with_an_unknown_outcome_is_retried_only_after_a_receipt() {
    let world = world().await;
    let scripted = ScriptedChannel::new([Step::Answer(Outcome::Unknown)]);
    serve_sms(&world.context, &scripted);
    let order = world.sms(1).await;
    world.order(&order).await;
    world.acknowledged_by(Channel::Sms, 1).await;
    world.reaches(order.delivery_id, Status::Unknown).await;

    assert_eq!(record(&world, order.delivery_id, RETRY).await, ReceiptResult::Settled(Status::Retrying));
    world.fire_timers(2).await;
    world.reaches(order.delivery_id, Status::Sent).await;
    let attempts: Vec<_> = scripted.calls().iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(record(&world, order.delivery_id, SENT).await, ReceiptResult::Settled(Status::Delivered));
}

#[tokio::test]
async fn a_worker_repeats_the_outcome_of_a_receipt_under_the_same_event_id() {
    let world = world().await;
    let scripted = ScriptedChannel::new([]);
    serve_sms(&world.context, &scripted);
    let order = world.sms(1).await;
    world.order(&order).await;
    world.acknowledged_by(Channel::Sms, 1).await;
    let delivered = record(&world, order.delivery_id, SENT).await;
    assert_eq!(delivered, ReceiptResult::Settled(Status::Delivered));
    world.fire_timers(1).await;
    // The log delivers a job again if it has lost the acknowledgement.
    world.order(&order).await;
    world.acknowledged_by(Channel::Sms, 2).await;
    let is_delivered = |event: &Event| matches!(event, Event::DeliverySettled(settled) if settled.status == Status::Delivered);
    let events = world.events_in(StreamName::Outcome).await;
    let delivered: Vec<_> = events.iter().filter(|envelope| is_delivered(&envelope.event)).collect();
    let ids: HashSet<_> = delivered.iter().map(|envelope| envelope.id).collect();
    assert_eq!((delivered.len(), ids.len()), (2, 1));
    assert_eq!(scripted.calls().len(), 1);
}

/// Records a receipt for a delivery.
async fn record(world: &World, delivery: DeliveryId, outcome: Outcome) -> ReceiptResult {
    let receipt = Receipt {
        id: clock::new_id(),
        app: world.app,
        about: ReceiptSubject::Delivery(delivery, None),
        answer: domain::Answer::new(outcome, "30008", "unknown error"),
        at: clock::now(),
        random: 0.5,
    };
    let policy = RetryPolicy { schedule: vec![Duration::ZERO; 2] };
    let deliveries = world.context.store.deliveries();
    deliveries.record_receipts(&[receipt], &policy).await.unwrap().remove(0)
}
