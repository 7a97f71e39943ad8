//! `POST /v3/notifications`.

use domain::{Actor, Channel};
use serde_json::{Value, json};

use crate::service::{Backing, SOON, Service, plain_send, titles};

const SEND: &str = "POST /v3/notifications";

#[tokio::test]
async fn a_send_reaches_the_inbox_of_every_known_recipient() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.by(&shop, "POST /v3/users").json(&json!({"identifier": "ada"})).send().await.is(200);
    let send = json!({
        "notification": {"title": "Hello", "message": "World", "url": "https://example.com"},
        "sendTo": {"recipients": ["ada", "eve", {"identifier": "bob", "email": "bob@example.com"}]},
        "category": "orders",
        "data": {"order": 7},
    });
    let answer = service.by(&shop, SEND).json(&send).send().await;
    assert_eq!(answer.header("deprecation"), None);
    let receipt = answer.is(202);
    assert_eq!(receipt.as_object().unwrap().len(), 1);
    let request = receipt["requestId"].as_str().unwrap();
    for user in ["ada", "bob"] {
        let list = testkit::eventually(SOON, "the notification is listed", async || {
            let list = service.list(&shop, user, "").await;
            (list["unreadCount"] == 1).then_some(list)
        })
        .await;
        let item = &list["data"][0];
        assert_eq!(
            (&item["title"], &item["message"], &item["icon"]),
            (&json!("Hello"), &json!("World"), &Value::Null)
        );
        assert_eq!((&item["data"], &item["blocks"]), (&json!({"order": 7}), &json!([])));
        assert_eq!(item["category"]["identifier"], "orders");
    }
    let list = service.list(&shop, "eve", "").await;
    assert_eq!(list["pagination"]["totalCount"], 0);
    let deliveries =
        service.by(&shop, &format!("GET /v3/requests/{request}/deliveries")).send().await.is(200);
    let unknown: Vec<_> =
        deliveries["data"].as_array().unwrap().iter().filter(|one| one["recipient"] == "eve").collect();
    assert!(unknown.iter().any(|one| one["reason"] == "recipient_unknown"), "{deliveries}");
}

#[tokio::test]
async fn the_deprecated_recipients_are_accepted_and_marked_deprecated() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let body = json!({"notification": {"title": "Hello"}, "recipients": ["ada"]});
    let answer = service.by(&shop, SEND).json(&body).send().await;
    assert!(answer.header("deprecation").is_some_and(|value| value.starts_with('@')));
    answer.is(202);
}

#[tokio::test]
async fn every_problem_of_a_send_is_named() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let long = "u".repeat(256);
    let recipients = json!({"recipients": ["ada"]});
    let title = json!({"title": "Hello"});
    let cases: [(Value, &[(&str, &str)]); 12] = [
        (json!({}), &[("notification", "required"), ("sendTo.recipients", "required")]),
        (json!([1]), &[("", "invalid_type")]),
        (
            json!({"notification": {"message": "x"}, "sendTo": recipients}),
            &[("notification.title", "required")],
        ),
        (json!({"notification": {"title": ""}, "sendTo": recipients}), &[("notification.title", "required")]),
        (json!({"notification": "x", "sendTo": recipients}), &[("notification", "invalid_type")]),
        (json!({"notification": title, "sendTo": {"recipients": []}}), &[("sendTo.recipients", "required")]),
        (
            json!({"notification": title, "sendTo": {"recipients": [long]}}),
            &[("sendTo.recipients[0]", "too_long")],
        ),
        (
            json!({"notification": title, "sendTo": recipients, "override": {"channels": ["pigeon", "email"]}}),
            &[("override.channels[0]", "unknown_channel")],
        ),
        (
            json!({"notification": {"title": 1, "blocks": {}}, "sendTo": {"recipients": ["", 7, "a\u{7}"]}}),
            &[
                ("notification.title", "invalid_type"),
                ("notification.blocks", "invalid_type"),
                ("sendTo.recipients[0]", "empty"),
                ("sendTo.recipients[1]", "invalid_type"),
                ("sendTo.recipients[2]", "invalid_character"),
            ],
        ),
        (
            json!({"notification": title, "sendTo": recipients, "data": {"a": "\u{0}", "b": 1e300}}),
            &[("data.a", "invalid_character"), ("data.b", "unsafe_number")],
        ),
        (
            json!({"notification": title, "sendTo": recipients, "sendAt": "soon", "lane": "fast"}),
            &[("sendAt", "invalid_time"), ("lane", "unknown_value")],
        ),
        (
            json!({"notification": title, "sendTo": recipients, "onUnknownRecipient": "reject"}),
            &[("sendTo.recipients", "unknown_recipient")],
        ),
    ];
    for (body, expected) in cases {
        service.by(&shop, SEND).json(&body).send().await.has_problems(expected);
    }
    assert_eq!(service.sends().await, 0, "a refused send was published");
}

