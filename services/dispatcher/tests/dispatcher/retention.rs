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

#[tokio::test(flavor = "multi_thread")]
async fn marks_of_processed_messages_are_removed_and_others_stay() {
    let world = World::start().await;
    world.serve();
    world.accept(&send_to(vec![person("ada@example.com")])).await;
    world.dispatched(Lane::Transactional, 1).await;
    let rows = "INSERT INTO checkpoint (projection, stream, seq) VALUES ('inbox', 'INBOX_1', 5);
        INSERT INTO message_failure (stream, seq, failures, cause, unended) VALUES
          ('SEND_transactional', 1, 0, 'acknowledged', 1), ('SEND_transactional', 2, 0, 'ahead', 1),
          ('SEND_transactional', 0, 1, 'failed', 1), ('JOB_email_bulk', 1, 0, 'of another stream', 1),
          ('inbox:INBOX_1', 5, 0, 'projected', 1), ('inbox:INBOX_1/3', 5, 0, 'projected event', 1),
          ('inbox:INBOX_1', 6, 0, 'to be projected', 1), ('webhooks:INBOX_1', 5, 0, 'of another projection', 1),
          ('inbox:INBOX_10', 5, 0, 'of another partition', 1)";
    sqlx::raw_sql(rows).execute(&world.pool).await.unwrap();
    // A second dispatcher starts with a round, as after a restart.
    world.serve();
    let left = async || {
        let causes = "SELECT cause FROM message_failure ORDER BY cause";
        sqlx::query_scalar::<_, String>(causes).fetch_all(&world.pool).await.unwrap()
    };
    let kept = [
        "ahead",
        "failed",
        "of another partition",
        "of another projection",
        "of another stream",
        "to be projected",
    ];
    eventually(SOON, "the marks are removed", async || (left().await == kept).then_some(())).await;
}
