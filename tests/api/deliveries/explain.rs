//! `/v3/explain`, `/v3/requests` and the status `waiting`.

use serde_json::{Value, json};
use stand_ins::smtp::{Rule, Stage};
use testkit::eventually;

use crate::mailbox::Mailbox;
use crate::service::{App, Backing, SOON, Service};

const EMAIL: &str = "ada@example.com";

impl Service {
    async fn explain(&self, app: &App, query: &str) -> Value {
        self.by(app, &format!("GET /v3/explain?{query}")).send().await.is(200)
    }
}

fn send_to(user: &str) -> Value {
    json!({
        "notification": {"title": "Order 7 shipped", "category": "orders"},
        "sendTo": {"recipients": [{"identifier": user, "email": EMAIL, "name": "Ada"}]},
    })
}

fn channel<'a>(explanation: &'a Value, name: &str) -> &'a Value {
    let channels = explanation["channels"].as_array().unwrap();
    channels.iter().find(|channel| channel["channel"] == name).unwrap()
}

#[tokio::test]
async fn a_dead_address_is_explained_with_the_words_of_the_provider_and_the_fix() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let mailbox = Mailbox::start(&service, &shop).await;
    mailbox.server.script(Rule::answer(Stage::Rcpt, "550 5.1.1 no such user").to(EMAIL).times(1));
    let id = service.sent(&shop, &send_to("ada")).await;
    let told = eventually(SOON, "the email failed", async || {
        let told = service.explain(&shop, &format!("user=ada&request={id}")).await;
        let is_shown = told["verdict"].as_str().unwrap().contains("has the inbox item");
        (is_shown && channel(&told, "email")["status"] == "failed").then_some(told)
    })
    .await;
    let verdict = told["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("Ada has the inbox item. The email did not arrive: main"), "{verdict}");
    assert!(verdict.contains("\"550 5.1.1 no such user\""), "{verdict}");
    assert!(!told.to_string().contains(EMAIL), "the target is masked: {told}");
    let email = channel(&told, "email");
    assert_eq!(email["reason"], "target_gone");
    assert_eq!(email["fix"]["action"], "tidings suppression lift");
    assert_eq!(email["documentation"], "statuses.md#failed-target_gone");
    assert_eq!(email["deliveries"][0]["requestId"], json!(id));
    assert_eq!(email["deliveries"][0]["code"], "550 5.1.1");
    let now = told["now"]["text"].as_str().unwrap();
    assert!(now.starts_with("inApp yes · email no, suppressed"), "{now}");
    let kinds: Vec<_> = told["events"].as_array().unwrap().iter().map(|event| &event["kind"]).collect();
    assert_eq!(kinds, ["accepted", "planned", "attempt"]);
    assert!(told["events"][2]["tookMs"].is_u64());

    let latest = service.explain(&shop, "user=ada&category=orders").await;
    assert_eq!(latest["sends"][0]["requestId"], json!(id));
    assert!(latest["sends"][0]["verdict"].as_str().unwrap().contains("550 5.1.1"));
    assert_eq!(service.explain(&shop, "user=ada&category=news").await["sends"], json!([]));
}

