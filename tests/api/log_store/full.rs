//! A store of the log that sends fill.

use std::num::NonZeroU32;

use domain::app_setting::AppSetting;
use domain::content::Object;
use domain::event::{DeliverySettled, UserErased};
use domain::{Actor, Channel, DeliveryId, Envelope, Event, Status, StreamName, UserNumber};
use serde_json::{Value, json};
use service_kit::clock;
use service_kit::fullness::SENDS_STOP;
use testkit::eventually;
use uuid::Uuid;

use crate::client::Answer;
use crate::log_store::{fill, service_with_store};
use crate::service::{App, Backing, SOON, Service, plain_send};

const SEND: &str = "POST /v3/notifications";
/// Size of the store in bytes.
const STORE: u64 = 60_000_000;
/// An app may add a quarter of the store within a day, and a large send has almost 0.4 MB.
const OF_ONE_APP: usize = 38;

/// Builds a send with almost as much content as possible.
fn large_send() -> Value {
    json!({
        "notification": {"title": "Hello"},
        "sendTo": {"recipients": ["ada"]},
        "data": {"x": "x".repeat(200_000)},
        "override": {"channel": {"email": {"subject": "Hello", "text": "y".repeat(150_000)}}},
    })
}

async fn send(service: &Service, app: &App, body: &Value) -> Answer {
    service.by(app, SEND).json(body).send().await
}

/// Repeats a large send until it is refused. Returns the number of accepted sends and the refusal.
async fn flood(service: &Service, app: &App) -> (usize, Answer) {
    let body = large_send();
    for accepted in 0..300 {
        let answer = send(service, app, &body).await;
        if answer.status != 202 {
            return (accepted, answer);
        }
    }
    panic!("no send was refused");
}

#[tokio::test]
async fn the_bytes_of_one_app_do_not_stop_another_app() {
    let service = service_with_store(STORE, Backing::Nothing, |_| {}).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let (accepted, refused) = flood(&service, &shop).await;
    assert!((OF_ONE_APP..=OF_ONE_APP + 8).contains(&accepted), "{accepted}");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((22 * 3_600..=24 * 3_600).contains(&seconds), "{seconds}");
    refused.fails(429, "quota_reached");
    let message = refused.body["message"].as_str().unwrap();
    assert!(
        message.contains("bytes of sends within 24 hours") && message.contains("max-send-megabytes"),
        "{message}"
    );

    for _ in 0..20 {
        send(&service, &bank, &plain_send(&["ada"])).await.is(202);
    }
    assert!(fill(&service).await < 0.5);
    let dry_run = service.by(&shop, &format!("{SEND}?dryRun=true")).json(&plain_send(&["ada"])).send().await;
    dry_run.is(200);
}

#[tokio::test]
async fn a_quota_of_bytes_is_shared_by_all_gateways_and_survives_their_restart() {
    let mut service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let limits = [AppSetting::MaxSendMegabytes(NonZeroU32::new(1))];
    assert!(service.context.store.control().set_settings(shop.id, &limits, &Actor::System).await.unwrap());
    for _ in 0..2 {
        send(&service, &shop, &large_send()).await.is(202);
    }
    let stored = "SELECT coalesce(sum(sends), 0)::bigint FROM app_bytes";
    eventually(SOON, "the gateway has stored its count", async || {
        (service.count(stored).await > 700_000).then_some(())
    })
    .await;
    service.restart(Backing::Nothing).await;
    // A new gateway learns the count within a second of its first send.
    eventually(SOON, "the new gateway refuses large sends", async || {
        let answer = send(&service, &shop, &large_send()).await;
        (answer.status == 429).then_some(())
    })
    .await;
    let bank = service.app("bank").await;
    send(&service, &bank, &large_send()).await.is(202);
}

