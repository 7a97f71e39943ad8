//! Repeated events, events that cannot be read or written, and restarts of the projection.

use bytes::Bytes;
use domain::content::InAppContent;
use domain::event::{ItemsAdded, ItemsChanged, bundle};
use domain::id::partition;
use domain::inbox::ItemChange;
use domain::{Event, ItemId, Timestamp, UserNumber};
use store::inbox::projection::INBOX;
use testkit::{WRONG_COUNTERS, eventually};

use crate::world::{APP, SOON, STREAM, World, added, changed, envelope, items, stop};

#[tokio::test]
async fn repeated_events_add_nothing() {
    let world = World::start().await;
    // Repeat events within a batch, across batches, with other recipients than before, and after the item was read or deleted.
    world.publish(vec![added(1, 3), added(2, 400), added(2, 300), added(3, 500), added(4, 500)]).await;
    world.publish(vec![changed(1, ItemChange::Read), changed(2, ItemChange::Deleted)]).await;
    world.publish(vec![added(1, 4), added(2, 1), added(5, 2)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    world.publish(vec![added(2, 400), added(3, 500)]).await;
    world.projected().await;

    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 4 + 400 + 500 + 500 + 2);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item WHERE deleted_at IS NOT NULL").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item WHERE clicked_at IS NOT NULL").await, 1);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 0);
}

#[tokio::test]
async fn unreadable_and_unwritable_events_are_dead_lettered_and_block_no_others() {
    let world = World::start().await;
    let refuse = "ALTER TABLE inbox_item ADD CHECK (send_id <> '00000000-0000-0000-0000-000000000007')";
    sqlx::raw_sql(refuse).execute(&world.pool).await.unwrap();
    let without_send = ItemsAdded {
        created_at: Timestamp::from_millis(0),
        category_id: None,
        first: 0,
        contents: vec![InAppContent::default()],
        recipients: vec![(UserNumber(1), 0)],
    };
    let without_send = envelope(None, Event::InboxItemsAdded(without_send));
    world
        .publish(vec![added(1, 2), b"{".to_vec(), added(2, 2), added(7, 2), without_send, added(3, 2)])
        .await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;

    assert_eq!(world.count("SELECT count(DISTINCT send_id) FROM inbox_item").await, 3);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 6);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    let dead: Vec<i64> =
        sqlx::query_scalar("SELECT seq FROM dead_event ORDER BY seq").fetch_all(&world.pool).await.unwrap();
    assert_eq!(dead, [2, 4, 5]);
}

