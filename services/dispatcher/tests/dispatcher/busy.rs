//! A lock held by another transaction delays only the chunks that need it.

use domain::content::Object;
use domain::profile::{Author, Change};
use domain::send::SendRequest;
use domain::{AppId, Lane, SendId};
use serde_json::json;
use service_kit::clock;
use sqlx::{Postgres, Transaction};
use testkit::eventually;
use tokio::task::JoinSet;

use crate::world::{SOON, World, person, send_to};

/// Number of sends of an app: more than a lane has slots for chunks that wait for locks outside of a batch.
const MANY: i64 = 20;

impl World {
    async fn add_user(&self, app: AppId, identifier: &str) {
        self.context.store.directory().merge_user(app, identifier, Object::new()).await.unwrap();
    }

    async fn locked(&self, statement: &'static str, app: AppId) -> Transaction<'static, Postgres> {
        let mut transaction = self.pool.begin().await.unwrap();
        sqlx::query(statement).bind(app.0).execute(&mut *transaction).await.unwrap();
        transaction
    }

    async fn accept_all(&self, app: AppId, send: &SendRequest, sends: i64) {
        for _ in 0..sends {
            self.accept_of(app, SendId(clock::new_id()), send).await;
        }
    }

    async fn plans_of(&self, app: AppId) -> i64 {
        let plans = sqlx::query_scalar("SELECT count(*) FROM plan WHERE app_id = $1").bind(app.0);
        plans.fetch_one(&self.pool).await.unwrap()
    }

    async fn await_plans(&self, app: AppId, sends: i64) {
        eventually(SOON, "sends are planned", async || (self.plans_of(app).await == sends).then_some(()))
            .await;
    }
}

/// Holds a lock that the sends of one app need. Checks that sends of another app in the same batches are planned meanwhile.
async fn only_the_apps_own_sends_wait_for(statement: &'static str) {
    let world = World::with(|_| {}).await;
    let other = world.app("other").await;
    world.add_user(world.app, "ada").await;
    world.add_user(other, "ada").await;
    let lock = world.locked(statement, world.app).await;
    let send = send_to(vec![person("ada"), person("new")]);
    for _ in 0..MANY {
        world.accept_all(world.app, &send, 1).await;
        world.accept_all(other, &send, 1).await;
    }
    world.serve();
    world.await_plans(other, MANY).await;
    assert_eq!(world.plans_of(world.app).await, 0, "planned despite the lock");
    lock.rollback().await.unwrap();
    world.await_plans(world.app, MANY).await;
    world.dispatched(Lane::Transactional, u64::try_from(2 * MANY).unwrap()).await;
}

#[tokio::test]
async fn a_locked_user_of_one_app_never_delays_another_apps_sends() {
    Box::pin(only_the_apps_own_sends_wait_for(
        "SELECT FROM app_user WHERE app_id = $1 AND identifier = 'ada' FOR UPDATE",
    ))
    .await;
}

#[tokio::test]
async fn a_user_whom_another_process_creates_never_delays_another_apps_sends() {
    Box::pin(only_the_apps_own_sends_wait_for(
        "INSERT INTO app_user (app_id, identifier) VALUES ($1, 'new')",
    ))
    .await;
}

#[tokio::test]
async fn an_erasure_in_one_app_never_delays_another_apps_sends() {
    Box::pin(only_the_apps_own_sends_wait_for(
        "SELECT pg_advisory_xact_lock(hashtextextended('erasure', $1))",
    ))
    .await;
}

#[tokio::test]
async fn sends_to_a_user_who_is_patched_without_pause_are_planned() {
    let world = World::start().await;
    world.add_user(world.app, "ada").await;
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (store, app) = (world.context.store.clone(), world.app);
        writers.spawn(async move {
            for count in 0_u64.. {
                let pairs = json!({(format!("writer{writer}")): count}).as_object().cloned().unwrap();
                store
                    .directory()
                    .change_profile(app, "ada", Change::Merge(pairs), Author::App)
                    .await
                    .unwrap();
            }
        });
    }
    let mut send = send_to(vec![person("ada")]);
    for number in 0..MANY {
        send.recipients[0].profile = json!({(format!("send{number}")): true}).as_object().cloned();
        world.accept(&send).await;
    }
    world.dispatched(Lane::Transactional, MANY.unsigned_abs()).await;
    writers.shutdown().await;
    let ada = world.context.store.directory().find_user(world.app, "ada").await.unwrap().unwrap();
    for number in 0..MANY {
        assert_eq!(
            ada.profile.get(&format!("send{number}")),
            Some(&json!(true)),
            "send {number} lost its profile"
        );
    }
}
