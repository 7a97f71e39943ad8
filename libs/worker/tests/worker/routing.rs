//! Choice between several providers of a channel.

use domain::{Channel, Envelope, Event, Outcome, Status, TargetDeath};
use testkit::eventually;

use crate::scripted::{Call, RETRY, ScriptedChannel, Step, overloaded};
use crate::world::{SOON, World, serve, stop};

const HERE: Outcome = Outcome::TargetGone(TargetDeath { since: None, here_only: true });

fn providers(scripted: &ScriptedChannel) -> Vec<String> {
    scripted.calls().into_iter().map(|Call { provider, .. }| provider).collect()
}

#[tokio::test]
async fn an_account_problem_fails_over_at_once_and_other_deliveries_skip_the_provider() {
    let world = World::with(|config| config.delivery.max_concurrency = 1).await;
    world.provider("second", None).await;
    let scripted = ScriptedChannel::new([Step::Answer(Outcome::PauseProvider)]);
    for number in 1..=2 {
        let order = world.delivery(number).await;
        world.order(&order).await;
    }
    // The attempt of the second delivery follows that of the first, while the breaker of the provider is open.
    world.serve(&scripted);
    world.acknowledged(2).await;
    assert_eq!(providers(&scripted), ["main", "second"]);
    world.fire_timers(1).await;
    world.acknowledged(3).await;
    assert_eq!(providers(&scripted), ["main", "second", "second"]);
    let mut settlings = world.settlings().await;
    settlings.sort_unstable_by_key(|(attempt, status)| (*attempt, status.as_str()));
    assert_eq!(settlings, [(1, Status::Retrying), (1, Status::Sent), (2, Status::Sent)]);
    let recorded = "SELECT count(*) FROM attempt WHERE (number, provider) IN ((1, 'main'), (2, 'second'))";
    assert_eq!(world.count(recorded).await, 2);
    let first = "SELECT count(*) FROM attempt WHERE number = 1 AND provider = 'second'";
    assert_eq!(world.count(first).await, 1);
}

#[tokio::test]
async fn a_refusal_after_an_expired_claim_does_not_lead_to_another_provider() {
    for refusal in [Outcome::PauseProvider, RETRY] {
        let world = World::start().await;
        world.provider("second", None).await;
        let scripted = ScriptedChannel::new([Step::Answer(refusal.clone())]);
        let order = world.delivery(1).await;
        // This state remains if a worker dies during its call: the provider may have accepted the message.
        world.run("UPDATE delivery SET status = 'sending', provider = 'second', lease_until = now()").await;
        world.serve(&scripted);
        world.order(&order).await;
        world.acknowledged(1).await;
        let due = eventually(SOON, "the next attempt is due", async || {
            let due = world.context.store.deliveries().due_timers(10).await.unwrap();
            (!due.timers.is_empty()).then_some(due)
        })
        .await;
        let next = Envelope::decode(&due.timers[0].message).unwrap().event;
        let Event::DeliveryJob(job) = next else { panic!("{next:?}") };
        assert_eq!((job.attempt, job.route.only.as_deref()), (2, Some("second")), "{refusal:?}");
        assert_eq!(providers(&scripted), ["second"]);
    }
}

#[tokio::test]
async fn after_account_problems_of_every_provider_the_schedule_decides() {
    let world = World::start().await;
    world.provider("second", None).await;
    let pause = || Step::Answer(Outcome::PauseProvider);
    let scripted = ScriptedChannel::new([pause(), pause()]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    world.fire_timers(1).await;
    world.acknowledged(2).await;
    assert_eq!(providers(&scripted), ["main", "second"]);
    assert_eq!(world.settlings().await, [(1, Status::Retrying), (2, Status::Parked)]);
}

#[tokio::test]
async fn a_target_is_dead_after_the_last_provider_reports_it() {
    let world = World::start().await;
    world.provider("second", None).await;
    let scripted = ScriptedChannel::new([Step::Answer(HERE), Step::Answer(HERE)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    assert_eq!(world.count("SELECT count(*) FROM suppression").await, 0);
    world.fire_timers(1).await;
    world.acknowledged(2).await;
    assert_eq!(providers(&scripted), ["main", "second"]);
    assert_eq!(world.settlings().await, [(1, Status::Retrying), (2, Status::Failed)]);
    assert_eq!(world.count("SELECT count(*) FROM suppression").await, 1);
}

#[tokio::test]
async fn after_an_unknown_outcome_the_same_provider_is_called_again() {
    let world = World::start().await;
    world.provider("another", None).await;
    let scripted = ScriptedChannel::new([Step::Answer(Outcome::Unknown)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    world.run("UPDATE provider SET priority = 0 WHERE identifier = 'main'").await;
    world.fire_timers(1).await;
    world.acknowledged(2).await;
    assert_eq!(providers(&scripted), ["another", "another"]);
}

#[tokio::test]
async fn a_provider_that_does_not_serve_the_target_is_not_called() {
    let world = World::start().await;
    world.run("UPDATE provider SET kind = 'elsewhere'").await;
    let scripted = ScriptedChannel::new([]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    assert!(scripted.calls().is_empty());
    let reason = "SELECT count(*) FROM attempt WHERE provider_code = 'not_served' AND provider IS NULL";
    assert_eq!(world.count(reason).await, 1);
    world.provider_of("second", Channel::Email, "smtp", None).await;
    eventually(SOON, "the new provider is known", async || {
        let number = 200 + world.count("SELECT count(*) FROM delivery").await;
        let order = world.delivery(number).await;
        world.order(&order).await;
        (providers(&scripted).first()? == "second").then_some(())
    })
    .await;
}

#[tokio::test]
async fn while_the_only_breaker_is_open_jobs_become_timers_for_the_same_attempt() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new(overloaded());
    world.serve(&scripted);
    world.overload().await;
    let waiting = world.delivery(1).await;
    world.order(&waiting).await;
    world.acknowledged(11).await;
    assert_eq!(scripted.calls().len(), 10);
    assert_eq!(world.count("SELECT count(*) FROM delivery WHERE status = 'queued' AND attempt = 1").await, 1);
    let held = "SELECT count(*) FROM timer WHERE user_number = 1 AND due_at > now() + interval '30 seconds'";
    assert_eq!(world.count(held).await, 1);
    assert!(world.settlings().await.iter().all(|settling| *settling == (1, Status::Retrying)));

    // Another process has its own breaker for the provider. That breaker is still closed.
    world.run("UPDATE timer SET due_at = now()").await;
    stop(&world.context).await;
    let other = world.another().await;
    serve(&other, &scripted);
    world.fire_timers(1).await;
    world.reaches(waiting.delivery_id, Status::Sent).await;
    assert_eq!(scripted.calls()[10].attempt, 1);
    stop(&other).await;
}

#[tokio::test]
async fn a_changed_credential_is_tried_at_once() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new(overloaded());
    world.serve(&scripted);
    world.overload().await;
    world.run("UPDATE provider SET version = version + 1").await;
    eventually(SOON, "the new version is called", async || {
        let number = 200 + world.count("SELECT count(*) FROM delivery").await;
        let order = world.delivery(number).await;
        world.order(&order).await;
        (scripted.calls().len() > 10).then_some(())
    })
    .await;
}