#[tokio::test]
async fn strict_handling_refuses_every_recipient_and_channel_that_a_send_could_only_skip() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.by(&shop, "PUT /v3/users/ada").send().await.is(200);
    let strict = async |recipients: Value, more: Value| {
        let mut body = json!({"notification": {"title": "Hi"}, "sendTo": {"recipients": recipients}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        service.by(&shop, SEND).header("Prefer", "handling=strict").json(&body).send().await
    };
    strict(json!(["ada", {"identifier": "bob"}]), json!({})).await.is(202);
    let unknown = strict(json!(["ada", "bab", "cyd"]), json!({})).await;
    let problem = ("sendTo.recipients", "unknown_recipient");
    unknown.has_problems(&[problem, problem]);
    assert!(unknown.body["message"][0].as_str().unwrap().contains("\"bab\""), "{}", unknown.body);
    strict(json!(["bab"]), json!({"onUnknownRecipient": "skip"})).await.is(202);
    strict(json!(["bab"]), json!({"onUnknownRecipient": "reject"})).await.has_problems(&[problem]);

    for &channel in Channel::ALL {
        let named =
            strict(json!(["ada"]), json!({"override": {"channels": ["inApp", channel.as_str()]}})).await;
        if channel.is_delivered() {
            named.is(202);
        } else {
            named.has_problems(&[("override.channels[1]", "channel_unavailable")]);
        }
    }
    let wrong = strict(json!(["ada"]), json!({"override": {"channels": ["mail"]}})).await;
    wrong.has_problems(&[("override.channels[0]", "unknown_channel")]);
    let message = wrong.body["message"][0].as_str().unwrap();
    for &channel in Channel::ALL {
        assert_eq!(message.contains(channel.as_str()), channel.is_delivered(), "{channel}: {message}");
    }
}

#[tokio::test]
async fn a_template_must_exist_and_is_not_cached() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let send =
        |name: &str| json!({"notification": {"templateIdentifier": name}, "sendTo": {"recipients": ["ada"]}});
    let unknown = service.by(&shop, SEND).json(&send("welcome")).send().await;
    unknown.has_problems(&[("notification.templateIdentifier", "unknown_template")]);
    let by_number = json!({"notification": {"templateId": 7}, "sendTo": {"recipients": ["ada"]}});
    let unknown = service.by(&shop, SEND).json(&by_number).send().await;
    unknown.has_problems(&[("notification.templateId", "unknown_template")]);

    let channels = json!({"inApp": {"title": "Welcome"}});
    let template = store::control::template::NewTemplate {
        identifier: "welcome",
        name: "Welcome",
        category: None,
        channels: &channels,
        mjml: None,
    };
    service.context.store.control().put_template(shop.id, template, &Actor::System).await.unwrap();
    service.by(&shop, SEND).json(&send("welcome")).send().await.is(202);
    let foreign = service.by(&bank, SEND).json(&send("welcome")).send().await;
    foreign.has_problems(&[("notification.templateIdentifier", "unknown_template")]);
}

#[tokio::test]
async fn a_dry_run_is_never_sent() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let dry = |query: &str| service.by(&shop, &format!("{SEND}{query}")).json(&plain_send(&["ada"])).send();
    dry("?dryRun=true").await.is(200);
    dry("?dryRun=yes").await.has_problems(&[("dryRun", "unknown_value")]);
    dry("?dryRun=true&dryRun=false").await.has_problems(&[("dryRun", "repeated")]);
    assert_eq!(service.sends().await, 0);
    dry("?dryRun=false").await.is(202);
}

#[tokio::test]
async fn strict_handling_refuses_unknown_members_of_a_send() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let mut body = plain_send(&["ada"]);
    body["sendto"] = json!({});
    service.by(&shop, SEND).json(&body).send().await.is(202);
    for prefer in ["handling=strict", "respond-async, Handling=\"strict\""] {
        let strict = service.by(&shop, SEND).header("Prefer", prefer).json(&body).send().await;
        strict.has_problems(&[("sendto", "unknown_member")]);
    }
    service.by(&shop, SEND).header("Prefer", "handling=lenient").json(&body).send().await.is(202);
}

#[tokio::test]
async fn unknown_recipients_are_refused_if_the_send_requests_it() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.by(&shop, "POST /v3/users").json(&json!({"identifier": "ada"})).send().await.is(200);
    let mut body = plain_send(&["ada"]);
    body["onUnknownRecipient"] = json!("reject");
    service.by(&shop, SEND).json(&body).send().await.is(202);
    body["sendTo"]["recipients"] = json!(["ada", "eve", "mallory", {"identifier": "bob", "name": "Bob"}]);
    let answer = service.by(&shop, SEND).json(&body).send().await;
    answer.has_problems(&[
        ("sendTo.recipients", "unknown_recipient"),
        ("sendTo.recipients", "unknown_recipient"),
    ]);
    assert!(answer.body["message"][1].as_str().unwrap().contains("mallory"));
}

#[tokio::test]
async fn large_sends_and_sends_that_request_it_use_the_bulk_lane() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let mut bulk = plain_send(&["ada"]);
    bulk["lane"] = json!("bulk");
    service.by(&shop, SEND).json(&bulk).send().await.is(202);
    let many: Vec<String> = (0..101).map(|number| format!("user-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    service.by(&shop, SEND).json(&plain_send(&many)).send().await.is(202);
    service.by(&shop, SEND).json(&plain_send(&many[1..])).send().await.is(202);
    let held = |lane| service.context.log.state(domain::StreamName::Send(lane));
    assert_eq!(held(domain::Lane::Bulk).await.unwrap().messages, 2);
    assert_eq!(held(domain::Lane::Transactional).await.unwrap().messages, 1);
}

#[tokio::test]
async fn a_scheduled_send_waits() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let mut body = plain_send(&[]);
    body["sendTo"]["recipients"] = json!([{"identifier": "ada", "name": "Ada"}]);
    body["sendAt"] = json!((service_kit::clock::now() + std::time::Duration::from_secs(3600)).to_string());
    let receipt = service.by(&shop, SEND).json(&body).send().await.is(202);
    let id = receipt["requestId"].as_str().unwrap();
    let request = service.request(&shop, id).await;
    assert_eq!((&request["status"], &request["sendAt"]), (&json!("scheduled"), &body["sendAt"]));
    assert!(titles(&service.list(&shop, "ada", "").await).is_empty());
}
