//! Restrictions on the URLs of endpoints, on the length of answers that are read, and on data of erased users.

use domain::webhook::WebhookEvent;
use domain::{Actor, Status};
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{HeaderValue, LOCATION};
use stand_ins::http::{Rule, json, status};
use testkit::eventually;

use crate::world::{SOON, World, settings};

#[tokio::test]
async fn private_addresses_and_plain_http_are_not_called_unless_they_are_allowed() {
    let mut world = World::with(|_| {}).await;
    let port = world.backend.url("").rsplit_once(':').unwrap().1.to_owned();
    let cases = [
        ("http://127.0.0.1", "not_https"),
        ("https://127.0.0.1", "not_public"),
        ("https://localhost", "not_public"),
    ];
    for (origin, _) in cases {
        world.endpoint_for(&format!("{origin}:{port}/hooks"), WebhookEvent::ALL).await;
    }
    world.settled(1, Status::Sent).await;
    world.serve(settings());
    let answers = eventually(SOON, "each endpoint has been tried", async || {
        let answers: Vec<Option<String>> =
            sqlx::query_scalar("SELECT last_answer FROM webhook_message ORDER BY endpoint_id")
                .fetch_all(&world.pool)
                .await
                .unwrap();
        let answers: Option<Vec<String>> = answers.into_iter().collect();
        answers.filter(|answers| answers.len() == cases.len())
    })
    .await;
    assert_eq!(answers, cases.map(|(_, code)| code));
    assert!(world.backend.attempts().is_empty() && world.backend.refused().is_empty());
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    let mut elsewhere = status(307);
    let target = HeaderValue::from_str(&world.backend.url("/elsewhere")).unwrap();
    elsewhere.headers_mut().insert(LOCATION, target);
    world.backend.script(Rule::answer(elsewhere).to("/hooks"));
    world.settled(1, Status::Sent).await;
    world.serve(settings());
    let received = world.received(1).await;
    assert_eq!((received[0].path.as_str(), world.backend.attempts().len()), ("/hooks", 2));
}

#[tokio::test]
async fn only_the_beginning_of_a_long_answer_is_read() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    let long = Response::new(Bytes::from(vec![b'x'; 8 << 20]));
    world.backend.script(Rule::answer(long));
    world.backend.script(Rule::answer(json(200, &serde_json::json!({"ok": true}))));
    world.settled(1, Status::Sent).await;
    world.settled(2, Status::Sent).await;
    world.serve(settings());
    world.messages("delivered", 2).await;
    assert_eq!(world.last_answer().await.unwrap(), "200");
}

#[tokio::test]
async fn no_webhook_reports_an_erased_user() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.settled_of(1, 1, Status::Sent).await;
    world.settled_of(2, 2, Status::Sent).await;
    world.backend.script(Rule::answer(status(500)).times(10_000));
    let mut settings = settings();
    settings.pace.failures = 1;
    settings.pace.per_endpoint = 1;
    world.serve(settings);
    world.followed().await;
    // The erasure skips messages that a settlement has locked.
    world.paused().await;
    assert_eq!(world.count("pending").await, 2);
    let now = service_kit::clock::now();
    let erasure = world.context.store.erasure().erase_user(world.app, "user-1", now).await.unwrap().unwrap();
    let timer = store::deliveries::timer::NewTimer {
        id: service_kit::clock::new_id(),
        due_at: now,
        stream: domain::StreamName::Inbox(0),
        message: b"{}".to_vec(),
        app: world.app,
        send_id: None,
        user: None,
        wait: None,
    };
    erasure.commit(&timer, &Actor::System).await.unwrap();
    assert_eq!(world.count("pending").await, 1, "the pending message about the erased user is gone");
    world.settled_of(1, 3, Status::Sent).await;
    world.followed().await;
    let named: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM webhook_message WHERE user_number = 1 OR body LIKE '%user-1\"%'",
    )
    .fetch_one(&world.pool)
    .await
    .unwrap();
    assert_eq!(named, 0);
}
