use std::time::Duration;

use bytes::Bytes;
use domain::Channel;
use event_log::{AskError, EventLog};
use testkit::eventually;
use tokio::time::timeout;

use crate::world::{SOON, World, settings};

const WITHIN: Duration = Duration::from_secs(20);

#[tokio::test]
async fn one_worker_of_the_channel_answers() {
    let world = World::empty().await;
    let other = EventLog::connect(settings(world.server.url())).await.unwrap();
    let mut email = world.log.questions(Channel::Email).await.unwrap();
    let mut sms = other.questions(Channel::Sms).await.unwrap();
    for (channel, name) in [(Channel::Email, "email"), (Channel::Sms, "sms")] {
        let asking = world.log.ask(channel, Bytes::from("main"), WITHIN);
        let questions = if channel == Channel::Email { &mut email } else { &mut sms };
        let answering = async {
            let question = timeout(SOON, questions.next()).await.unwrap().unwrap();
            assert_eq!(question.payload, "main");
            question.answer(name.into()).await.unwrap();
        };
        let (answer, ()) = tokio::join!(asking, answering);
        assert_eq!(answer.unwrap(), name);
    }
}

#[tokio::test]
async fn a_question_reaches_one_of_two_workers() {
    let world = World::empty().await;
    let other = EventLog::connect(settings(world.server.url())).await.unwrap();
    let mut here = world.log.questions(Channel::Email).await.unwrap();
    let mut there = other.questions(Channel::Email).await.unwrap();
    let answering = async {
        let mut asked = 0;
        while asked < 20 {
            let question = tokio::select! {
                question = here.next() => question,
                question = there.next() => question,
            };
            question.unwrap().answer(Bytes::new()).await.unwrap();
            asked += 1;
        }
    };
    let asking = async {
        for _ in 0..20 {
            world.log.ask(Channel::Email, Bytes::new(), WITHIN).await.unwrap();
        }
    };
    tokio::join!(answering, asking);
    for questions in [&mut here, &mut there] {
        let further = timeout(Duration::from_millis(50), questions.next()).await;
        assert!(further.is_err(), "a second worker received a question that was answered");
    }
}

#[tokio::test]
async fn a_question_without_a_listener_fails_at_once_and_without_an_answer_in_time() {
    let world = World::empty().await;
    let asked = world.log.ask(Channel::Email, Bytes::new(), SOON * 100);
    let error = timeout(SOON, asked).await.unwrap().unwrap_err();
    assert!(matches!(error, AskError::NoListener), "{error}");
    let mut questions = world.log.questions(Channel::Email).await.unwrap();
    let error = world.log.ask(Channel::Email, Bytes::new(), Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, AskError::Late), "{error}");
    // An answer for which no caller waits any more goes nowhere.
    questions.next().await.unwrap().answer("late".into()).await.unwrap();
    let raw = async_nats::connect(world.server.url()).await.unwrap();
    raw.publish("tidings.probe.email", "no reply subject".into()).await.unwrap();
    raw.flush().await.unwrap();
    let answering = async { questions.next().await.unwrap().answer("large".repeat(4_000).into()).await };
    let (answer, _) = tokio::join!(world.log.ask(Channel::Email, Bytes::new(), WITHIN), answering);
    assert!(matches!(answer, Err(AskError::Oversized(20_000))), "{answer:?}");
}

#[tokio::test]
async fn an_outage_is_an_error_and_workers_answer_afterwards() {
    let mut world = World::empty().await;
    let mut questions = world.log.questions(Channel::Sms).await.unwrap();
    world.server.kill();
    let error = eventually(SOON, "the lost connection is noticed", async || {
        let asked = world.log.ask(Channel::Sms, Bytes::new(), Duration::from_millis(100)).await;
        asked.err().filter(|error| matches!(error, AskError::Unavailable(_)))
    });
    assert!(error.await.to_string().contains("not connected"));
    world.server.restart().await.unwrap();
    let answering = async {
        while let Some(question) = questions.next().await {
            question.answer("back".into()).await.ok();
        }
    };
    let asking = eventually(SOON, "an answer after the restart", async || {
        world.log.ask(Channel::Sms, Bytes::new(), Duration::from_millis(100)).await.ok()
    });
    tokio::select! {
        answer = asking => assert_eq!(answer, "back"),
        () = answering => panic!("the subscription has ended"),
    }
}
