//! `Idempotency-Key`.

use std::time::Duration;

use local_servers::Postgres;
use serde_json::{Value, json};
use service_kit::clock;
use testkit::eventually;

use crate::service::{Backing, SOON, Service, plain_send, titles};

const SEND: &str = "POST /v3/notifications";

#[tokio::test]
async fn the_same_key_with_equal_json_is_one_send() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let send = |body: &Value| service.by(&shop, SEND).header("Idempotency-Key", "order-7").json(body);
    let body = plain_send(&["ada"]);
    let first = send(&body).send().await.is(202);
    assert_eq!(send(&body).send().await.is(202), first);
    let spaced = br#" {"sendTo":{"recipients":["ada"]} , "notification":{"title":"Hello"}}"#;
    let spaced =
        service.by(&shop, SEND).header("Idempotency-Key", "order-7").body(*spaced, "application/json");
    assert_eq!(spaced.send().await.is(202), first);
    assert_eq!(service.sends().await, 1);

    send(&plain_send(&["bob"])).send().await.fails(409, "idempotency_key_reused");
    let other_app = service.by(&bank, SEND).header("Idempotency-Key", "order-7").json(&plain_send(&["bob"]));
    assert_ne!(other_app.send().await.is(202), first);
    assert_eq!(service.sends().await, 2);
}

#[tokio::test]
async fn the_key_may_be_in_the_body() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let mut body = plain_send(&["ada"]);
    body["idempotencyKey"] = json!("order-8");
    let first = service.by(&shop, SEND).json(&body).send().await.is(202);
    assert_eq!(service.by(&shop, SEND).json(&body).send().await.is(202), first);
    let both = service.by(&shop, SEND).header("Idempotency-Key", "order-8").json(&body);
    assert_eq!(both.send().await.is(202), first);
    let different = service.by(&shop, SEND).header("Idempotency-Key", "order-9").json(&body).send().await;
    different.has_problems(&[("idempotencyKey", "conflict")]);
    assert_eq!(service.sends().await, 1);
}

#[tokio::test]
async fn an_unusable_key_is_refused() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let long = "k".repeat(256);
    for key in ["", "a b", "ä", &long] {
        let answer =
            service.by(&shop, SEND).header("Idempotency-Key", key).json(&plain_send(&["ada"])).send().await;
        answer.has_problems(&[("Idempotency-Key", "invalid_character")]);
    }
    let twice = service.by(&shop, SEND).header("Idempotency-Key", "a").header("Idempotency-Key", "b");
    twice.json(&plain_send(&["ada"])).send().await.has_problems(&[("Idempotency-Key", "repeated")]);
    assert_eq!(service.sends().await, 0);
}

#[tokio::test]
async fn concurrent_repeats_are_one_send() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let calls: Vec<_> = (0..32)
        .map(|number| {
            // Calls with two different bodies race for the key. The gateway accepts exactly one of the bodies.
            let recipient = if number % 2 == 0 { "ada" } else { "bob" };
            let call =
                service.by(&shop, SEND).header("Idempotency-Key", "race").json(&plain_send(&[recipient]));
            tokio::spawn(async move { (number % 2, call.send().await) })
        })
        .collect();
    let (mut winners, mut ids) = (Vec::new(), Vec::new());
    for call in calls {
        let (body, answer) = call.await.unwrap();
        if answer.status == 202 {
            winners.push(body);
            ids.push(answer.body["requestId"].clone());
        } else {
            answer.fails(409, "idempotency_key_reused");
        }
    }
    assert_eq!(ids.len(), 16);
    winners.dedup();
    ids.dedup();
    assert_eq!((winners.len(), ids.len()), (1, 1));
    assert_eq!(service.sends().await, 1);
}

