//! Timers that are due.

use domain::{StreamName, Timestamp};
use service_kit::clock;
use store::deliveries::timer::NewTimer;
use testkit::eventually;

use crate::world::{SOON, World};

/// Only rounds over all timers read those that have been due for long, and they are rare.
#[tokio::test]
async fn a_backlog_of_old_timers_is_published_without_a_round_over_all_timers_for_each_part() {
    let world = World::start().await;
    let timers: Vec<_> = (0..2_600)
        .map(|number| NewTimer {
            id: clock::new_id(),
            due_at: Timestamp::from_millis(clock::now().millis() - 3_600_000 + number),
            stream: StreamName::Inbox(0),
            message: Vec::new(),
            app: world.app,
            send_id: None,
            user: None,
            wait: None,
        })
        .collect();
    world.context.store.deliveries().set_timers(&timers).await.unwrap();
    world.serve();
    eventually(SOON, "the timers are published", async || {
        (world.count("SELECT count(*) FROM timer").await == 0).then_some(())
    })
    .await;
}
