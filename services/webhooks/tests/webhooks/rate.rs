//! Number of PostgreSQL transactions for sending a backlog of messages. `cargo xtask bench webhooks` measures the speed.

use service_kit::Config;
use webhooks::Settings;

use crate::world::World;

const WAITING: i64 = 2_000;

async fn commits(world: &World) -> i64 {
    sqlx::query_scalar("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        .fetch_one(&world.pool)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_settles_several_messages_of_a_backlog() {
    let mut world = World::start().await;
    for path in ["/a", "/b", "/c", "/d"] {
        world.endpoint(path).await;
    }
    sqlx::query(
        "INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body)
         SELECT app_id, id, gen_random_uuid(), gen_random_uuid(), 'delivery.sent', '{}'
         FROM webhook_endpoint, generate_series(1, $1) AS n",
    )
    .bind(WAITING / 4)
    .execute(&world.pool)
    .await
    .unwrap();
    sqlx::query("ANALYZE").execute(&world.pool).await.unwrap();
    let before = commits(&world).await;
    world.serve(Settings::new(&Config::default().webhooks));
    world.messages("delivered", WAITING).await;
    let per_commit = WAITING as f64 / (commits(&world).await - before) as f64;
    assert!(per_commit > 2.0, "{per_commit:.1} messages per transaction");
}