#[tokio::test]
async fn a_repeat_skips_checks_that_the_first_call_passed() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.by(&shop, "POST /v3/users").json(&json!({"identifier": "ada"})).send().await.is(200);
    let mut body = plain_send(&["ada"]);
    body["onUnknownRecipient"] = json!("reject");
    let send = |key: &str| service.by(&shop, SEND).header("Idempotency-Key", key).json(&body);
    let first = send("taken").send().await.is(202);
    service.run("DELETE FROM app_user").await;
    assert_eq!(send("taken").send().await.is(202), first);
    send("fresh").send().await.has_problems(&[("sendTo.recipients", "unknown_recipient")]);
    // A refused send does not reserve its key, so a repeat is checked and refused again.
    send("fresh").send().await.has_problems(&[("sendTo.recipients", "unknown_recipient")]);
    assert_eq!(service.sends().await, 1);
}

#[tokio::test]
async fn concurrent_repeats_over_two_gateways_are_one_send() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let (other, other_context) = service.another_gateway().await;
    let body = plain_send(&["ada"]);
    let calls: Vec<_> = (0..50)
        .map(|number| {
            let address = if number % 2 == 0 { service.address } else { other };
            let call = service.call_at(address, SEND).header("Idempotency-Key", "race").json(&body);
            let call =
                call.header("X-SERVICE-API-KEY", &shop.key).header("X-SERVICE-API-SECRET", &shop.secret);
            tokio::spawn(call.send())
        })
        .collect();
    let mut receipts = Vec::new();
    for call in calls {
        receipts.push(call.await.unwrap().is(202));
    }
    receipts.dedup();
    assert_eq!(receipts.len(), 1);
    assert_eq!(service.sends().await, 1);
    other_context.tasks.stop();
}

#[tokio::test]
async fn a_key_survives_a_restart_of_all_services() {
    let files = tempfile::tempdir().unwrap();
    let mut postgres = Postgres::start_fast(&files.path().join("cluster")).await.unwrap();
    let mut service = Service::start_on(postgres.url(), Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.by(&shop, "POST /v3/users").json(&json!({"identifier": "ada"})).send().await.is(200);
    let body = plain_send(&["ada"]);
    let first = service.by(&shop, SEND).header("Idempotency-Key", "k").json(&body).send().await.is(202);

    service.servers.nats.restart().await.unwrap();
    postgres.restart().await.unwrap();
    service.restart(Backing::DispatcherAndInbox).await;
    for _ in 0..3 {
        let again = service.by(&shop, SEND).header("Idempotency-Key", "k").json(&body).send().await;
        assert_eq!(again.is(202), first);
    }
    assert_eq!(service.sends().await, 1);
    let id = first["requestId"].as_str().unwrap();
    eventually(SOON, "the send is completed", async || {
        let request = service.by(&shop, &format!("GET /v3/requests/{id}")).send().await;
        (request.body["status"] == "completed").then_some(())
    })
    .await;
    eventually(SOON, "the notification is listed", async || {
        (titles(&service.list(&shop, "ada", "").await) == ["Hello"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_repeat_may_come_after_the_send_has_expired() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.by(&shop, "GET /v3/categories").send().await.is(200);
    let mut body = plain_send(&["ada"]);
    // On a slow machine, a send may expire before the gateway accepts it.
    let (kept, body, first) = eventually(SOON, "the send is accepted", async || {
        let key = clock::new_id().to_string();
        body["expiresAt"] = json!((clock::now() + Duration::from_secs(4)).to_string());
        let call = service.by(&shop, SEND).header("Idempotency-Key", &key).json(&body);
        let answer = call.send().await;
        (answer.status == 202).then(|| (key, body.clone(), answer.body))
    })
    .await;
    let send = |key: &str| service.by(&shop, SEND).header("Idempotency-Key", key).json(&body);
    eventually(SOON, "the send expires", async || {
        (send(&clock::new_id().to_string()).send().await.status == 400).then_some(())
    })
    .await;
    let sends = service.sends().await;
    assert_eq!(send(&kept).send().await.is(202), first);
    send("fresh").send().await.has_problems(&[("expiresAt", "past")]);
    service.by(&shop, SEND).json(&body).send().await.has_problems(&[("expiresAt", "past")]);
    assert_eq!(service.sends().await, sends);
}
