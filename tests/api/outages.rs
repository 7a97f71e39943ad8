//! The event log or the database is away.

use std::time::Duration;

use serde_json::json;
use testkit::Postgres;

use crate::client::Answer;
use crate::service::{Behind, SOON, Service, plain_send};

/// By then every call must have its answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);

#[track_caller]
fn is_unavailable(answer: &Answer) {
    answer.fails(503, "unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

async fn in_time(answer: impl Future<Output = Answer>) -> Answer {
    tokio::time::timeout(ANSWERED_WITHIN, answer).await.expect("an answer in time")
}

#[tokio::test]
async fn without_the_log_nothing_is_accepted_and_a_repeat_succeeds() {
    let mut service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let id = service.list(&shop, "ada", "").await["data"][0]["id"].clone();
    service.call("GET /readyz").send().await.is(200);
    let body = plain_send(&["ada"]);

    service.nats.pause().unwrap();
    let send =
        || service.by(&shop, "POST /v3/notifications").header("Idempotency-Key", "k").json(&body).send();
    let answer = in_time(send()).await;
    is_unavailable(&answer);
    assert!(answer.body["message"].as_str().unwrap().contains("Idempotency-Key"));
    let change = service.of(&shop, "ada", &format!("POST /v3/notifications/{id}/click"));
    is_unavailable(&in_time(change.send()).await);
    assert_eq!(service.list(&shop, "ada", "").await["unreadCount"], 1, "reading needs the database alone");
    assert_eq!(in_time(service.call("GET /readyz").send()).await.status, 503);
    service.call("GET /healthz").send().await.is(200);

    service.nats.kill();
    is_unavailable(&in_time(service.by(&shop, "POST /v3/notifications").json(&body).send()).await);
    service.nats.restart().await.unwrap();
    let receipt = testkit::eventually(SOON, "the log takes sends again", async || {
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
async fn a_log_that_is_nearly_full_takes_no_more_sends() {
    let service = Service::start_with(Behind::Streams(20)).await;
    let shop = service.app("shop").await;
    let send = || service.by(&shop, "POST /v3/notifications").json(&plain_send(&["ada"])).send();
    for _ in 0..18 {
        send().await.is(202);
    }
    // The first looks may come before the last sends; meanwhile the log itself refuses what it has no room for.
    let refused = testkit::eventually(SOON, "a send is refused", async || {
        let answer = send().await;
        let told = answer.body["message"].as_str().is_some_and(|message| message.contains("nearly full"));
        told.then_some(answer)
    })
    .await;
    is_unavailable(&refused);
    let mut bulk = plain_send(&["ada"]);
    bulk["lane"] = json!("bulk");
    service.by(&shop, "POST /v3/notifications").json(&bulk).send().await.is(202);
}

#[tokio::test]
async fn without_the_database_every_call_says_so() {
    let files = tempfile::tempdir().unwrap();
    let mut postgres = Postgres::start_fast(&files.path().join("cluster")).await.unwrap();
    let service = Service::start_on(postgres.url(), None, Behind::Nothing).await;
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
    let not_ready = in_time(service.call("GET /readyz").send()).await;
    assert_eq!((not_ready.status, &not_ready.body["ready"]), (503, &json!(false)));
    // A key that nobody asked for lately cannot be verified.
    is_unavailable(
        &in_time(service.call("GET /v3/categories").header("X-SERVICE-API-KEY", "other").send()).await,
    );

    postgres.restart().await.unwrap();
    testkit::eventually(SOON, "the database serves again", async || {
        (service.by(&shop, "GET /v3/categories").send().await.status == 200).then_some(())
    })
    .await;
}
