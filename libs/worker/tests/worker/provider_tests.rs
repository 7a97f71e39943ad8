//! Provider tests that operators ask a worker for.

use std::time::Duration;

use domain::{Answer, Channel};
use event_log::AskError;
use futures_util::future::join_all;
use serde_json::json;
use service_kit::provider_test::{TestError, TestRequest, TestResult, ask};
use testkit::eventually;

use crate::scripted::ScriptedChannel;
use crate::world::{SOON, World};

async fn set(world: &World, first: &str) {
    let statement = "UPDATE provider SET settings = $1, enabled = false";
    sqlx::query(statement).bind(json!({"first": first})).execute(&world.pool).await.unwrap();
}

fn request(world: &World, limit: Duration) -> TestRequest {
    let limit_millis = u64::try_from(limit.as_millis()).unwrap();
    TestRequest { app: world.app, provider: "main".to_owned(), limit_millis }
}

async fn tested(world: &World, limit: Duration) -> Result<TestResult, TestError> {
    ask(&world.context.log, Channel::Email, &request(world, limit)).await
}

async fn refused(world: &World, limit: Duration) -> Answer {
    match tested(world, limit).await.unwrap() {
        TestResult::Failed(answer) => answer,
        TestResult::Passed(proved) => panic!("passed: {proved}"),
    }
}

/// Waits until a worker listens, and returns its first result.
async fn first_result(world: &World) -> TestResult {
    eventually(SOON, "a worker answers", async || match tested(world, SOON).await {
        Err(TestError::Unanswered(AskError::NoListener)) => None,
        result => Some(result.unwrap()),
    })
    .await
}

#[tokio::test]
async fn a_worker_tests_the_stored_provider_even_if_it_is_disabled() {
    let world = World::start().await;
    let unanswered = tested(&world, SOON).await.unwrap_err();
    assert!(matches!(unanswered, TestError::Unanswered(AskError::NoListener)), "{unanswered}");
    world.serve(&ScriptedChannel::new([]));
    set(&world, "the password").await;
    assert_eq!(first_result(&world).await, TestResult::Passed("the password".to_owned()));
    world.run("UPDATE provider SET settings = '{}'").await;
    let answer = refused(&world, SOON).await;
    assert_eq!((answer.code.as_str(), answer.outcome.name()), ("535", "pause_provider"));
    world.run("UPDATE provider SET sealed = '\\x00'").await;
    assert_eq!(refused(&world, SOON).await.code, "settings", "secrets of another master key");
    world.run("DELETE FROM provider").await;
    assert_eq!(refused(&world, SOON).await.code, "removed");
    let calls = "SELECT count(*) FROM attempt";
    assert_eq!(world.count(calls).await, 0, "a test is no attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_makes_few_tests_at_once_and_survives_those_that_hang_or_panic() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new([]);
    world.serve(&scripted);
    set(&world, "ready").await;
    first_result(&world).await;
    set(&world, "panics").await;
    assert_eq!(refused(&world, SOON).await.code, "panic");
    set(&world, "hangs").await;
    assert_eq!(refused(&world, Duration::from_millis(50)).await.message, "no answer within 50 ms");
    let all = scripted.tests() + 4;
    let four = join_all((0..4).map(|_| tested(&world, SOON)));
    let fifth = async {
        eventually(SOON, "four tests have begun", async || (scripted.tests() == all).then_some(())).await;
        let busy = refused(&world, SOON).await;
        assert_eq!((busy.code.as_str(), busy.message.as_str()), ("busy", "the worker makes 4 tests already"));
        scripted.release();
    };
    let (results, ()) = tokio::join!(four, fifth);
    for result in results {
        assert_eq!(result.unwrap(), TestResult::Passed("released".to_owned()));
    }
    set(&world, "again").await;
    assert_eq!(tested(&world, SOON).await.unwrap(), TestResult::Passed("again".to_owned()));
}

#[tokio::test]
async fn a_worker_that_stops_answers_the_tests_under_way() {
    let world = World::start().await;
    let asking = world.another().await;
    let scripted = ScriptedChannel::new([]);
    world.serve(&scripted);
    set(&world, "ready").await;
    first_result(&world).await;
    let earlier = scripted.tests();
    set(&world, "hangs").await;
    let request = request(&world, SOON);
    let test = ask(&asking.log, Channel::Email, &request);
    let stopping = async {
        eventually(SOON, "the test has begun", async || (scripted.tests() > earlier).then_some(())).await;
        world.context.tasks.stop();
        world.context.tasks.finish().await.unwrap();
    };
    let (result, ()) = tokio::join!(test, stopping);
    assert!(matches!(result.unwrap(), TestResult::Failed(answer) if answer.code == "stopped"));
}
