//! `DELETE /v3/users/{identifier}`.

use std::time::Duration;

use serde_json::{Value, json};
use service_kit::clock;
use testkit::eventually;

use crate::service::{App, Backing, SOON, Service, plain_send, titles};

const TOMORROW: Duration = Duration::from_secs(24 * 60 * 60);

impl Service {
    /// Makes a send and returns its request id.
    async fn accepted(&self, app: &App, body: &Value) -> String {
        let receipt = self.by(app, "POST /v3/notifications").json(body).send().await.is(202);
        receipt["requestId"].as_str().unwrap().to_owned()
    }

    async fn erase(&self, app: &App, user: &str) {
        let answer = self.by(app, &format!("DELETE /v3/users/{user}")).send().await.is(202);
        assert_eq!(answer["statusCode"], 202);
        assert!(answer["message"].is_string());
    }

    async fn is_listed(&self, app: &App, user: &str, expected: &[&str]) {
        eventually(SOON, "the inbox is as expected", async || {
            (titles(&self.list(app, user, "").await) == expected).then_some(())
        })
        .await;
    }

    /// Waits until no `inApp` delivery of a request is queued, and returns the recipient, status and reason of each.
    async fn in_app(&self, app: &App, request: &str) -> Vec<(Value, Value, Value)> {
        let path = format!("GET /v3/requests/{request}/deliveries?channel=inApp");
        eventually(SOON, "no inApp delivery of the request is queued", async || {
            let answer = self.by(app, &path).send().await;
            // The gateway answers 404 until the dispatcher has planned the send.
            let rows = answer.body["data"].as_array()?;
            let settled = !rows.is_empty() && rows.iter().all(|row| row["status"] != "queued");
            let row = |row: &Value| (row["recipient"].clone(), row["status"].clone(), row["reason"].clone());
            settled.then(|| rows.iter().map(row).collect())
        })
        .await
    }
}

fn with_email(identifier: &str) -> Value {
    json!({"identifier": identifier, "email": format!("{identifier}@example.com")})
}

fn send_to(title: &str, recipients: &[Value]) -> Value {
    json!({"notification": {"title": title}, "sendTo": {"recipients": recipients}})
}

#[tokio::test]
async fn an_erased_user_is_unknown_and_the_identifier_can_be_used_by_a_new_user() {
    let service = Service::start().await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    for app in [&shop, &bank] {
        service.by(app, "PUT /v3/users/ursula").json(&json!({"name": "Ursula"})).send().await.is(200);
        service.deliver(app, "ursula", 2).await;
    }
    let id = service.list(&shop, "ursula", "").await["data"][0]["id"].as_i64().unwrap();
    service.erase(&shop, "ursula").await;

    let list = service.list(&shop, "ursula", "").await;
    assert_eq!((&list["data"], &list["unreadCount"]), (&json!([]), &json!(0)));
    let item = format!("GET /v3/notifications/{id}");
    service.by(&shop, &item).send().await.fails(404, "not_found");
    service.of(&shop, "ursula", &item).send().await.fails(404, "not_found");
    service.by(&shop, &format!("POST /v3/notifications/{id}/click")).send().await.fails(404, "not_found");
    service.by(&shop, "DELETE /v3/users/ursula").send().await.fails(404, "not_found");
    let strict = json!({"onUnknownRecipient": "reject", "notification": {"title": "x"}, "sendTo": {"recipients": ["ursula"]}});
    service.by(&shop, "POST /v3/notifications").json(&strict).send().await.is(400);

    // The other app has its own user with the same identifier.
    assert_eq!(service.list(&bank, "ursula", "").await["pagination"]["totalCount"], 2);

    let again = service.by(&shop, "PUT /v3/users/ursula").json(&json!({})).send().await.is(200);
    assert_eq!(again["profile"], json!({}));
    assert_eq!(service.list(&shop, "ursula", "").await["pagination"]["totalCount"], 0);
    service.deliver(&shop, "ursula", 1).await;
    service.by(&shop, &item).send().await.fails(404, "not_found");
}

