//! Events whose projection ends the process.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use domain::event::RequestCancelled;
use domain::event::bundle::{self, Part};
use domain::{AppId, Envelope, Event, SendId, StreamName, Timestamp};
use service_kit::Tasks;
use service_kit::follower::{EventBatch, Follower, Projection, Repeats};
use store::Store;
use store::webhooks::WEBHOOKS;
use testkit::{Installation, eventually};
use tokio::sync::Notify;
use uuid::Uuid;

const STREAM: StreamName = StreamName::Outcome;
const SOON: Duration = Duration::from_secs(30);
const POISON: u128 = 7;
/// Events with this number or a higher one write no rows.
const WITHOUT_ROWS: u128 = 1_000;
/// Maximum number of processes that a test lets end.
const MOST_ENDS: usize = 30;

/// A projection that keeps the numbers of its events in memory. It never ends if an event has the number of the poison.
struct Scripted {
    store: Store,
    script: Arc<Script>,
}

#[derive(Default)]
struct Script {
    projected: Mutex<Vec<u128>>,
    /// Number of transactions.
    writes: Mutex<u64>,
    /// True while every projection hangs, not only that of the poison.
    hangs: Mutex<bool>,
    /// Notified when a projection hangs.
    hanging: Notify,
}

impl Projection for Scripted {
    const NAME: &'static str = WEBHOOKS;
    const PACE: Duration = Duration::from_millis(5);
    type Events = Vec<u128>;

    fn add(&mut self, events: &mut Vec<u128>, _: u64, part: Part) -> Result<(), String> {
        events.push(part.envelope.id.as_u128());
        Ok(())
    }

    async fn prepare(&self, events: &mut Vec<u128>) -> Result<bool, store::Error> {
        Ok(events.iter().any(|number| *number < WITHOUT_ROWS))
    }

    async fn write(&self, batch: &EventBatch<'_, Vec<u128>>, _: Repeats) -> Result<bool, store::Error> {
        *self.script.writes.lock().unwrap() += 1;
        let hangs = *self.script.hangs.lock().unwrap();
        if hangs || batch.events.contains(&POISON) {
            self.script.hanging.notify_one();
            return pending().await;
        }
        let rows = self.store.webhooks().webhook_batch(batch.stream, batch.from, batch.to).await?;
        let Some(mut rows) = rows else { return Ok(false) };
        for (record, cause) in &batch.dead {
            rows.dead_letter(batch.stream, record.seq, &record.payload, cause).await?;
        }
        rows.commit().await?;
        self.script.projected.lock().unwrap().extend(&batch.events);
        Ok(true)
    }
}

struct World {
    installation: Installation,
    app: AppId,
    script: Arc<Script>,
}

impl World {
    async fn start() -> World {
        let installation = Installation::start(|_| {}).await;
        let app = installation.app("shop").await;
        World { installation, app, script: Arc::default() }
    }

    fn message(&self, number: u128) -> Bytes {
        let (id, send_id) = (Uuid::from_u128(number), Some(SendId(Uuid::from_u128(number))));
        let (at, event) = (Timestamp::from_millis(0), Event::RequestCancelled(RequestCancelled {}));
        let envelope = Envelope { id, app: self.app, at, send_id, caused_by: None, trace: None, event };
        envelope.encode().unwrap().into()
    }

    /// Publishes a message with these events.
    async fn publish(&self, numbers: &[u128]) {
        let messages: Vec<Bytes> = numbers.iter().map(|number| self.message(*number)).collect();
        self.installation.publish(STREAM, bundle::encode("RequestCancelled", &messages).into()).await;
    }

    /// Follows the stream as a new process. Returns true if the process ended in a projection, and false after it had projected all events
    /// up to this position.
    async fn process(&self, position: u64) -> bool {
        let (tasks, following) = self.follow();
        let ended = tokio::select! {
            () = self.script.hanging.notified() => true,
            () = self.projected_without_marks(position) => false,
        };
        if ended {
            following.abort();
        } else {
            tasks.stop();
        }
        drop(following.await);
        ended
    }

    fn follow(&self) -> (Tasks, tokio::task::JoinHandle<anyhow::Result<()>>) {
        let (context, tasks) = (&self.installation.context, Tasks::new());
        let projection = Scripted { store: context.store.clone(), script: Arc::clone(&self.script) };
        let follower = Follower::new(context.store.clone(), STREAM, projection);
        (tasks.clone(), tokio::spawn(follower.follow(context.log.clone(), tasks)))
    }

    async fn projected(&self, position: u64) {
        eventually(SOON, "the events are projected", async || {
            let database = self.installation.context.store.database();
            (database.checkpoint(WEBHOOKS, STREAM).await.unwrap() >= position).then_some(())
        })
        .await;
    }

    async fn projected_without_marks(&self, position: u64) {
        self.projected(position).await;
        eventually(SOON, "the marks are deleted", async || (self.marks().await == 0).then_some(())).await;
    }

    /// Runs one process after the other until the events up to this position are projected. Returns the number of those that ended.
    async fn processes(&self, position: u64) -> usize {
        let mut ends = 0;
        while self.process(position).await {
            ends += 1;
            assert!(ends <= MOST_ENDS, "the poison is never skipped");
        }
        ends
    }

    async fn marks(&self) -> i64 {
        self.installation.count("SELECT count(*) FROM message_failure").await
    }

    async fn dead(&self) -> Vec<(i64, String)> {
        let dead =
            sqlx::query_as("SELECT seq, cause FROM dead_event WHERE projection = 'webhooks' ORDER BY seq");
        dead.fetch_all(&self.installation.pool).await.unwrap()
    }

