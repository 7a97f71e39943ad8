//! The projection of events of erased users.

use domain::event::UserErased;
use domain::inbox::{AllChange, ItemChange};
use domain::{Event, UserNumber};

use testkit::WRONG_COUNTERS;

use crate::world::{APP, World, added, all_changed, changed, envelope};

fn erased(user: i64) -> Vec<u8> {
    envelope(None, Event::UserErased(UserErased { user: UserNumber(user), digest: None }))
}

const ROWS_OF_THE_ERASED: &str = "SELECT (SELECT count(*) FROM inbox_item WHERE user_number = 1)
                                  + (SELECT count(*) FROM inbox_counter WHERE user_number = 1)";

#[tokio::test]
async fn no_row_of_an_erased_user_remains_or_returns() {
    let world = World::start().await;
    world.publish(vec![added(1, 2), added(2, 2), changed(1, ItemChange::Deleted), added(3, 2)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    // Publish the erasure twice in one batch, with events of the erased user before and after it.
    world.publish(vec![added(4, 2), erased(1), added(5, 2), changed(1, ItemChange::Read), erased(1)]).await;
    world.projected().await;
    world.publish(vec![added(6, 2), all_changed(6, AllChange::Read)]).await;
    world.projected().await;
    assert_eq!(world.count(ROWS_OF_THE_ERASED).await, 0);
    assert_eq!(world.count("SELECT total FROM inbox_counter WHERE user_number = 2").await, 6);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 0);
}

#[tokio::test]
async fn a_rebuild_ignores_events_of_erased_users() {
    let world = World::start().await;
    assert_eq!(world.app("shop").await, APP);
    world.erase(APP, 1).await;
    // The log does not contain the erasure event: it is lost, or not published yet.
    world.publish(vec![added(1, 2), changed(1, ItemChange::Read)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    assert_eq!(world.count(ROWS_OF_THE_ERASED).await, 0);
    assert_eq!(world.count("SELECT total FROM inbox_counter WHERE user_number = 2").await, 1);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
}