#[tokio::test]
async fn only_the_app_may_erase_its_users() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.by(&shop, "PUT /v3/users/ursula").json(&json!({})).send().await.is(200);
    service.of(&shop, "ursula", "DELETE /v3/users/ursula").send().await.fails(401, "secret_required");
    service.by(&shop, "DELETE /v3/users/eve").send().await.fails(404, "not_found");
    service
        .by(&shop, "DELETE /v3/users/a%00b")
        .send()
        .await
        .has_problems(&[("identifier", "invalid_character")]);
    service.by(&shop, "DELETE /v3/users/ursula/").body("{", "text/plain").send().await.is(202);
    service.by(&shop, "DELETE /v3/users/ursula").send().await.fails(404, "not_found");
}

#[tokio::test]
async fn past_deliveries_do_not_identify_an_erased_recipient() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let request =
        service.accepted(&shop, &send_to("Hello", &[with_email("ursula"), with_email("bob")])).await;
    let delivered = |name: &str| (json!(name), json!("delivered"), json!(null));
    assert_eq!(service.in_app(&shop, &request).await, [delivered("ursula"), delivered("bob")]);
    service.erase(&shop, "ursula").await;

    let path = format!("GET /v3/requests/{request}/deliveries");
    let rows = service.by(&shop, &path).send().await.is(200);
    assert!(!rows.to_string().contains("ursula"), "{rows}");
    let named = service.by(&shop, &format!("{path}?recipient=ursula")).send().await.is(200);
    assert_eq!(named["data"], json!([]));
    eventually(SOON, "the inbox item is recorded as erased", async || {
        let first = service.in_app(&shop, &request).await[0].clone();
        (first == (json!(null), json!("skipped"), json!("recipient_erased"))).then_some(())
    })
    .await;
    assert_eq!(service.in_app(&shop, &request).await[1], delivered("bob"));
    eventually(SOON, "the counts show the erasure", async || {
        let totals = service.by(&shop, &format!("GET /v3/requests/{request}")).send().await.is(200);
        (totals["counts"]["inApp"] == json!({"delivered": 1, "skipped": 1})).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_send_before_an_erasure_skips_the_user_and_a_later_one_creates_a_new_user() {
    // No dispatcher runs yet, so that accepted sends wait in the log.
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.by(&shop, "PUT /v3/users/ursula").json(&json!({})).send().await.is(200);
    let both = [with_email("ursula"), with_email("bob")];
    let before = service.accepted(&shop, &send_to("before", &both)).await;
    let mut scheduled = send_to("scheduled", &both);
    scheduled["sendAt"] = json!(clock::now() + TOMORROW);
    let scheduled = service.accepted(&shop, &scheduled).await;
    service.erase(&shop, "ursula").await;
    let after = service.accepted(&shop, &send_to("after", &[with_email("ursula")])).await;
    service.context.serve("dispatcher", dispatcher::run);
    service.context.serve("inbox", inbox::run);

    let delivered = |name: &str| (json!(name), json!("delivered"), json!(null));
    let erased = || (json!(null), json!("skipped"), json!("recipient_erased"));
    assert_eq!(service.in_app(&shop, &before).await, [erased(), delivered("bob")]);
    assert_eq!(service.in_app(&shop, &after).await, [delivered("ursula")]);
    service.run("UPDATE timer SET due_at = now()").await;
    assert_eq!(service.in_app(&shop, &scheduled).await, [erased(), delivered("bob")]);
    service.is_listed(&shop, "ursula", &["after"]).await;
    service.is_listed(&shop, "bob", &["scheduled", "before"]).await;
}

#[tokio::test]
async fn a_scheduled_send_loses_recipients_erased_since() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let mut send = send_to("later", &[with_email("ursula"), with_email("bob")]);
    send["sendAt"] = json!(clock::now() + TOMORROW);
    let request = service.accepted(&shop, &send).await;
    service.by(&shop, "PUT /v3/users/ursula").json(&json!({})).send().await.is(200);
    service.request(&shop, &request).await;
    service.erase(&shop, "ursula").await;
    eventually(SOON, "the stored send no longer names the user", async || {
        (service.rows("SELECT body::text FROM request WHERE body::text LIKE '%ursula%'").await.is_empty())
            .then_some(())
    })
    .await;
    service.run("UPDATE timer SET due_at = now()").await;
    let erased = (json!(null), json!("skipped"), json!("recipient_erased"));
    let bob = (json!("bob"), json!("delivered"), json!(null));
    assert_eq!(service.in_app(&shop, &request).await, [erased, bob]);
    service.by(&shop, "DELETE /v3/users/ursula").send().await.fails(404, "not_found");
}

#[tokio::test]
async fn a_rebuilt_inbox_has_no_items_of_an_erased_user() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    for user in ["ursula", "bob"] {
        service.deliver(&shop, user, 2).await;
    }
    service.erase(&shop, "ursula").await;
    let of_ursula = "SELECT user_number::text FROM inbox_item JOIN erased USING (app_id, user_number)
                  UNION ALL SELECT user_number::text FROM inbox_counter JOIN erased USING (app_id, user_number)";
    eventually(SOON, "the inbox is erased", async || service.rows(of_ursula).await.is_empty().then_some(()))
        .await;
    // Force a rebuild: empty the tables, and let the projection start again from the first event.
    service
        .run(
            "BEGIN; LOCK checkpoint; TRUNCATE inbox_item, inbox_counter; UPDATE checkpoint SET seq = 0; COMMIT",
        )
        .await;
    // At its next event, the projection notices that its checkpoint was moved.
    service.accepted(&shop, &plain_send(&["bob"])).await;
    eventually(SOON, "the inbox is rebuilt", async || {
        (service.list(&shop, "bob", "").await["pagination"]["totalCount"] == 3).then_some(())
    })
    .await;
    assert_eq!(service.rows(of_ursula).await, [""; 0]);
}

