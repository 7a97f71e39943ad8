//! Claims: only the worker with the claim may call the provider.

use std::collections::HashSet;
use std::time::Duration;

use domain::event::DeliveryJob;
use domain::{Answer, Outcome, Status, StreamName};
use service_kit::clock;
use store::deliveries::ledger::{Claim, ClaimRequest, HeldClaim};
use store::deliveries::settlement::{RecordedStep, Settlement};
use testkit::eventually;

use crate::scripted::{RETRY, ScriptedChannel, Step};
use crate::world::{JOBS, SOON, World, serve, stop};

#[tokio::test]
async fn a_job_that_is_delivered_twice_calls_once() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new([Step::Hold(Outcome::Sent { provider_id: None })]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    eventually(SOON, "the first job calls the provider", async || {
        (!scripted.calls().is_empty()).then_some(())
    })
    .await;
    world.order(&order).await;
    eventually(SOON, "the second job is returned", async || {
        let progress = world.context.log.consumer_progress(JOBS, "email").await.unwrap()?;
        (progress.pending == 0).then_some(())
    })
    .await;
    // The second job may wait until the lease of the first one ends. The delivery is settled long before.
    scripted.release();
    world.reaches(order.delivery_id, Status::Sent).await;
    world.order(&order).await;
    eventually(SOON, "the third job is done", async || {
        let progress = world.context.log.consumer_progress(JOBS, "email").await.unwrap()?;
        (progress.pending == 0 && progress.ack_pending <= 1).then_some(())
    })
    .await;
    assert_eq!(scripted.calls().len(), 1);
    assert_eq!(world.settlings().await, [(1, Status::Sent)]);
}

#[tokio::test]
async fn a_worker_that_lost_the_claim_does_not_record_its_answer() {
    let (world, scripted, order, claim) = Box::pin(taken_over_during_the_call()).await;
    let HeldClaim { app, delivery, token, .. } = claim;
    let published = world.published_events().await;
    scripted.release();
    eventually(SOON, "the job is redelivered and returned", async || {
        let progress = world.context.log.consumer_progress(JOBS, "email").await.unwrap()?;
        (progress.redelivered == 1).then_some(())
    })
    .await;
    assert_eq!(world.count("SELECT count(*) FROM attempt").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM timer").await, 0);
    assert_eq!(world.published_events().await, published);

    let answer = Answer::new(Outcome::Sent { provider_id: None }, "", "");
    let (user, provider) = (order.user, Some("main".to_owned()));
    let send_id = None;
    let started_at = clock::now();
    let ended_at = clock::now();
    let next = RecordedStep::End(Status::Sent, None);
    let settlement = Settlement {
        app,
        send_id,
        delivery,
        user,
        token,
        attempt: 1,
        provider,
        started_at,
        ended_at,
        answer,
        next,
        job: (JOBS, Vec::new().into()),
        receipts: false,
    };
    assert_eq!(world.context.store.deliveries().settle(&[settlement]).await.unwrap(), [true]);
    world.order(&order).await;
    eventually(SOON, "the outcome of the worker with the claim is published", async || {
        (world.settlings().await == [(1, Status::Sent)]).then_some(())
    })
    .await;
    assert_eq!(scripted.calls().len(), 1);
}

#[tokio::test]
async fn a_job_whose_claim_another_worker_gave_back_is_not_lost() {
    let (world, scripted, order, claim) = Box::pin(taken_over_during_the_call()).await;
    let first = HeldClaim { takes_over: false, ..claim };
    assert!(world.context.store.deliveries().release(first).await.unwrap());
    // The other worker stops here, before it postpones the job.
    scripted.release();
    world.reaches(order.delivery_id, Status::Sent).await;
    eventually(SOON, "the outcome is published", async || {
        (!world.settlings().await.is_empty()).then_some(())
    })
    .await;
    assert_eq!(world.settlings().await, [(1, Status::Sent)]);
    assert_eq!(scripted.calls().len(), 2);
}

/// Starts a worker whose first call waits until it is released, and then leads to a retry. Ends the lease of its claim during the call,
/// and claims the delivery as another worker.
async fn taken_over_during_the_call() -> (World, ScriptedChannel, DeliveryJob, HeldClaim) {
    let world = World::start().await;
    let scripted = ScriptedChannel::new([Step::Hold(RETRY)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    eventually(SOON, "the first worker calls the provider", async || {
        (!scripted.calls().is_empty()).then_some(())
    })
    .await;
    world.run("UPDATE delivery SET lease_until = now()").await;
    let (app, delivery) = (world.app, order.delivery_id);
    let request = ClaimRequest { app, delivery, attempt: 1, provider: Some("main".to_owned()) };
    let claim = world.context.store.deliveries().claim(&[request], SOON).await.unwrap().remove(0);
    let Claim::Granted { token, takes_over, .. } = claim else { panic!("{claim:?}") };
    (world, scripted, order, HeldClaim { app, delivery, token, takes_over })
}

#[tokio::test]
async fn two_workers_never_call_for_the_same_delivery() {
    // While a delivery is claimed, its second job is returned to the log until the lease ends.
    let world = World::with(|config| {
        config.delivery.lease = Duration::from_secs(10);
        config.delivery.max_concurrency = 160;
    })
    .await;
    let (scripted, other) = (ScriptedChannel::new([]), world.another().await);
    for number in 1..=60 {
        let order = world.delivery(number).await;
        world.order(&order).await;
        world.order(&order).await;
    }
    world.serve(&scripted);
    serve(&other, &scripted);
    world.acknowledged(120).await;
    let calls = scripted.calls();
    let distinct: HashSet<_> = calls.iter().map(|call| call.delivery).collect();
    assert_eq!((calls.len(), distinct.len()), (60, 60));
    // Both jobs of a delivery report its outcome, under the same event id.
    let reported = world.events_in(StreamName::Outcome).await;
    assert!(world.settlings().await.iter().all(|settled| *settled == (1, Status::Sent)));
    assert_eq!(reported.iter().map(|event| event.id).collect::<HashSet<_>>().len(), 60);
    stop(&other).await;
}

#[tokio::test]
async fn after_an_unknown_outcome_no_other_provider_replaces_a_disabled_one() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new([]);
    let order = world.delivery(1).await;
    // This is the state that remains if a lease ends during an attempt.
    world.run("UPDATE delivery SET status = 'sending', provider = 'gone', lease_until = now()").await;
    world.serve(&scripted);
    world.order(&order).await;
    world.acknowledged(1).await;
    assert!(scripted.calls().is_empty());
    assert_eq!(world.settlings().await, [(1, Status::Retrying)]);
    let gone = "SELECT count(*) FROM attempt WHERE outcome = 'retry' AND provider_code = 'provider_gone'";
    assert_eq!(world.count(gone).await, 1);
    world.fire_timers(1).await;
    world.acknowledged(2).await;
    assert!(scripted.calls().is_empty());
    assert_eq!(world.settlings().await, [(1, Status::Retrying), (2, Status::Parked)]);
}
