//! Webhooks about items that users read in their inboxes.

use domain::event::{AllItemsChanged, ItemsChanged};
use domain::inbox::{AllChange, ItemChange};
use domain::webhook::WebhookEvent;
use domain::{Event, ItemId, Status, StreamName, Timestamp, UserNumber};
use service_kit::clock;
use sqlx::types::chrono::{DateTime, Utc};
use store::inbox::projection::INBOX;
use uuid::Uuid;

use crate::world::{World, settings};

impl World {
    /// Inserts inbox items of user 1. Each item has the same number as its send.
    async fn items(&self, ids: std::ops::RangeInclusive<i64>) {
        for id in ids {
            sqlx::query(
                "INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, event_id)
                 VALUES ($1, 1, $2, $3, now(), gen_random_uuid())",
            )
            .bind(self.app.0)
            .bind(id)
            .bind(Uuid::from_u128(id.cast_unsigned().into()))
            .execute(&self.pool)
            .await
            .unwrap();
        }
    }

    /// Writes what the inbox projection would write: marks these items as read, and moves the checkpoint to the end of the
    /// stream.
    async fn project_read(&self, ids: &[i64], at: Timestamp) {
        sqlx::query("UPDATE inbox_item SET clicked_at = $2 WHERE id = ANY($1) AND clicked_at IS NULL")
            .bind(ids)
            .bind(DateTime::<Utc>::from(at))
            .execute(&self.pool)
            .await
            .unwrap();
        let from = self.context.store.database().checkpoint(INBOX, StreamName::Inbox(0)).await.unwrap();
        let to = self.context.log.state(StreamName::Inbox(0)).await.unwrap().last_seq;
        let batch =
            self.context.store.inbox().project(StreamName::Inbox(0), from, to).await.unwrap().unwrap();
        batch.commit().await.unwrap();
    }

    /// Publishes the event that user 1 read these items, and returns the event's time.
    async fn read(&self, ids: &[i64]) -> Timestamp {
        let items = ids.iter().map(|id| ItemId(*id)).collect();
        let changed = ItemsChanged { user: UserNumber(1), items };
        self.publish_event(Event::InboxItemsChanged(ItemChange::Read, changed)).await;
        self.last_at().await
    }

    async fn last_at(&self) -> Timestamp {
        let last = self.context.log.state(StreamName::Inbox(0)).await.unwrap().last_seq;
        let mut reader = self.context.log.reader(StreamName::Inbox(0), last);
        let record = reader.next_batch(1, std::time::Duration::ZERO).await.unwrap().remove(0);
        domain::Envelope::decode(&record.payload).unwrap().at
    }
}

#[tokio::test]
async fn each_existing_item_that_becomes_read_is_reported_once() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.items(1..=3).await;
    world.serve(settings());
    let at = world.read(&[1, 2, 999]).await;
    world.project_read(&[1, 2], at).await;
    let received = world.received(2).await;
    let data = &received[0].body["data"];
    assert_eq!(received[0].body["type"], "notification.read");
    assert_eq!(
        (&data["recipient"], &data["channel"], &data["status"]),
        (&"user-1".into(), &"inApp".into(), &"read".into())
    );
    assert_eq!(
        data["requestId"],
        Uuid::from_u128(data["notificationId"].as_u64().unwrap().into()).to_string()
    );

    let later = world.read(&[1, 3]).await;
    world.project_read(&[1, 3], later).await;
    let received = world.received(3).await;
    world.followed().await;
    world.messages("delivered", 3).await;
    let mut reported: Vec<_> =
        received.iter().map(|call| call.body["data"]["notificationId"].as_i64().unwrap()).collect();
    reported.sort_unstable();
    assert_eq!(
        (reported, world.count("pending").await),
        (vec![1, 2, 3], 0),
        "item 1 was already read, so it is not reported again"
    );
}

#[tokio::test]
async fn marking_a_whole_inbox_as_read_reports_each_item_after_projection() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.items(1..=30).await;
    let before = world.read(&[5]).await;
    world.project_read(&[5], before).await;
    world.serve(settings());
    world.received(1).await;
    let changed = AllItemsChanged { user: UserNumber(1), up_to: ItemId(20) };
    world.publish_event(Event::InboxAllChanged(AllChange::Read, changed)).await;
    world.settled(1, Status::Sent).await;
    world.received(2).await;
    assert_eq!(
        world.backend.received().len(),
        2,
        "messages of other streams do not wait for the inbox projection"
    );
    let at = world.last_at().await;
    world.project_read(&(1..=20).collect::<Vec<_>>(), at).await;
    let received = world.received(21).await;
    world.followed().await;
    world.messages("delivered", 21).await;
    let read = received.iter().filter(|call| call.body["type"] == "notification.read");
    let mut ids: Vec<_> = read.map(|call| call.body["data"]["notificationId"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn without_an_endpoint_for_read_events_nothing_waits_for_the_inbox_projection() {
    let mut world = World::start().await;
    let url = world.backend.url("/hooks");
    world.endpoint_for(&url, &[WebhookEvent::DeliverySent]).await;
    world.items(1..=1).await;
    world.read(&[1]).await;
    assert!(clock::now() >= world.last_at().await);
    world.serve(settings());
    world.followed().await;
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM webhook_message").fetch_one(&world.pool).await.unwrap();
    assert_eq!(rows, 0);
}
