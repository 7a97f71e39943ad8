//! Failing or slow targets of one user do not affect deliveries to other users.

use std::sync::{Arc, Mutex};

use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, Outcome, Status, UserNumber};
use testkit::eventually;
use tokio::sync::Semaphore;
use worker::ChannelSender;

use crate::world::{SOON, World};

const MALLORY: UserNumber = UserNumber(1_000);

/// A channel with scripted answers for user Mallory. All messages to other users are sent.
#[derive(Clone)]
struct ProvokedChannel {
    answers: Arc<dyn Fn(usize) -> Answer + Send + Sync>,
    /// True if targets name their hosts.
    names_hosts: bool,
    /// Calls for Mallory hang while this semaphore has no permits.
    gate: Arc<Semaphore>,
    called: Arc<Mutex<Vec<UserNumber>>>,
}

impl ProvokedChannel {
    fn new(
        names_hosts: bool,
        hang: bool,
        answers: impl Fn(usize) -> Answer + Send + Sync + 'static,
    ) -> ProvokedChannel {
        let gate = Arc::new(Semaphore::new(if hang { 0 } else { Semaphore::MAX_PERMITS }));
        ProvokedChannel { answers: Arc::new(answers), names_hosts, gate, called: Arc::default() }
    }

    fn calls_of(&self, user: UserNumber) -> usize {
        self.called.lock().unwrap().iter().filter(|called| **called == user).count()
    }
}

impl ChannelSender for ProvokedChannel {
    const CHANNEL: Channel = Channel::Email;

    type Prepared = ();

    async fn prepare(&self, _app: AppId, _job: &DeliveryJob) -> Result<(), Answer> {
        Ok(())
    }

    async fn probe(&self, _probe: &worker::Probe<'_>) -> Result<String, Answer> {
        Ok("nothing is tested".to_owned())
    }

    async fn send(&self, call: &worker::Call<'_>, _prepared: ()) -> Answer {
        let user = call.job.user;
        self.called.lock().unwrap().push(user);
        if user != MALLORY {
            return Answer::new(Outcome::Sent { provider_id: None }, "ok", "");
        }
        drop(self.gate.acquire().await);
        (self.answers)(self.calls_of(MALLORY))
    }

    fn host(&self, target: &str) -> Option<String> {
        self.names_hosts.then(|| target.rsplit('@').next().unwrap().to_owned())
    }
}

/// Publishes jobs for Mallory with `targets` different targets, each at its own host.
async fn send_to_mallory(world: &World, targets: i64) {
    for number in 1..=targets {
        let order = world.delivery(number).await;
        let target = format!("m@nx{number}.example");
        world.order(&DeliveryJob { user: MALLORY, target, ..order }).await;
    }
}

/// Checks that Bob's delivery is sent by its first job, without being postponed.
async fn bob_is_served(world: &World) {
    let order = world.delivery(900).await;
    world.order(&order).await;
    world.reaches(order.delivery_id, Status::Sent).await;
}

fn serve(world: &World, provoked: &ProvokedChannel) {
    let provoked = provoked.clone();
    world.context.serve("worker", move |context| worker::run(context, provoked));
}

#[tokio::test]
async fn failing_targets_of_one_user_never_close_the_provider_to_another_user() {
    let world = World::start().await;
    let provoked = ProvokedChannel::new(false, false, |call| match call % 3 {
        0 => Answer::new(Outcome::Unknown, "timeout", ""),
        1 => Answer::new(Outcome::RETRY, "503", ""),
        _ => Answer::new(Outcome::PauseProvider, "403", "").blaming_user(),
    });
    serve(&world, &provoked);
    // One after the other, so that no job exceeds Mallory's share.
    for number in 1..=30 {
        let order = world.delivery(number).await;
        let target = format!("m@nx{number}.example");
        world.order(&DeliveryJob { user: MALLORY, target, ..order }).await;
        world.acknowledged(u64::try_from(number).unwrap()).await;
    }
    let failures = provoked.calls_of(MALLORY);
    assert!(
        failures > usize::try_from(domain::breaker::RUN).unwrap(),
        "only {failures} calls failed, too few to open a breaker"
    );
    bob_is_served(&world).await;
}

#[tokio::test]
async fn dead_hosts_that_one_user_names_never_close_the_provider_to_another_user() {
    let world = World::start().await;
    let refused = |_| Answer::new(Outcome::RETRY, "connect", "").blaming_provider();
    let provoked = ProvokedChannel::new(true, false, refused);
    serve(&world, &provoked);
    send_to_mallory(&world, 50).await;
    world.acknowledged(50).await;
    bob_is_served(&world).await;
}

#[tokio::test]
async fn an_unreachable_host_is_not_called_while_other_hosts_are() {
    let world = World::start().await;
    let refused = |_| Answer::new(Outcome::RETRY, "connect", "").blaming_provider();
    let provoked = ProvokedChannel::new(true, false, refused);
    serve(&world, &provoked);
    for number in 1..=30 {
        let order = world.delivery(number).await;
        let target = format!("m{number}@nx.example");
        world.order(&DeliveryJob { user: MALLORY, target, ..order }).await;
        world.acknowledged(u64::try_from(number).unwrap()).await;
    }
    // On a slow machine, one or two trial calls of the half-open breaker may add to the calls that opened it.
    let calls = provoked.calls_of(MALLORY);
    assert!((10..15).contains(&calls), "{calls} of 30 deliveries were called");
    bob_is_served(&world).await;
}

#[tokio::test]
async fn hanging_targets_of_one_user_leave_room_in_the_lane_for_another_user() {
    for names_hosts in [false, true] {
        let world = World::with(|config| config.delivery.max_concurrency = 8).await;
        let provoked = ProvokedChannel::new(names_hosts, true, |_| Answer::new(Outcome::Failed, "404", ""));
        serve(&world, &provoked);
        send_to_mallory(&world, 40).await;
        let share = 2;
        eventually(SOON, "Mallory's share is used up", async || {
            let postponed = world.count("SELECT count(*) FROM timer").await;
            (provoked.calls_of(MALLORY) == share && postponed == 38).then_some(())
        })
        .await;
        bob_is_served(&world).await;
        assert_eq!(provoked.calls_of(MALLORY), share);
        provoked.gate.add_permits(1_000);
    }
}

#[tokio::test]
async fn jobs_to_one_host_wait_for_its_calls_instead_of_being_postponed() {
    let world = World::with(|config| config.delivery.max_concurrency = 8).await;
    let provoked =
        ProvokedChannel::new(true, false, |_| Answer::new(Outcome::Sent { provider_id: None }, "201", ""));
    for number in 1..=60 {
        let order = world.delivery(number).await;
        let target = format!("m{number}@push.example");
        world.order(&DeliveryJob { target, ..order }).await;
    }
    serve(&world, &provoked);
    world.acknowledged(60).await;
    // On a slow machine, a call may take longer than a job waits. Without waiting, more than half of the jobs are postponed.
    let postponed = world.count("SELECT count(*) FROM timer").await;
    assert!(postponed <= 20, "{postponed} of 60 jobs were postponed");
    assert_eq!(world.count("SELECT count(*) FROM delivery WHERE status = 'sent'").await, 60 - postponed);
}
