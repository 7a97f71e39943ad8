//! Settling a backlog of messages takes few PostgreSQL transactions. `cargo xtask bench webhooks` measures the speed.

use service_kit::Config;
use webhooks::Settings;

use crate::world::World;

const WAITING: i64 = 2_000;

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
    world.serve(Settings::new(&Config::default().webhooks));
    world.messages("delivered", WAITING).await;
    let transactions = "SELECT count(DISTINCT xmin::text) FROM webhook_message WHERE status = 'delivered'";
    let transactions = world.number(transactions).await;
    assert!(transactions < WAITING / 2, "{WAITING} messages were settled in {transactions} transactions");
}
