use std::time::Duration;

use event_log::{EventLog, Position};
use testkit::eventually;
use tokio::time::timeout;

use crate::world::{INBOX, SENDS, SOON, World, settings};

fn position(stream: &str, seq: u64) -> Option<Position> {
    Some(Position { stream: stream.to_owned(), seq })
}

#[tokio::test]
async fn positions_reach_every_listener() {
    let world = World::empty().await;
    let other = EventLog::connect(settings(world.server.url())).await.unwrap();
    let mut here = world.log.positions().await.unwrap();
    let mut there = other.positions().await.unwrap();
    world.log.announce(INBOX, 17).await.unwrap();
    world.log.announce(SENDS, u64::MAX).await.unwrap();
    for listener in [&mut here, &mut there] {
        assert_eq!(timeout(SOON, listener.next()).await.unwrap(), position("INBOX_0", 17));
        assert_eq!(timeout(SOON, listener.next()).await.unwrap(), position("SEND_transactional", u64::MAX));
    }
}

#[tokio::test]
async fn a_message_that_is_not_a_position_is_ignored() {
    let world = World::empty().await;
    let mut positions = world.log.positions().await.unwrap();
    let raw = async_nats::connect(world.server.url()).await.unwrap();
    raw.publish("tidings.position.INBOX_0", "soon".into()).await.unwrap();
    raw.flush().await.unwrap();
    world.log.announce(INBOX, 3).await.unwrap();
    assert_eq!(timeout(SOON, positions.next()).await.unwrap(), position("INBOX_0", 3));
}

#[tokio::test]
async fn the_subscription_survives_a_crash_of_the_server() {
    let mut world = World::empty().await;
    let mut positions = world.log.positions().await.unwrap();
    world.server.restart().await.unwrap();
    let heard = eventually(SOON, "a position after the restart", async || {
        world.log.announce(INBOX, 5).await.ok()?;
        timeout(Duration::from_millis(100), positions.next()).await.ok()
    });
    assert_eq!(heard.await, position("INBOX_0", 5));
}
