use std::time::Duration;

use bytes::Bytes;
use event_log::EventLog;
use testkit::eventually;
use tokio::time::timeout;

use crate::world::{SOON, World, settings};

const WITHIN: Duration = Duration::from_secs(2);

#[tokio::test]
async fn every_listener_answers_a_roll_call() {
    let world = World::empty().await;
    let other = EventLog::connect(settings(world.server.url())).await.unwrap();
    let (mut here, mut there) = (world.log.roll_calls().await.unwrap(), other.roll_calls().await.unwrap());
    let answering = async {
        timeout(SOON, here.next()).await.unwrap().unwrap().answer("here".into()).await.unwrap();
        timeout(SOON, there.next()).await.unwrap().unwrap().answer("there".into()).await.unwrap();
    };
    let (answers, ()) = tokio::join!(world.log.roll_call(WITHIN), answering);
    let mut answers = answers.unwrap();
    answers.sort();
    assert_eq!(answers, [Bytes::from("here"), Bytes::from("there")]);
}

#[tokio::test]
async fn without_listeners_a_roll_call_has_no_answers() {
    let world = World::empty().await;
    assert_eq!(world.log.roll_call(Duration::from_millis(200)).await.unwrap(), Vec::<Bytes>::new());
}

#[tokio::test]
async fn oversized_answers_are_ignored() {
    let world = World::empty().await;
    let raw = async_nats::connect(world.server.url()).await.unwrap();
    let mut calls = world.log.roll_calls().await.unwrap();
    let answering = async {
        let large = timeout(SOON, calls.next()).await.unwrap().unwrap();
        large.answer(vec![b'x'; 64 * 1024 + 1].into()).await.unwrap();
    };
    let (answers, ()) = tokio::join!(world.log.roll_call(WITHIN), answering);
    assert_eq!(answers.unwrap(), Vec::<Bytes>::new());
    // A message without a reply subject is no roll call.
    raw.publish("tidings.status", Bytes::new()).await.unwrap();
    raw.flush().await.unwrap();
    let answering = async { calls.next().await.unwrap().answer("once".into()).await.unwrap() };
    let (answers, ()) = tokio::join!(world.log.roll_call(WITHIN), answering);
    assert_eq!(answers.unwrap(), [Bytes::from("once")]);
}

#[tokio::test]
async fn an_outage_is_an_error_and_listeners_answer_afterwards() {
    let mut world = World::empty().await;
    let mut calls = world.log.roll_calls().await.unwrap();
    world.server.kill();
    assert!(world.log.roll_call(Duration::from_millis(100)).await.is_err());
    world.server.restart().await.unwrap();
    let answering = async {
        while let Some(call) = calls.next().await {
            call.answer("back".into()).await.ok();
        }
    };
    let asking = eventually(SOON, "an answer after the restart", async || {
        let answers = world.log.roll_call(Duration::from_millis(100)).await.ok()?;
        answers.contains(&Bytes::from("back")).then_some(())
    });
    tokio::select! {
        () = asking => {}
        () = answering => panic!("the subscription has ended"),
    }
}
