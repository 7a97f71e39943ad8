//! `DELETE /v3/requests/{requestId}`.

use std::collections::BTreeSet;

use domain::{Envelope, Event, SendId, StreamName};
use event_log::Message;
use serde_json::{Value, json};
use service_kit::clock;
use stand_ins::smtp::{Rule, Stage};
use testkit::eventually;

use crate::mailbox::Mailbox;
use crate::service::{App, SOON, Service};

impl Service {
    /// Makes a send and returns its request id.
    pub(crate) async fn sent(&self, app: &App, send: &Value) -> String {
        let receipt = self.by(app, "POST /v3/notifications").json(send).send().await.is(202);
        receipt["requestId"].as_str().unwrap().to_owned()
    }

    /// Makes a call for a request, and repeats it until the dispatcher has stored the request. Returns the body.
    pub(crate) async fn once_stored(&self, app: &App, call: &str) -> Value {
        eventually(SOON, "the request is stored", async || {
            let answer = self.by(app, call).send().await;
            (answer.status != 404).then(|| answer.is(200))
        })
        .await
    }

    pub(crate) async fn request(&self, app: &App, id: &str) -> Value {
        self.once_stored(app, &format!("GET /v3/requests/{id}")).await
    }

    async fn cancel(&self, app: &App, id: &str) -> u64 {
        let answer = self.once_stored(app, &format!("DELETE /v3/requests/{id}")).await;
        assert_eq!(answer.as_object().unwrap().len(), 1);
        answer["cancelled"].as_u64().unwrap()
    }

    /// Reads every delivery of a request, page by page.
    pub(crate) async fn deliveries(&self, app: &App, id: &str, query: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("GET /v3/requests/{id}/deliveries?{query}{cursor}");
            let page = self.by(app, &path).send().await.is(200);
            all.extend(page["data"].as_array().unwrap().iter().cloned());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }
}

/// Sums the counts of a request for one status over all channels.
fn count(request: &Value, status: &str) -> u64 {
    let channels = request["counts"].as_object().unwrap().values();
    channels.filter_map(|statuses| statuses[status].as_u64()).sum()
}

fn people(prefix: &str, count: usize) -> Vec<Value> {
    (0..count).map(|number| json!({"identifier": format!("{prefix}-{number}@example.com")})).collect()
}

fn emails(recipients: &[Value]) -> Value {
    json!({
        "notification": {"title": "Hello"},
        "sendTo": {"recipients": recipients},
        "override": {"channels": ["email", "inApp"]},
    })
}

#[tokio::test]
async fn all_chunks_of_a_scheduled_send_are_cancelled() {
    let service = Service::start().await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let mailbox = Mailbox::start(&service, &shop).await;
    let mut send = emails(&people("ada", 600));
    send["sendAt"] = json!(clock::now() + std::time::Duration::from_secs(86_400));
    let id = service.sent(&shop, &send).await;
    assert_eq!(service.request(&shop, &id).await["status"], "scheduled");
    service.by(&bank, &format!("DELETE /v3/requests/{id}")).send().await.fails(404, "not_found");
    service.of(&shop, "ada", &format!("DELETE /v3/requests/{id}")).send().await.is(401);
    assert_eq!(service.request(&shop, &id).await["status"], "scheduled");

    assert_eq!(service.cancel(&shop, &id).await, 1200);
    let cancelled = eventually(SOON, "every chunk is planned", async || {
        let request = service.request(&shop, &id).await;
        assert_eq!(request["status"], "cancelled");
        (count(&request, "cancelled") == 1200).then_some(request)
    })
    .await;
    assert_eq!(cancelled["counts"]["email"], json!({"cancelled": 600}));
    assert_eq!(service.cancel(&shop, &id).await, 0, "again");
    let deliveries = service.deliveries(&shop, &id, "channel=email").await;
    assert_eq!(deliveries.len(), 600);
    for delivery in &deliveries {
        assert_eq!(
            (&delivery["status"], &delivery["reason"]),
            (&json!("cancelled"), &json!("request_cancelled"))
        );
    }
    assert!(mailbox.recipients().is_empty());
    assert_eq!(service.one_text("SELECT count(*)::text FROM app_user").await, "0");
    assert_eq!(service.one_text("SELECT count(*)::text FROM inbox_item").await, "0");
}

