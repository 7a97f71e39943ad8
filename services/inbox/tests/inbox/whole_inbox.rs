//! Changes to whole inboxes, mixed with changes to single items.

use domain::event::{AllItemsChanged, ItemStateSet};
use domain::id::partition;
use domain::inbox::{AllChange, ItemChange};
use domain::{Event, ItemId, UserNumber};

use testkit::WRONG_COUNTERS;

use crate::world::{APP, World, added, all_changed, changed, envelope};

#[tokio::test]
async fn changes_of_one_batch_are_made_in_the_order_of_the_log() {
    let world = World::start().await;
    world
        .publish(vec![
            added(1, 2),
            added(2, 2),
            changed(1, ItemChange::Unread),
            all_changed(2, AllChange::Read),
            changed(1, ItemChange::Unread),
            changed(2, ItemChange::Unseen),
            all_changed(1, AllChange::Read),
            added(3, 2),
            all_changed(8, AllChange::Seen),
            changed(8, ItemChange::Unseen),
        ])
        .await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    let states = "SELECT count(*) FROM inbox_item WHERE user_number = 1
                  AND (send_id::text LIKE '%1', seen_at IS NOT NULL, clicked_at IS NOT NULL)
                  IN ((true, true, true), (false, true, false), (false, false, false))";
    assert_eq!(world.count(states).await, 3);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item WHERE seen_at IS NULL").await, 4);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item WHERE clicked_at IS NULL").await, 5);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
}

#[tokio::test]
async fn a_whole_inbox_change_does_not_affect_items_added_after_it() {
    let world = World::start().await;
    // The bound `up_to` is higher than the ids of all items, including the item that is added after the change.
    world.publish(vec![added(1, 1), all_changed(100, AllChange::Deleted), added(2, 1)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    assert_eq!(world.count("SELECT count(*) FROM inbox_item WHERE deleted_at IS NULL").await, 1);
    assert_eq!(world.count("SELECT total FROM inbox_counter").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 0);
}

#[tokio::test]
async fn an_items_state_is_set_removed_and_deleted_with_the_item() {
    let world = World::start().await;
    let set = |seq, state: Option<&str>| {
        let (user, item) = (UserNumber(1), ItemId::derive(seq, 0, 1, 0).unwrap());
        envelope(None, Event::InboxItemStateSet(ItemStateSet { user, item, state: state.map(str::to_owned) }))
    };
    world.publish((1..=4).map(|send| added(send, 1)).collect()).await;
    world.publish(vec![set(1, Some("open")), set(1, Some("done")), set(2, Some("done")), set(2, None)]).await;
    world.publish(vec![set(3, Some("done")), changed(3, ItemChange::Deleted), set(3, Some("open"))]).await;
    world.publish(vec![set(100, Some("done"))]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    assert_eq!(world.count("SELECT count(*) FROM inbox_item WHERE state = 'done'").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item WHERE state IS NOT NULL").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 0);
}

#[tokio::test]
async fn a_whole_inbox_change_of_another_partition_is_dead_lettered() {
    let world = World::with_partitions(2).await;
    let user = (1..).map(UserNumber).find(|user| partition(APP, *user, 2) == 1).unwrap();
    let all = AllItemsChanged { user, up_to: ItemId(1) };
    world.publish(vec![envelope(None, Event::InboxAllChanged(AllChange::Read, all))]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 1);
}