#[tokio::test]
async fn a_delivery_behind_an_open_breaker_waits_with_provider_code_and_next_attempt() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let mailbox = Mailbox::start(&service, &shop).await;
    mailbox.server.script(Rule::answer(Stage::Mail, "535 5.7.8 login refused").times(1_000));
    let first = service.sent(&shop, &send_to("ada")).await;
    let path = format!("GET /v3/requests/{first}/deliveries?channel=email&status=waiting");
    let waiting = eventually(SOON, "the delivery waits", async || {
        let page = service.once_stored(&shop, &path).await;
        page["data"].as_array().unwrap().first().cloned()
    })
    .await;
    assert_eq!((&waiting["status"], &waiting["provider"]), (&json!("waiting"), &json!("main")));
    assert_eq!(waiting["code"], "535 5.7.8");
    assert!(waiting["nextAttemptAt"].is_string() && waiting["reason"].is_string(), "{waiting}");

    let second = service.sent(&shop, &send_to("bob")).await;
    let request = eventually(SOON, "the second delivery waits for the breaker", async || {
        let request = service.request(&shop, &second).await;
        (request["waiting"][0]["reason"] == "breaker_open").then_some(request)
    })
    .await;
    assert_eq!(
        (&request["status"], &request["counts"]["email"]),
        (&json!("processing"), &json!({"waiting": 1}))
    );
    assert_eq!(request["waiting"][0]["provider"], "main");
    assert_eq!(request["waiting"][0]["code"], "535 5.7.8");
    let told = service.explain(&shop, &format!("user=bob&request={second}")).await;
    let verdict = told["verdict"].as_str().unwrap();
    assert!(verdict.contains("main keeps failing") && verdict.contains("Next attempt: "), "{verdict}");
    let queued = format!("GET /v3/requests/{second}/deliveries?channel=email&status=queued");
    let listed = service.by(&shop, &queued).send().await.is(200);
    assert_eq!(listed["data"][0]["status"], "waiting", "clients that ask for queued ones find it");
    let stored = service.rows("SELECT DISTINCT status FROM delivery WHERE status = 'waiting'").await;
    assert_eq!(stored, [""; 0]);
}

#[tokio::test]
async fn an_unknown_user_is_a_404_with_similar_identifiers() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    for user in ["ada", "customer-17"] {
        service.by(&shop, "POST /v3/users").json(&json!({"identifier": user})).send().await.is(200);
    }
    let similar = async |app: &App, user: &str| {
        let answer = service.by(app, &format!("GET /v3/explain?user={user}")).send().await;
        assert_eq!(answer.status, 404, "{}", answer.body);
        answer.is(404)["similar"].clone()
    };
    assert_eq!(similar(&shop, "Ada").await, json!(["ada"]));
    assert_eq!(similar(&shop, "customer-71").await, json!(["customer-17"]));
    assert_eq!(similar(&shop, "bob").await, json!(null));
    assert_eq!(similar(&bank, "ada2").await, json!(null), "users of another app");
    service.by(&shop, "GET /v3/explain").send().await.has_problems(&[("user", "required")]);
    let query = "user=ada&request=x&since=yesterday&limit=51&now=maybe";
    service.by(&shop, &format!("GET /v3/explain?{query}")).send().await.has_problems(&[
        ("request", "invalid_id"),
        ("since", "invalid_time"),
        ("limit", "invalid_number"),
        ("now", "unknown_value"),
    ]);
}

#[tokio::test]
async fn a_send_that_is_not_planned_and_a_person_who_is_no_recipient_are_verdicts() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.by(&shop, "POST /v3/users").json(&json!({"identifier": "eve"})).send().await.is(200);
    let fresh = service_kit::clock::new_id();
    let told = service.explain(&shop, &format!("user=eve&request={fresh}")).await;
    let verdict = told["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("Not planned yet: the request id is "), "{verdict}");
    let old = "GET /v3/explain?user=eve&request=018f0000-0000-7000-8000-000000000002";
    service.by(&shop, old).send().await.fails(404, "not_found");

    let id = service.sent(&shop, &send_to("ada")).await;
    service.request(&shop, &id).await;
    let told = service.explain(&shop, &format!("user=eve&request={id}")).await;
    assert_eq!(told["verdict"], "eve is not among the recipients of this send.");
    assert_eq!((&told["channels"], &told["now"]), (&json!([]), &json!(null)));

    let unknown = json!({"notification": {"title": "Hi"}, "sendTo": {"recipients": ["nobody"]}});
    let id = service.sent(&shop, &unknown).await;
    service.request(&shop, &id).await;
    let told = service.explain(&shop, &format!("user=nobody&request={id}")).await;
    let verdict = told["verdict"].as_str().unwrap();
    assert!(verdict.contains("nobody was no user of the app when the send was planned"), "{verdict}");
}