#[tokio::test]
async fn waiting_retries_are_cancelled_and_sent_messages_stay_sent() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let mailbox = Mailbox::start(&service, &shop).await;
    mailbox.server.script(Rule::answer(Stage::Rcpt, "450 4.2.0 later").to("ada-1@example.com").times(50));
    let id = service.sent(&shop, &emails(&people("ada", 2))).await;
    eventually(SOON, "one delivery is sent and the other retried", async || {
        let request = service.request(&shop, &id).await;
        (request["counts"]["email"] == json!({"sent": 1, "waiting": 1})).then_some(())
    })
    .await;
    let cancelled = service.cancel(&shop, &id).await;
    let email = eventually(SOON, "no delivery is in progress", async || {
        let request = service.request(&shop, &id).await;
        let email = request["counts"]["email"].clone();
        email["sending"].is_null().then_some(email)
    })
    .await;
    assert_eq!(email, json!({"sent": 1, "cancelled": 1}));
    // If the retry was in progress during the call, the call cancels nothing, and the delivery is cancelled when the attempt
    // fails.
    assert!(cancelled <= 1);
    let rest = service.deliveries(&shop, &id, "status=cancelled").await;
    assert_eq!(rest.len(), 1);
    let attempt = &rest[0]["attempts"][0];
    assert_eq!((&attempt["provider"], &attempt["providerCode"]), (&json!("main"), &json!("450 4.2.0")));
    eventually(SOON, "all timers are published", async || {
        (service.one_text("SELECT count(*)::text FROM timer").await == "0").then_some(())
    })
    .await;
    assert_eq!(service.request(&shop, &id).await["status"], "cancelled");
}

#[tokio::test]
async fn whenever_a_send_is_cancelled_each_delivery_is_sent_or_cancelled() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let mailbox = Mailbox::start(&service, &shop).await;
    let before = |prefix: String| {
        mailbox.recipients().into_iter().filter(|to| to.starts_with(&prefix)).collect::<BTreeSet<_>>()
    };
    for (round, seen) in [0, 1, 100, 501, 550].into_iter().enumerate() {
        let prefix = format!("round{round}-");
        let id = service.sent(&shop, &emails(&people(&format!("round{round}"), 600))).await;
        eventually(SOON, "enough emails are sent", async || {
            (before(prefix.clone()).len() >= seen).then_some(())
        })
        .await;
        let (one, other) = tokio::join!(service.cancel(&shop, &id), service.cancel(&shop, &id));
        assert!(one == 0 || other == 0, "{one} and {other}");
        let request = eventually(SOON, "every delivery is sent or cancelled", async || {
            let request = service.request(&shop, &id).await;
            let email = &request["counts"]["email"];
            let (sent, cancelled) = (email["sent"].as_u64(), email["cancelled"].as_u64());
            let in_app = &request["counts"]["inApp"];
            (sent.unwrap_or(0) + cancelled.unwrap_or(0) == 600 && in_app["queued"].is_null())
                .then_some(request)
        })
        .await;
        assert_eq!(count(&request, "cancelled"), one + other, "{request}");
        let sent = service.deliveries(&shop, &id, "channel=email&status=sent").await;
        let sent: BTreeSet<_> =
            sent.iter().map(|one| one["recipient"].as_str().unwrap().to_owned()).collect();
        assert_eq!(before(prefix), sent);
    }
}