#[tokio::test]
async fn plans_are_pinned_when_the_tables_of_inboxes_have_statistics() {
    let world = World::start().await;
    world.publish(vec![added(1, 60)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    world.run("ANALYZE").await;
    eventually(SOON, "the inbox pins its plans", async || {
        // This table is empty here, so it alone never lets a process pin its plans.
        world.context.store.pin_plans_with_statistics(&["app"]).await.unwrap().then_some(())
    })
    .await;
}

/// Combines events that add items to the inboxes of some users, as (send, number of users).
fn bundled(sends: &[(u128, i64)]) -> Vec<u8> {
    let mut first = 0;
    let messages: Vec<Bytes> = sends
        .iter()
        .map(|&(send, users)| {
            let added = ItemsAdded { first, ..items(users) };
            first += u32::try_from(users).unwrap();
            envelope(Some(send), Event::InboxItemsAdded(added)).into()
        })
        .collect();
    bundle::encode("InboxItemsAdded", &messages).into()
}

#[tokio::test]
async fn the_items_of_a_bundle_have_different_ids() {
    let world = World::start().await;
    world.publish(vec![bundled(&[(1, 2), (2, 3)]), added(3, 1)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    let ids: Vec<i64> =
        sqlx::query_scalar("SELECT id FROM inbox_item ORDER BY id").fetch_all(&world.pool).await.unwrap();
    let id = |seq, index| ItemId::derive(seq, 0, 1, index).unwrap().0;
    assert_eq!(ids, [id(1, 0), id(1, 1), id(1, 2), id(1, 3), id(1, 4), id(2, 0)]);
    assert_eq!(world.differing().await, 0);
}

#[tokio::test]
async fn of_a_bundle_only_the_refused_event_is_left_out() {
    let world = World::start().await;
    let refuse = "ALTER TABLE inbox_item ADD CHECK (send_id <> '00000000-0000-0000-0000-000000000007')";
    sqlx::raw_sql(refuse).execute(&world.pool).await.unwrap();
    let message = bundled(&[(1, 2), (7, 2), (2, 2), (7, 1), (3, 1)]);
    world.publish(vec![message.clone(), added(4, 1)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    let sends = "SELECT count(*) FROM inbox_item GROUP BY send_id ORDER BY send_id";
    let items: Vec<i64> = sqlx::query_scalar(sends).fetch_all(&world.pool).await.unwrap();
    assert_eq!(items, [2, 2, 1, 1]);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    let dead: Vec<(i64, Vec<u8>)> =
        sqlx::query_as("SELECT seq, message FROM dead_event").fetch_all(&world.pool).await.unwrap();
    assert_eq!(dead, [(1, message)]);
    assert_eq!(world.count("SELECT count(*) FROM message_failure WHERE failures > 0").await, 0);
}

#[tokio::test]
async fn a_refused_event_is_tried_five_times() {
    let world = World::start().await;
    // The SQL sequence `tries` counts every try, because a rollback does not reset it.
    let refuse = "CREATE SEQUENCE tries;
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          PERFORM nextval('tries');
          RAISE EXCEPTION 'refused' USING ERRCODE = '22000';
        END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON inbox_item FOR EACH ROW EXECUTE FUNCTION refuse()";
    sqlx::raw_sql(refuse).execute(&world.pool).await.unwrap();
    world.publish(vec![added(1, 1)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    // The event is tried twice in its batch, then five times alone.
    assert_eq!(world.count("SELECT last_value FROM tries").await, 7);
    assert_eq!(world.count("SELECT count(*) FROM dead_event WHERE cause LIKE '%SQLSTATE 22000%'").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM message_failure WHERE failures > 0").await, 0);
}

#[tokio::test]
async fn a_new_process_continues_after_the_last_projected_event() {
    let world = World::start().await;
    let first = world.another().await;
    first.serve("inbox", inbox::run);
    world.publish(vec![added(1, 3), changed(1, ItemChange::Read)]).await;
    world.projected().await;
    stop(&first).await;
    // If the new process read the first events again, the deleted item would come back.
    sqlx::raw_sql("DELETE FROM inbox_item; DELETE FROM inbox_counter").execute(&world.pool).await.unwrap();
    world.publish(vec![added(2, 3)]).await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 3);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
}

#[tokio::test]
async fn two_processes_produce_the_same_rows_as_one() {
    let world = World::start().await;
    let others = [world.another().await, world.another().await];
    for other in &others {
        other.serve("inbox", inbox::run);
    }
    for send in 0..60 {
        let first = u64::try_from(send * 3 + 1).unwrap();
        world.publish(vec![added(send, 40), added(send, 50), changed(first, ItemChange::Read)]).await;
    }
    world.projected().await;
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 60 * 50);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item WHERE clicked_at IS NOT NULL").await, 60);
    assert_eq!(world.count(WRONG_COUNTERS).await, 0);
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 0);
    for other in &others {
        stop(other).await;
    }
}

#[tokio::test]
async fn events_of_another_partition_are_dead_lettered() {
    let world = World::with_partitions(2).await;
    let user = (1..).map(UserNumber).find(|user| partition(APP, *user, 2) == 1).unwrap();
    let foreign_item = ItemsAdded {
        created_at: Timestamp::from_millis(0),
        category_id: None,
        first: 0,
        contents: vec![InAppContent::default()],
        recipients: vec![(user, 0)],
    };
    let foreign_change = ItemsChanged { user, items: vec![ItemId(1)] };
    let mut crowded = foreign_item.clone();
    let own = (1..).map(UserNumber).filter(|user| partition(APP, *user, 2) == 0);
    crowded.recipients = own.take(513).map(|user| (user, 0)).collect();
    world
        .publish(vec![
            envelope(Some(1), Event::InboxItemsAdded(foreign_item)),
            envelope(None, Event::InboxItemsChanged(ItemChange::Read, foreign_change)),
            envelope(Some(2), Event::InboxItemsAdded(crowded)),
        ])
        .await;
    world.context.serve("inbox", inbox::run);
    world.projected().await;
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 3);
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 0);
}

#[tokio::test]
async fn an_unknown_type_is_skipped_and_a_newer_version_waits_for_a_newer_release() {
    let world = World::start().await;
    let with = |from: &str, to: &str| {
        let text = String::from_utf8(added(2, 1)).unwrap();
        assert!(text.contains(from));
        text.replace(from, to).into_bytes()
    };
    let (unknown, newer) = (with("InboxItemsAdded", "InboxPainted"), with("\"v\":1", "\"v\":3"));
    world.publish(vec![added(1, 1), unknown, added(3, 1), newer, added(4, 1)]).await;
    let other = world.another().await;
    other.serve("inbox", inbox::run);
    eventually(SOON, "the events before the newer one are projected", async || {
        (world.context.store.database().checkpoint(INBOX, STREAM).await.unwrap() == 3).then_some(())
    })
    .await;
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 2);

    // A process of the newer release projects the event of the newer version.
    let batch = world
        .context
        .store
        .inbox()
        .project(STREAM, 3, 4)
        .await
        .unwrap()
        .expect("the checkpoint moved unexpectedly");
    batch.commit().await.unwrap();
    eventually(SOON, "the events after the newer one are projected", async || {
        (world.context.store.database().checkpoint(INBOX, STREAM).await.unwrap() == 5).then_some(())
    })
    .await;
    assert_eq!(world.count("SELECT count(*) FROM inbox_item").await, 3);
    assert_eq!(world.count("SELECT count(*) FROM dead_event").await, 0);
    stop(&other).await;
}

#[tokio::test]
async fn positions_are_announced() {
    let world = World::start().await;
    let mut positions = world.context.log.positions().await.unwrap();
    world.publish(vec![added(1, 1), added(2, 1)]).await;
    world.context.serve("inbox", inbox::run);
    let announced = async {
        loop {
            let position = positions.next().await.unwrap();
            assert_eq!(position.stream, STREAM.to_string());
            if position.seq == 2 {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, announced).await.unwrap();
    assert_eq!(
        world.count("SELECT count(*) FROM inbox_item").await,
        2,
        "items are visible when their position is announced"
    );
}