#[tokio::test]
async fn each_recipient_counts_and_so_do_files() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let limits =
        [AppSetting::MaxSendMegabytes(NonZeroU32::new(2)), AppSetting::MaxFileMegabytes(NonZeroU32::new(1))];
    assert!(service.context.store.control().set_settings(shop.id, &limits, &Actor::System).await.unwrap());
    let mut many = large_send();
    many["sendTo"]["recipients"] = json!(["a", "b", "c", "d", "e", "f"]);
    send(&service, &shop, &many).await.fails(429, "quota_reached");

    let mut with_file = plain_send(&["ada"]);
    let attachment = json!({"name": "a.bin", "contentType": "application/octet-stream", "content": "QUJD".repeat(200_000)});
    with_file["data"] = json!({"attachments": [attachment]});
    send(&service, &shop, &with_file).await.is(202);
    let refused = send(&service, &shop, &with_file).await;
    refused.fails(429, "quota_reached");
    assert!(refused.body["message"].as_str().unwrap().contains("max-file-megabytes"), "{}", refused.body);
    send(&service, &shop, &plain_send(&["ada"])).await.is(202);
}

fn settled(app: &App) -> Envelope {
    let settled = DeliverySettled {
        delivery_id: DeliveryId(Uuid::from_u128(1)),
        channel: Channel::Email,
        user: UserNumber(1),
        attempt: 1,
        status: Status::Sent,
        reason: None,
        provider: None,
    };
    let (id, at) = (clock::new_id(), clock::now());
    Envelope {
        id,
        app: app.id,
        at,
        send_id: None,
        caused_by: None,
        trace: None,
        event: Event::DeliverySettled(settled),
    }
}

#[tokio::test]
async fn a_full_store_accepts_outcomes_and_erasures_and_empties_without_an_operator() {
    let service = service_with_store(STORE, Backing::Nothing, |_| {}).await;
    let shop = service.app("shop").await;
    service.context.store.directory().merge_user(shop.id, "gone", Object::new()).await.unwrap();
    let mut apps = Vec::new();
    for number in 0..6 {
        apps.push(service.app(&format!("app {number}")).await);
    }
    // No dispatcher runs, so nothing is read. Several apps together fill the store. Between two checks of the store, the gateway counts
    // what it publishes, and may refuse a send slightly too early.
    let refused = eventually(SOON * 3, "the store is full", async || {
        for app in &apps {
            let (_, answer) = flood(&service, app).await;
            if answer.status == 503 && fill(&service).await >= SENDS_STOP {
                return Some(answer);
            }
        }
        None
    })
    .await;
    refused.fails(503, "unavailable");
    assert!(refused.header("retry-after").is_some());
    let full = fill(&service).await;
    assert!((SENDS_STOP..0.9).contains(&full), "{full}");
    send(&service, &shop, &plain_send(&["ada"])).await.fails(503, "unavailable");

    for _ in 0..50 {
        service.publish(StreamName::Outcome, settled(&shop).encode().unwrap()).await;
    }
    service.by(&shop, "DELETE /v3/users/gone").send().await.is(202);
    service.context.serve("dispatcher", dispatcher::run);
    let is_erasure = |envelope: &Envelope| matches!(envelope.event, Event::UserErased(UserErased { .. }));
    // The janitor keeps the events of inboxes, because the projection has not read them yet.
    eventually(SOON * 3, "the log holds the erasure", async || {
        let mut events = service.events_in(StreamName::Inbox(0)).await;
        events.extend(service.events_in(StreamName::Inbox(1)).await);
        events.iter().any(is_erasure).then_some(())
    })
    .await;
    service.context.serve("inbox", inbox::run);
    eventually(SOON * 3, "the user is erased", async || {
        (service.count("SELECT count(*) FROM erased").await == 1).then_some(())
    })
    .await;
    eventually(SOON * 6, "the store has room again", async || (fill(&service).await < 0.7).then_some(()))
        .await;
    eventually(SOON, "sends are accepted again", async || {
        (send(&service, &shop, &plain_send(&["ada"])).await.status == 202).then_some(())
    })
    .await;
}
