//! The dispatcher removes sends that are older than the retention.

use std::time::Duration;

use domain::{Channel, Lane, SendId};
use testkit::eventually;
use uuid::{NoContext, Timestamp, Uuid};

use crate::world::{SOON, World, person, send_to};

const AGE: u64 = 40 * 86_400;

impl World {
    /// Accepts a send whose id is 40 days old.
    async fn accept_old(&self) -> SendId {
        let now = service_kit::clock::now().millis().unsigned_abs() / 1_000;
        let id = SendId(Uuid::new_v7(Timestamp::from_unix(NoContext, now - AGE, 0)));
        self.accept_as(id, &send_to(vec![person("ada@example.com")])).await;
        id
    }

    async fn run(&self, statement: &'static str, send: SendId) {
        sqlx::query(statement).bind(send.0).execute(&self.pool).await.unwrap();
    }

    async fn requests(&self) -> Vec<SendId> {
        let ids: Vec<Uuid> = sqlx::query_scalar("SELECT send_id FROM request ORDER BY send_id")
            .fetch_all(&self.pool)
            .await
            .unwrap();
        ids.into_iter().map(SendId).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_sends_are_removed_after_the_retention_and_others_stay() {
    let world = World::with(|config| config.sends.keep = Duration::from_secs(30 * 86_400)).await;
    world.provider(Channel::Email).await;
    let (ended, queued) = (world.accept_old().await, world.accept_old().await);
    world.serve();
    world.dispatched(Lane::Transactional, 2).await;
    for send in [ended, queued] {
        world.run("UPDATE plan SET planned_at = now() - interval '40 days' WHERE send_id = $1", send).await;
        world
            .run("UPDATE request SET accepted_at = now() - interval '40 days' WHERE send_id = $1", send)
            .await;
    }
    let end =
        "UPDATE delivery SET status = 'sent', settled_at = now() - interval '40 days' WHERE send_id = $1";
    world.run(end, ended).await;
    // A second dispatcher starts with a round, as after a restart.
    world.serve();
    eventually(SOON, "the ended send is removed", async || {
        (world.requests().await == [queued]).then_some(())
    })
    .await;
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM delivery").fetch_one(&world.pool).await.unwrap();
    assert_eq!(left, 1, "the delivery of the other send");
}