#[tokio::test]
async fn an_erased_user_is_explained_by_nothing_else() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let id = service.sent(&shop, &send_to("ada")).await;
    service.request(&shop, &id).await;
    service.by(&shop, "DELETE /v3/users/ada").send().await.is(202);
    for query in [format!("user=ada&request={id}"), "user=ada".to_owned()] {
        let told = service.explain(&shop, &query).await;
        assert_eq!((&told["verdict"], &told["person"]), (&json!("The user was erased."), &json!(null)));
        assert_eq!((&told["request"], &told["channels"]), (&json!(null), &json!([])));
    }
}

#[tokio::test]
async fn now_alone_says_what_a_send_of_the_category_would_do() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let id = service.sent(&shop, &send_to("ada")).await;
    service.request(&shop, &id).await;
    let told = service.explain(&shop, "user=ada&category=orders&now=true").await;
    assert_eq!((&told["sends"], &told["now"]["category"]), (&json!([]), &json!("orders")));
    assert_eq!(told["now"]["channels"][0], json!({"channel": "inApp", "sends": true, "reason": null}));
    assert_eq!(told["now"]["channels"][1]["reason"], "no_provider");
    assert_eq!(told["verdict"], told["now"]["text"]);
}

#[tokio::test]
async fn sends_are_listed_latest_first_by_recipient_category_status_and_time() {
    let service = Service::start().await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let mut ids = Vec::new();
    for (user, category) in [("ada", "orders"), ("bob", "orders"), ("ada", "news")] {
        let mut body = send_to(user);
        body["notification"]["category"] = json!(category);
        ids.push(service.sent(&shop, &body).await);
        service.request(&shop, &ids[ids.len() - 1]).await;
    }
    let listed = async |query: &str| {
        let page = service.by(&shop, &format!("GET /v3/requests?{query}")).send().await.is(200);
        let data = page["data"].as_array().unwrap().clone();
        data.iter().map(|send| send["requestId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (orders, bobs, news) = (&ids[0], &ids[1], &ids[2]);
    assert_eq!(listed("").await, [news.clone(), bobs.clone(), orders.clone()]);
    assert_eq!(listed("recipient=ada").await, [news.clone(), orders.clone()]);
    assert_eq!(listed("recipient=ada&category=orders").await, std::slice::from_ref(orders));
    assert_eq!(listed("category=news").await, std::slice::from_ref(news));
    assert_eq!(listed("recipient=nobody").await, [""; 0]);
    assert_eq!(listed("recipient=ada&status=skipped").await.len(), 2);
    assert_eq!(listed("status=failed").await, [""; 0]);
    assert_eq!(listed("status=skipped").await.len(), 3);
    assert_eq!(listed("since=2026-01-01T00:00:00Z").await.len(), 3);
    assert_eq!(listed("since=2126-01-01T00:00:00Z").await, [""; 0]);
    let others = service.by(&bank, "GET /v3/requests").send().await.is(200);
    assert_eq!(others, json!({"data": [], "nextCursor": null}));

    let first = service.by(&shop, "GET /v3/requests?limit=2").send().await.is(200);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = service.by(&shop, &format!("GET /v3/requests?limit=2&cursor={cursor}")).send().await.is(200);
    assert_eq!(second["data"][0]["requestId"], json!(orders));
    assert_eq!((second["data"].as_array().unwrap().len(), &second["nextCursor"]), (1, &json!(null)));
    let query = "status=lost&since=x&limit=101&cursor=y";
    service.by(&shop, &format!("GET /v3/requests?{query}")).send().await.has_problems(&[
        ("status", "unknown_value"),
        ("since", "invalid_time"),
        ("limit", "invalid_number"),
        ("cursor", "invalid_cursor"),
    ]);
}