/// Runs erasures, sends, writes and connect calls concurrently. No call fails, and the user can be erased at the end.
#[tokio::test]
async fn erasures_succeed_concurrently_with_all_other_calls() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let device = json!({"deviceType": "browser"});
    let mut sends = Vec::new();
    for _ in 0..15 {
        let write = || service.by(&shop, "PUT /v3/users/ursula").json(&json!({"name": "Ursula"})).send();
        let erase = || service.by(&shop, "DELETE /v3/users/ursula").send();
        let connect = |id: &str| {
            let call = service.of(&shop, "ursula", "POST /v3/sdk/connect").header("X-SERVICE-DEVICE-ID", id);
            call.json(&device).send()
        };
        let body = send_to("Hello", &[with_email("ursula"), with_email("bob")]);
        let send = || service.by(&shop, "POST /v3/notifications").json(&body).send();
        let answers =
            tokio::join!(write(), connect("one"), erase(), send(), connect("two"), erase(), write(), send());
        let (a, b, c, d, e, f, g, h) = answers;
        for answer in [a, b, c, d, e, f, g, h] {
            // 503: the user was erased during the call; the caller retries.
            let allowed = [200, 202, 404, 503];
            assert!(allowed.contains(&answer.status), "{}: {}", answer.status, answer.body);
            sends.extend(answer.body["requestId"].as_str().map(str::to_owned));
        }
    }
    // A send that is planned after the last erasure would create the user again.
    for send in &sends {
        service.request(&shop, send).await;
    }
    eventually(SOON, "the user is erased", async || {
        let answer = service.by(&shop, "DELETE /v3/users/ursula").send().await;
        assert!([202, 404].contains(&answer.status), "{}", answer.body);
        (answer.status == 404).then_some(())
    })
    .await;
    service.is_listed(&shop, "ursula", &[]).await;
}