#[tokio::test]
async fn a_send_that_cannot_be_planned_is_parked_and_reported() {
    let service = Service::start().await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let body = json!({"notification": {"title": "x"}, "sendTo": {"recipients": ["ada", "bob"]}});
    let rules = domain::request::SendRules { now: clock::now(), strict: true };
    let mut send = domain::request::parse_send(body, rules).unwrap().send;
    // PostgreSQL cannot store a NUL character. The gateway would reject this title, so the test publishes the event itself.
    send.content.title = Some("a\0b".to_owned());
    let send_id = SendId(clock::new_id());
    let stream = StreamName::Send(send.lane);
    let event = Envelope {
        id: send_id.0,
        app: shop.id,
        at: clock::now(),
        send_id: Some(send_id),
        caused_by: None,
        trace: None,
        event: Event::SendAccepted(Box::new(send)),
    };
    let message = Message { stream, id: None, payload: event.encode().unwrap().into() };
    service.context.log.publish(message).await.unwrap();

    let path = format!("/v3/requests/{send_id}");
    let request = eventually(SOON, "the send is parked", async || {
        let answer = service.by(&shop, &format!("GET {path}")).send().await;
        (answer.status == 200).then_some(answer.body)
    })
    .await;
    assert_eq!((&request["status"], &request["recipients"]), (&json!("parked"), &json!(2)));
    assert_eq!((&request["acceptedAt"], &request["counts"]), (&json!(event.at), &json!({})));
    assert_eq!(service.deliveries(&shop, &send_id.to_string(), "").await, Vec::<Value>::new());
    service.by(&bank, &format!("DELETE {path}")).send().await.fails(404, "not_found");
    let everything = 2 * domain::Channel::DELIVERED.len() as u64;
    assert_eq!(service.cancel(&shop, &send_id.to_string()).await, everything);
    assert_eq!(service.cancel(&shop, &send_id.to_string()).await, 0, "again");
    assert_eq!(service.request(&shop, &send_id.to_string()).await["status"], "cancelled");
    service.by(&bank, &format!("GET {path}")).send().await.fails(404, "not_found");
}

#[tokio::test]
async fn all_sends_with_a_key_are_cancelled_together() {
    let service = Service::start().await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let tomorrow = clock::now() + std::time::Duration::from_secs(86_400);
    let mut send = emails(&people("ada", 3));
    send["sendAt"] = json!(tomorrow);
    send["cancellationKey"] = json!("order-7");
    let planned = service.sent(&shop, &send).await;
    service.request(&shop, &planned).await;
    let just_accepted = service.sent(&shop, &send).await;
    let of_bank = service.sent(&bank, &send).await;
    send["cancellationKey"] = json!("order-8");
    let other = service.sent(&shop, &send).await;

    let cancelled = service.by(&shop, "DELETE /v3/requests?cancellationKey=order-7").send().await.is(200);
    assert_eq!(cancelled["requests"], 2);
    assert!(cancelled["cancelled"].as_u64().unwrap() >= 6, "{cancelled}");
    send["cancellationKey"] = json!("order-7");
    let later = service.sent(&shop, &send).await;
    for id in [&planned, &just_accepted] {
        eventually(SOON, "the send is planned as cancelled", async || {
            let request = service.request(&shop, id).await;
            assert_eq!(request["status"], "cancelled");
            (count(&request, "cancelled") == 6).then_some(())
        })
        .await;
    }
    for (app, id) in [(&bank, &of_bank), (&shop, &other), (&shop, &later)] {
        assert_eq!(service.request(app, id).await["status"], "scheduled");
    }
}

#[tokio::test]
async fn a_cancellation_needs_a_key_that_a_send_has() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let cancel = async |query: &str| service.by(&shop, &format!("DELETE /v3/requests{query}")).send().await;
    cancel("?cancellationKey=order-7").await.fails(404, "not_found");
    let long = format!("?cancellationKey={}", "a".repeat(256));
    for query in ["", "?cancellationKey=", &long] {
        assert_eq!(cancel(query).await.is(400)["errors"][0]["field"], "cancellationKey");
    }
    let mut send = emails(&people("ada", 1));
    send["cancellationKey"] = json!("one");
    send["notification"]["workflow"] = json!({"identifier": "welcome", "cancellationKey": "two"});
    let refused = service.by(&shop, "POST /v3/notifications").json(&send).send().await.is(400);
    assert_eq!(refused["errors"][0]["code"], "ambiguous");
}
