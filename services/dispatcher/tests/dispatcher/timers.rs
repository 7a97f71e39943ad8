//! Timers that are due.

use domain::{StreamName, Timestamp};
use service_kit::clock;
use store::deliveries::timer::NewTimer;
use testkit::eventually;

use crate::world::{SOON, World};

impl World {
    /// Sets timers that have been due for an hour.
    async fn set_old_timers(&self, count: i64) {
        let timers: Vec<_> = (0..count)
            .map(|number| NewTimer {
                id: clock::new_id(),
                due_at: Timestamp::from_millis(clock::now().millis() - 3_600_000 + number),
                stream: StreamName::Inbox(0),
                message: Vec::new(),
                app: self.app,
                send_id: None,
                user: None,
                wait: None,
            })
            .collect();
        self.context.store.deliveries().set_timers(&timers).await.unwrap();
    }

    async fn timers_are_published(&self) {
        eventually(SOON, "the timers are published", async || {
            (self.count("SELECT count(*) FROM timer").await == 0).then_some(())
        })
        .await;
    }
}

/// Only rounds over all timers read those that have been due for long, and they are rare: one dispatcher makes at most four within [`SOON`],
/// each of 500 timers.
#[tokio::test]
async fn a_backlog_of_old_timers_is_published_without_a_round_over_all_timers_for_each_part() {
    let world = World::with(|_| {}).await;
    world.set_old_timers(2_600).await;
    world.serve();
    world.timers_are_published().await;
}

/// A dispatcher that waited for the next round over all timers after each failure would need over a minute.
#[tokio::test]
async fn a_round_over_all_timers_that_failed_at_once_is_repeated_soon() {
    let world = World::with(|_| {}).await;
    world
        .run(
            "CREATE SEQUENCE removal;
             CREATE FUNCTION fail_at_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               IF nextval('removal') < 8 THEN RAISE EXCEPTION 'not yet'; END IF;
               RETURN NULL;
             END $$;
             CREATE TRIGGER fail_at_first BEFORE DELETE ON timer FOR EACH STATEMENT EXECUTE FUNCTION fail_at_first()",
        )
        .await;
    world.set_old_timers(1).await;
    world.serve();
    world.timers_are_published().await;
}
