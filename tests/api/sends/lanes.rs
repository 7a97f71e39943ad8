//! Sends beyond an app's transactional rate.

use domain::{Lane, StreamName};
use serde_json::json;

use crate::service::{Backing, Service, plain_send};

const SEND: &str = "POST /v3/notifications";

#[tokio::test]
async fn sends_beyond_an_apps_rate_use_the_bulk_lane_without_affecting_other_apps() {
    let service = Service::start_with(Backing::Nothing).await;
    let (busy, other) = (service.app("busy").await, service.app("other").await);
    service.run("UPDATE app SET transactional_rate = 1 WHERE name = 'busy'").await;
    let held = async |lane| service.context.log.state(StreamName::Send(lane)).await.unwrap().messages;
    testkit::eventually(crate::service::SOON, "a send exceeds the rate", async || {
        service.by(&busy, SEND).json(&plain_send(&["ada"])).send().await.is(202);
        (held(Lane::Bulk).await > 0).then_some(())
    })
    .await;
    let (transactional, bulk) = (held(Lane::Transactional).await, held(Lane::Bulk).await);
    assert!(transactional > 0, "no send was within the rate");
    for _ in 0..20 {
        service.by(&other, SEND).json(&plain_send(&["ada"])).send().await.is(202);
    }
    assert_eq!((held(Lane::Transactional).await, held(Lane::Bulk).await), (transactional + 20, bulk));
}

#[tokio::test]
async fn a_repeat_keeps_the_lane_of_the_first_call() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let send =
        |key: &str| service.by(&shop, SEND).header("Idempotency-Key", key).json(&plain_send(&["ada"])).send();
    let first = send("k").await.is(202);
    service.run("UPDATE idempotency_key SET lane = 'bulk'").await;
    assert_eq!(send("k").await.is(202), first);
    let bulk = service.context.log.state(StreamName::Send(Lane::Bulk)).await.unwrap();
    assert_eq!(bulk.messages, 1);
    assert_eq!(service.one_text("SELECT lane FROM idempotency_key").await, "bulk");

    let mut asked = plain_send(&["ada"]);
    asked["lane"] = json!("bulk");
    service.by(&shop, SEND).json(&asked).send().await.is(202);
    let bulk = service.context.log.state(StreamName::Send(Lane::Bulk)).await.unwrap();
    assert_eq!(bulk.messages, 2);
}
