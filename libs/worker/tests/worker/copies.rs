//! Number of copies that a recipient may get because the outcomes of calls are unknown.

use std::time::Duration;

use domain::{Outcome, Status};

use crate::scripted::{RETRY, ScriptedChannel, Step};
use crate::world::World;

#[tokio::test]
async fn an_email_whose_outcome_stays_unknown_is_sent_three_times_at_most() {
    let world = World::with(|config| config.delivery.retry_schedule = vec![Duration::ZERO; 9]).await;
    let unknown = || Step::Answer(Outcome::Unknown);
    // A certain refusal in between is no copy.
    let scripted = ScriptedChannel::new([unknown(), Step::Answer(RETRY), unknown(), unknown(), unknown()]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    for attempt in 1..=3 {
        world.acknowledged(attempt).await;
        world.fire_timers(1).await;
    }
    world.acknowledged(4).await;
    world.reaches(order.delivery_id, Status::Unknown).await;
    assert_eq!(scripted.calls().len(), 4);
    let in_doubt = "SELECT count(*) FROM attempt WHERE outcome = 'unknown'";
    assert_eq!(world.count(in_doubt).await, 3);
    assert_eq!(world.count("SELECT count(*) FROM timer").await, 0);
}
