//! Plans that PostgreSQL makes for the dispatcher's statements.

use domain::Lane;
use testkit::eventually;

use crate::world::{SOON, World, person, send_to};

#[tokio::test]
async fn plans_are_pinned_when_the_tables_of_planning_have_statistics() {
    let world = World::with(|_| {}).await;
    for number in 0..60 {
        world.accept(&send_to(vec![person(&format!("user-{number}"))])).await;
    }
    world.serve();
    world.dispatched(Lane::Transactional, 60).await;
    world.run("ANALYZE").await;
    eventually(SOON, "the dispatcher pins its plans", async || {
        // With its single row, this table alone never lets a process pin its plans.
        world.context.store.pin_plans_with_statistics(&["app"]).await.unwrap().then_some(())
    })
    .await;
}
