//! A redrive that the dispatcher makes page by page survives the death of dispatchers.

use std::collections::BTreeMap;

use domain::content::{Content, EmailContent};
use domain::event::DeliveryJob;
use domain::redrive::RunState;
use domain::{Actor, Channel, DeliveryId, Envelope, Event, Lane, SendId, StreamName, UserNumber};
use service_kit::clock;
use store::deliveries::redrive::ParkedFilter;
use store::deliveries::redrive::run::{NewRun, RedriveRun};
use testkit::{Service, eventually};
use uuid::Uuid;

use crate::world::{PARTITIONS, SOON, World};

const MESSAGES: u128 = 120;
/// So few that the run cannot end before the last kill, however late a busy machine notices the progress.
const PER_SECOND: u32 = 5;
/// Numbers of redriven messages after which the dispatcher is killed.
const KILLED_AFTER: [i64; 4] = [1, 6, 11, 16];

impl World {
    async fn park_emails(&self, count: u128) {
        let stream = StreamName::Job(Channel::Email, Lane::Transactional);
        let send_id = SendId(Uuid::from_u128(1));
        for number in 1..=count {
            let (id, user) = (DeliveryId(Uuid::from_u128(number)), i64::try_from(number).unwrap());
            let content = EmailContent { subject: "Subject".to_owned(), ..EmailContent::default() };
            let content = Content::Email(content);
            let target = format!("user-{number}@example.com");
            let first = DeliveryJob::first(id, Channel::Email, UserNumber(user), target, content);
            let event = Event::DeliveryJob(Box::new(DeliveryJob { attempt: 9, ..first }));
            let (app, at) = (self.app, clock::now());
            let job =
                Envelope { id: id.0, app, at, send_id: Some(send_id), caused_by: None, trace: None, event };
            let insert = "WITH new AS (
                 INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, reason, attempt)
                 VALUES ($1, $2, $3, $4, $4, 'email', 'x@example.com', 'parked', 'retries_exhausted', 8)
               )
               INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause)
               VALUES (gen_random_uuid(), $1, $3, $2, $4, $5, $6, '535')";
            let insert = sqlx::query(insert).bind(app.0).bind(id.0).bind(send_id.0).bind(user);
            let insert = insert.bind(stream.to_string()).bind(job.encode().unwrap());
            insert.execute(&self.pool).await.unwrap();
        }
    }

    async fn redrive(&self, id: i64) -> RedriveRun {
        self.context.store.deliveries().find_run(self.app, id).await.unwrap().unwrap()
    }
}

fn dispatcher(world: &World) -> Service {
    let mut environment = world.servers.environment();
    environment.push(("TIDINGS_STREAMS__PARTITIONS".to_owned(), PARTITIONS.to_string()));
    let environment: Vec<_> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
    Service::start("tidings-dispatcher", &[], &environment).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_survives_the_death_of_dispatchers_and_redrives_each_delivery_once() {
    let world = World::with(|_| {}).await;
    world.park_emails(MESSAGES).await;
    let deliveries = world.context.store.deliveries();
    let filter = ParkedFilter::default();
    let before = deliveries.time().await.unwrap() + std::time::Duration::from_secs(1);
    let new = NewRun {
        app: world.app,
        filter: &filter,
        before,
        selected: 120,
        expected: 120,
        per_second: PER_SECOND,
    };
    let id = deliveries.start_run(&new, &Actor::System).await.unwrap().unwrap();
    for least in KILLED_AFTER {
        let mut running = dispatcher(&world);
        eventually(SOON, "a page of the run", async || {
            (world.redrive(id).await.redriven >= least).then_some(())
        })
        .await;
        running.kill();
        assert_eq!(world.redrive(id).await.state, RunState::Running, "{}", running.last_words());
    }
    sqlx::query("UPDATE redrive_run SET per_second = 1000").execute(&world.pool).await.unwrap();
    let _running = dispatcher(&world);
    eventually(SOON, "the run is done", async || {
        (world.redrive(id).await.state == RunState::Done).then_some(())
    })
    .await;
    let done = world.redrive(id).await;
    assert_eq!((done.redriven, done.kept()), (120, 0));
    eventually(SOON, "all timers are published", async || {
        (world.count("SELECT count(*) FROM timer").await == 0).then_some(())
    })
    .await;
    let mut jobs: BTreeMap<DeliveryId, u32> = BTreeMap::new();
    for job in world.jobs(Channel::Email).await {
        *jobs.entry(job.delivery_id).or_default() += 1;
    }
    assert_eq!(jobs.len() as u128, MESSAGES);
    assert!(jobs.values().all(|times| *times == 1), "{jobs:?}");
    let once = "SELECT count(*) FROM (SELECT subject FROM audit WHERE action = 'parked.redrive' GROUP BY subject HAVING count(*) = 1) AS once";
    assert_eq!(world.count(once).await, 120);
    assert_eq!(world.count("SELECT count(*) FROM parked").await, 0);
}
