//! Sharing of concurrent calls between endpoints and apps.

use std::time::Duration;

use domain::webhook::WebhookEvent;
use domain::{Actor, AppId};
use store::control::app::{NewApp, NewSecret};
use store::webhooks::{AttemptResult, Depths, DueMessage, Pace, Settlement};

use crate::world::{World, settings};

fn pace() -> Pace {
    Pace { per_endpoint: 4, per_app: 8, lease: Duration::from_secs(60), ..settings().pace }
}

impl World {
    async fn other_app(&self) -> AppId {
        let store = &self.context.store;
        let draft = store
            .control()
            .create_app(NewApp { name: "bank", api_key: "bank", development: true }, &Actor::System);
        let secret = NewSecret { digest: b"another", sealed: b"sealed" };
        draft.await.unwrap().unwrap().commit(secret).await.unwrap()
    }

    async fn silent_endpoint(&self, app: AppId, url: &str) -> i64 {
        let draft =
            self.context.store.webhooks().put_endpoint(app, url, WebhookEvent::ALL).await.unwrap().unwrap();
        let id = draft.id();
        draft.commit(Some(b"sealed"), &Actor::System).await.unwrap();
        id
    }

    /// Inserts `count` messages for an endpoint. The first became due `seconds` seconds ago, and each of the others one second
    /// after the one before it.
    async fn due(&self, app: AppId, endpoint: i64, count: i32, seconds: i32) {
        sqlx::query(
            "INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body, next_at)
             SELECT $1, $2, gen_random_uuid(), gen_random_uuid(), 'delivery.sent', '{}',
               now() - ($4 - place) * interval '1 second'
             FROM generate_series(0, $3 - 1) AS place",
        )
        .bind(app.0)
        .bind(endpoint)
        .bind(count)
        .bind(seconds)
        .execute(&self.pool)
        .await
        .unwrap();
    }

    async fn take(&self, most: u32) -> Vec<DueMessage> {
        self.context.store.webhooks().take_webhooks(most, pace(), &Depths::new()).await.unwrap().concat()
    }
}

fn of(app: AppId, taken: &[DueMessage]) -> usize {
    taken.iter().filter(|due| due.app == app).count()
}

#[tokio::test]
async fn an_app_with_many_webhooks_does_not_delay_another_app() {
    let world = World::start().await;
    let (busy, other) = (world.app, world.other_app().await);
    for number in 0..4 {
        let endpoint = world.silent_endpoint(busy, &format!("https://shop.example.com/{number}")).await;
        world.due(busy, endpoint, 10, 600).await;
    }
    let endpoint = world.silent_endpoint(other, "https://bank.example.com/").await;
    world.due(other, endpoint, 2, 60).await;

    let first = world.take(4).await;
    assert_eq!((of(busy, &first), of(other, &first)), (2, 2));
    let second = world.take(100).await;
    assert_eq!((of(busy, &second), of(other, &second)), (6, 0), "an app has at most 8 concurrent calls");
    assert!(world.take(100).await.is_empty());

    let settlement = Settlement { due: &first[0], settled: AttemptResult::Accepted, answer: "200" };
    assert!(world.context.store.webhooks().settle_webhooks(&[settlement], pace()).await.unwrap().is_empty());
    let freed = world.take(100).await;
    assert_eq!(of(first[0].app, &freed), freed.len());
    assert_eq!(
        freed.len(),
        usize::from(first[0].app == busy),
        "one call ended, so at most one message is claimed"
    );
}

#[tokio::test]
async fn the_longest_due_webhook_of_an_app_is_claimed_first_regardless_of_endpoint() {
    let world = World::start().await;
    let mut expected = Vec::new();
    for (number, seconds) in [(1, 100), (2, 300), (3, 200)] {
        let endpoint = world.silent_endpoint(world.app, &format!("https://shop.example.com/{number}")).await;
        world.due(world.app, endpoint, 1, seconds).await;
        expected.push((seconds, endpoint));
    }
    expected.sort_unstable();
    while let Some((_, endpoint)) = expected.pop() {
        let taken: Vec<i64> = world.take(1).await.iter().map(|due| due.endpoint).collect();
        assert_eq!(taken, [endpoint]);
    }
}