    fn events(&self) -> Vec<u128> {
        self.script.projected.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn an_event_whose_projection_ended_the_process_several_times_is_skipped_and_nothing_else() {
    let world = World::start().await;
    for number in [1, 2, POISON, 3] {
        world.publish(&[number]).await;
    }
    let ends = world.processes(4).await;
    assert!((3..=6).contains(&ends), "{ends} processes ended");
    assert_eq!(world.events(), [1, 2, 3]);
    let cause = "3 processes ended while they projected this message".to_owned();
    assert_eq!(world.dead().await, [(3, cause)]);
    assert_eq!(world.marks().await, 0);
}

#[tokio::test]
async fn of_a_bundle_only_the_event_that_ends_processes_is_skipped() {
    let world = World::start().await;
    world.publish(&[1]).await;
    world.publish(&[2, 3, POISON, 4, 5]).await;
    world.publish(&[6]).await;
    let ends = world.processes(3).await;
    assert!((5..=8).contains(&ends), "{ends} processes ended");
    let mut events = world.events();
    // The events before the poison are projected by each process that divides the message.
    events.dedup();
    assert_eq!(events.iter().rev().take(3).copied().collect::<Vec<_>>(), [6, 5, 4]);
    events.sort_unstable();
    events.dedup();
    assert_eq!(events, [1, 2, 3, 4, 5, 6]);
    assert_eq!(world.dead().await.into_iter().map(|(seq, _)| seq).collect::<Vec<_>>(), [2]);
    assert_eq!(world.marks().await, 0);
}

#[tokio::test]
async fn events_of_processes_that_were_killed_for_another_reason_are_projected() {
    let world = World::start().await;
    for number in 1..=3 {
        world.publish(&[number]).await;
    }
    *world.script.hangs.lock().unwrap() = true;
    for _ in 0..2 {
        assert!(world.process(3).await);
    }
    *world.script.hangs.lock().unwrap() = false;
    assert_eq!(world.processes(3).await, 0);
    assert_eq!(world.events(), [1, 2, 3]);
    assert_eq!((world.dead().await, world.marks().await), (vec![], 0));
}

#[tokio::test]
async fn a_process_that_stops_as_requested_withdraws_its_mark() {
    let world = World::start().await;
    world.publish(&[1]).await;
    *world.script.hangs.lock().unwrap() = true;
    for _ in 0..5 {
        let (tasks, following) = world.follow();
        world.script.hanging.notified().await;
        tasks.stop();
        following.await.unwrap().unwrap();
    }
    let unended = "SELECT count(*) FROM message_failure WHERE unended > 0";
    assert_eq!(world.installation.count(unended).await, 0);
    *world.script.hangs.lock().unwrap() = false;
    assert_eq!(world.processes(1).await, 0);
    assert_eq!(world.events(), [1]);
}

#[tokio::test]
async fn only_the_first_events_of_a_process_are_marked() {
    let world = World::start().await;
    world.publish(&[1]).await;
    let (tasks, following) = world.follow();
    eventually(SOON, "the first event is projected, and its mark is deleted", async || {
        (world.events() == [1] && world.marks().await == 0).then_some(())
    })
    .await;
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN RAISE EXCEPTION 'a mark'; END $$;
                  CREATE TRIGGER refuse BEFORE INSERT ON message_failure FOR EACH ROW EXECUTE FUNCTION refuse()";
    world.installation.run(refuse).await;
    for number in 2..=4 {
        world.publish(&[number]).await;
        world.projected(number as u64).await;
    }
    tasks.stop();
    following.await.unwrap().unwrap();
    assert_eq!(world.events(), [1, 2, 3, 4]);
}

#[tokio::test]
async fn processes_that_live_do_not_count_as_ended() {
    let world = World::start().await;
    for number in 1..=3 {
        world.publish(&[number]).await;
    }
    *world.script.hangs.lock().unwrap() = true;
    let mut living = Vec::new();
    for _ in 0..4 {
        living.push(world.follow());
    }
    // Each of them hangs with the same first event.
    for _ in 0..4 {
        world.script.hanging.notified().await;
    }
    *world.script.hangs.lock().unwrap() = false;
    assert_eq!(world.processes(3).await, 0);
    assert_eq!((world.events(), world.dead().await), (vec![1, 2, 3], vec![]));
    for (tasks, following) in living {
        tasks.stop();
        following.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn events_that_write_no_rows_move_the_checkpoint_once_a_second() {
    let world = World::start().await;
    let began = std::time::Instant::now();
    let (tasks, following) = world.follow();
    for number in 0..100 {
        world.publish(&[WITHOUT_ROWS + number]).await;
    }
    world.publish(&[1]).await;
    world.projected(101).await;
    world.publish(&[WITHOUT_ROWS]).await;
    world.projected(102).await;
    tasks.stop();
    following.await.unwrap().unwrap();
    // One more for the event with rows, and one for the stop.
    let most = began.elapsed().as_secs() + 2;
    let writes = *world.script.writes.lock().unwrap();
    assert!(writes <= most, "{writes} transactions");
    assert!(world.script.projected.lock().unwrap().contains(&1));
}

#[tokio::test]
async fn the_position_is_stored_although_no_further_event_arrives() {
    let world = World::start().await;
    world.publish(&[WITHOUT_ROWS]).await;
    let (tasks, following) = world.follow();
    world.projected(1).await;
    tasks.stop();
    following.await.unwrap().unwrap();
    assert_eq!(world.processes(1).await, 0);
    assert!(world.script.projected.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_event_that_ends_processes_is_found_behind_events_that_write_no_rows() {
    let world = World::start().await;
    for number in 0..600 {
        world.publish(&[WITHOUT_ROWS + number]).await;
    }
    world.publish(&[POISON]).await;
    world.publish(&[1]).await;
    assert!(world.processes(602).await > 0);
    assert!(world.script.projected.lock().unwrap().contains(&1));
}
