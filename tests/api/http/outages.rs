//! Outages of the event log and the database.

use domain::{Lane, StreamName};
use event_log::Message;
use local_servers::Postgres;
use serde_json::{Value, json};
use testkit::eventually;

use crate::client::{Answer, Call};
use crate::service::{App, Backing, SOON, Service, plain_send};

#[track_caller]
fn is_unavailable(answer: &Answer) {
    answer.fails(503, "unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

/// Asserts that there is an answer. The limit is one that a slow machine keeps: the tests of `fairness::waiting` prove, with paused
/// time, that a request waits at most 2.5 s for servers.
async fn in_time(answer: impl Future<Output = Answer>) -> Answer {
    tokio::time::timeout(SOON, answer).await.expect("an answer in time")
}

#[tokio::test]
async fn without_the_log_sends_are_refused_and_a_repeat_succeeds_later() {
    let mut service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let id = service.list(&shop, "ada", "").await["data"][0]["id"].clone();
    service.call("GET /readyz").send().await.is(200);
    let body = plain_send(&["ada"]);

    service.servers.nats.pause().unwrap();
    let send =
        || service.by(&shop, "POST /v3/notifications").header("Idempotency-Key", "k").json(&body).send();
    let answer = in_time(send()).await;
    is_unavailable(&answer);
    assert!(answer.body["message"].as_str().unwrap().contains("Idempotency-Key"));
    let change = service.of(&shop, "ada", &format!("POST /v3/notifications/{id}/click"));
    is_unavailable(&in_time(change.send()).await);
    assert_eq!(service.list(&shop, "ada", "").await["unreadCount"], 1, "lists need only the database");
    let ready = in_time(service.call("GET /readyz").send()).await;
    assert_eq!((ready.status, &ready.body["notReady"][0]["name"]), (200, &json!("log")));
    service.call("GET /healthz").send().await.is(200);

    service.servers.nats.kill();
    is_unavailable(&in_time(service.by(&shop, "POST /v3/notifications").json(&body).send()).await);
    service.servers.nats.restart().await.unwrap();
    let receipt = testkit::eventually(SOON, "the log accepts sends again", async || {
        let answer = service
            .by(&shop, "POST /v3/notifications")
            .header("Idempotency-Key", "k")
            .json(&body)
            .send()
            .await;
        (answer.status == 202).then_some(answer.body)
    })
    .await;
    let again =
        service.by(&shop, "POST /v3/notifications").header("Idempotency-Key", "k").json(&body).send().await;
    assert_eq!(again.is(202), receipt);
}

#[tokio::test]
async fn a_nearly_full_log_accepts_no_more_sends() {
    let service = Service::start_with(Backing::Streams(20)).await;
    let shop = service.app("shop").await;
    let send = || service.by(&shop, "POST /v3/notifications").json(&plain_send(&["ada"])).send();
    for _ in 0..18 {
        send().await.is(202);
    }
    // Until the gateway knows that the log is nearly full, it still publishes sends. Refusals by nats-server have another error
    // message, so wait for the message of the gateway.
    let refused = testkit::eventually(SOON, "a send is refused", async || {
        let answer = send().await;
        let reported = answer.body["message"].as_str().is_some_and(|message| message.contains("nearly full"));
        reported.then_some(answer)
    })
    .await;
    is_unavailable(&refused);
    let mut bulk = plain_send(&["ada"]);
    bulk["lane"] = json!("bulk");
    service.by(&shop, "POST /v3/notifications").json(&bulk).send().await.is(202);
}

#[tokio::test]
async fn without_the_database_every_call_is_a_503() {
    let files = tempfile::tempdir().unwrap();
    let mut postgres = Postgres::start_fast(&files.path().join("cluster")).await.unwrap();
    let service = Service::start_on(postgres.url(), Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.by(&shop, "GET /v3/categories").send().await.is(200);
    postgres.kill();
    let send = service.by(&shop, "POST /v3/notifications").header("Idempotency-Key", "k");
    is_unavailable(&in_time(send.json(&plain_send(&["ada"])).send()).await);
    is_unavailable(&in_time(service.of(&shop, "ada", "GET /v3/notifications").send()).await);
    let user = service.by(&shop, "POST /v3/users").json(&json!({"identifier": "ada"}));
    is_unavailable(&in_time(user.send()).await);
    is_unavailable(
        &in_time(service.by(&shop, "GET /v3/requests/018f0000-0000-7000-8000-000000000002").send()).await,
    );
    let ready = in_time(service.call("GET /readyz").send()).await;
    assert_eq!((ready.status, &ready.body["notReady"][0]["name"]), (200, &json!("database")));
    // A key that is not cached cannot be verified.
    is_unavailable(
        &in_time(service.call("GET /v3/categories").header("X-SERVICE-API-KEY", "other").send()).await,
    );

    postgres.restart().await.unwrap();
    testkit::eventually(SOON, "the database is available again", async || {
        (service.by(&shop, "GET /v3/categories").send().await.status == 200).then_some(())
    })
    .await;
}

/// A server that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Database,
    Log,
}

type Dependencies = &'static [Server];

const NOTHING: Dependencies = &[];
const DATABASE: Dependencies = &[Server::Database];
const LOG: Dependencies = &[Server::Log];
const BOTH: Dependencies = &[Server::Database, Server::Log];

/// Expected result of a call during an outage.
enum Expectation {
    Served,
    Unavailable,
    /// Either result, because the app may be cached or not.
    Either,
}

/// Returns calls of every kind, each with the servers that it needs. Each call is made by ada, by the app's backend, or without
/// credentials.
fn calls(service: &Service, shop: &App, items: &[Value; 2]) -> Vec<(Dependencies, Call)> {
    let [item, shown] = items;
    let user = |call: &str| service.of(shop, "ada", call);
    let app = |call: &str| service.by(shop, call);
    let change = |method: &str, what: &str| (BOTH, user(&format!("{method} /v3/notifications/{item}{what}")));
    let send = || app("POST /v3/notifications").json(&plain_send(&["ada"]));
    let request = "018f0000-0000-7000-8000-000000000002";
    vec![
        (NOTHING, service.call("GET /healthz")),
        (NOTHING, service.call("GET /openapi.json")),
        (NOTHING, service.call("GET /v3/nowhere")),
        (NOTHING, user("OPTIONS /v3/notifications")),
        (LOG, send()),
        (BOTH, send().header("Idempotency-Key", "fresh")),
        change("DELETE", ""),
        change("POST", "/click"),
        change("DELETE", "/reads"),
        change("PUT", "/views"),
        change("DELETE", "/views"),
        (DATABASE, user(&format!("GET /v3/notifications/{shown}"))),
        (DATABASE, user("GET /v3/notifications")),
        (DATABASE, user("GET /v3/notifications?category=orders")),
        (NOTHING, user("GET /v3/notifications/1/reads")),
        (DATABASE, user("GET /v3/preferences")),
        (DATABASE, user("GET /v3/categories")),
        (DATABASE, app("POST /v3/categories").json(&json!({"identifier": "new", "name": "New"}))),
        (DATABASE, user("GET /v3/topics")),
        (DATABASE, user("PUT /v3/topics/news/subscription")),
        (DATABASE, app("PUT /v3/topics/news").json(&json!({"open": true}))),
        (DATABASE, app("POST /v3/topics/news/subscriptions").json(&json!({"add": ["ada"]}))),
        (DATABASE, app("POST /v3/users").json(&json!({"identifier": "bob"}))),
        (DATABASE, app("PUT /v3/users/cyd").json(&json!({"a": 1}))),
        (
            DATABASE,
            user("POST /v3/sdk/connect")
                .header("X-SERVICE-DEVICE-ID", "d")
                .json(&json!({"deviceType": "browser"})),
        ),
        (DATABASE, app(&format!("GET /v3/requests/{request}"))),
        (DATABASE, app(&format!("GET /v3/requests/{request}/deliveries"))),
        (DATABASE, app("POST /v3/notifications?dryRun=true").json(&plain_send(&["ada"]))),
    ]
}

/// Makes all calls at once, and asserts that each is answered in time.
async fn all_are_answered(
    service: &Service,
    shop: &App,
    items: &[Value; 2],
    expected: impl Fn(Dependencies) -> Expectation,
) {
    let calls = calls(service, shop, items).into_iter();
    let answers: Vec<_> = calls.map(|(needs, call)| (needs, tokio::spawn(in_time(call.send())))).collect();
    for (needs, answer) in answers {
        let answer = answer.await.unwrap();
        match expected(needs) {
            Expectation::Served => assert!(answer.status < 500, "{answer:?}"),
            Expectation::Either if answer.status < 500 => {}
            Expectation::Unavailable | Expectation::Either => is_unavailable(&answer),
        }
    }
}

/// Makes the service open its connections to the database in advance.
async fn warm_up(service: &Service, shop: &App) {
    let list = || service.of(shop, "ada", "GET /v3/notifications").send();
    let lists: Vec<_> = (0..32).map(|_| tokio::spawn(list())).collect();
    for list in lists {
        // Ignore failures: a call fails if no connection is open in time.
        drop(list.await.unwrap());
    }
}

/// Delivers two items to ada's inbox: one to change, one to read.
async fn two_items(service: &Service, shop: &App) -> [Value; 2] {
    service.deliver(shop, "ada", 2).await;
    warm_up(service, shop).await;
    let list = service.list(shop, "ada", "").await;
    [0, 1].map(|index| list["data"][index]["id"].clone())
}

#[tokio::test]
async fn every_call_is_answered_without_the_log() {
    let mut service = Service::start().await;
    let shop = service.app("shop").await;
    let items = two_items(&service, &shop).await;
    let expected = |needs: Dependencies| {
        if needs.contains(&Server::Log) { Expectation::Unavailable } else { Expectation::Served }
    };
    service.servers.nats.pause().unwrap();
    all_are_answered(&service, &shop, &items, expected).await;
    service.servers.nats.kill();
    all_are_answered(&service, &shop, &items, expected).await;
    let show = format!("GET /v3/notifications/{}", items[1]);
    let shown = service.of(&shop, "ada", &show).send().await.is(200);
    assert_eq!(
        shown["seenAt"],
        Value::Null,
        "the notification is returned even if it cannot be marked as seen"
    );
    service.servers.nats.restart().await.unwrap();
    eventually(SOON, "retrieving marks as seen again", async || {
        let shown = service.of(&shop, "ada", &show).send().await.is(200);
        (!shown["seenAt"].is_null()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn every_call_is_answered_without_the_database() {
    let files = tempfile::tempdir().unwrap();
    let mut postgres = Postgres::start_fast(&files.path().join("cluster")).await.unwrap();
    let service = Service::start_on(postgres.url(), Backing::DispatcherAndInbox).await;
    let shop = service.app("shop").await;
    let items = two_items(&service, &shop).await;
    let expected = |needs: Dependencies| match needs {
        NOTHING => Expectation::Served,
        LOG => Expectation::Either,
        _ => Expectation::Unavailable,
    };
    let serves_again = async |what| {
        eventually(SOON, what, async || {
            let answer = service.of(&shop, "ada", "POST /v3/notifications/1/click").send().await;
            (answer.status == 404).then_some(())
        })
        .await;
    };
    postgres.pause().unwrap();
    // Make more calls than the pool has connections.
    for _ in 0..2 {
        all_are_answered(&service, &shop, &items, expected).await;
    }
    postgres.resume().unwrap();
    serves_again("the database is available again").await;
    postgres.kill();
    all_are_answered(&service, &shop, &items, expected).await;
    postgres.restart().await.unwrap();
    serves_again("the database is available again").await;
    let send = service.by(&shop, "POST /v3/notifications").header("Idempotency-Key", "k");
    send.json(&plain_send(&["ada"])).send().await.is(202);
}

#[tokio::test]
async fn every_call_is_answered_while_the_log_is_full() {
    let service = Service::start_with(Backing::Streams(20)).await;
    let shop = service.app("shop").await;
    for stream in [StreamName::Send(Lane::Transactional), StreamName::Inbox(0), StreamName::Inbox(1)] {
        for _ in 0..20 {
            let message = Message { stream, id: None, payload: b"{}".as_slice().into() };
            service.context.log.publish(message).await.unwrap();
        }
    }
    service
        .run(
            "INSERT INTO app_user (app_id, identifier) SELECT id, 'ada' FROM app;
             INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, content, event_id)
             SELECT app_id, number, item, gen_random_uuid(), now(),
                    '{\"title\":\"x\",\"message\":null,\"icon\":null,\"url\":null,\"data\":{},\"blocks\":[]}', gen_random_uuid()
             FROM app_user, generate_series(1, 2) item",
        )
        .await;
    let expected = |needs: Dependencies| {
        if needs.contains(&Server::Log) { Expectation::Unavailable } else { Expectation::Served }
    };
    warm_up(&service, &shop).await;
    all_are_answered(&service, &shop, &[json!(1), json!(2)], expected).await;
}

/// Kills a server during a burst of sends, and returns the ids of the accepted ones.
async fn burst(service: &mut Service, shop: &App, die: impl FnOnce(&mut Service)) -> Vec<String> {
    let call = |service: &Service| service.by(shop, "POST /v3/notifications").json(&plain_send(&["ada"]));
    let mut answers: Vec<_> = (0..40).map(|_| tokio::spawn(in_time(call(service).send()))).collect();
    // When the first send is accepted, the others are in progress.
    let first = answers.remove(0).await.unwrap();
    die(service);
    let mut accepted = vec![first.is(202)["requestId"].as_str().unwrap().to_owned()];
    for answer in answers {
        let answer = answer.await.unwrap();
        match answer.status {
            202 => accepted.push(answer.body["requestId"].as_str().unwrap().to_owned()),
            _ => is_unavailable(&answer),
        }
    }
    accepted
}

#[tokio::test]
async fn accepted_sends_are_delivered_after_the_servers_died() {
    let files = tempfile::tempdir().unwrap();
    let mut postgres = Postgres::start_fast(&files.path().join("cluster")).await.unwrap();
    let mut service = Service::start_on(postgres.url(), Backing::DispatcherAndInbox).await;
    let shop = service.app("shop").await;
    service.by(&shop, "POST /v3/users").json(&json!({"identifier": "ada"})).send().await.is(200);
    let mut accepted = burst(&mut service, &shop, |service| service.servers.nats.kill()).await;
    service.servers.nats.restart().await.unwrap();
    eventually(SOON, "the log accepts sends again", async || {
        let answer = service.by(&shop, "POST /v3/notifications").json(&plain_send(&["bob"])).send().await;
        (answer.status == 202).then_some(())
    })
    .await;
    accepted.extend(burst(&mut service, &shop, |_| postgres.kill()).await);
    postgres.restart().await.unwrap();
    for id in &accepted {
        eventually(SOON, "the accepted send is completed", async || {
            let request = service.by(&shop, &format!("GET /v3/requests/{id}")).send().await;
            (request.body["status"] == "completed").then_some(())
        })
        .await;
    }
    eventually(SOON, "all accepted sends are listed", async || {
        let listed = service.list(&shop, "ada", "").await["pagination"]["totalCount"].as_u64().unwrap();
        (listed >= accepted.len() as u64).then_some(())
    })
    .await;
}
