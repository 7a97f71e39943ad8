//! Sends that lack variables of their template.

use domain::app_setting::AppSetting;
use domain::{Actor, TemplateProfile};
use serde_json::{Value, json};

use crate::service::{App, Backing, SOON, Service};

const SEND: &str = "POST /v3/notifications";

fn send(template: &str, data: &Value, recipients: &Value) -> Value {
    json!({"notification": {"templateIdentifier": template}, "data": data, "sendTo": {"recipients": recipients}})
}

#[tokio::test]
async fn strict_handling_names_every_variable_that_leaves_a_gap_and_no_other() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.by(&shop, "PUT /v3/users/ada").send().await.is(200);
    let channels = json!({
        "inApp": {
            "title": "Order {{ order.id }} for {{ recipient.name }}",
            "message": "{% if note %}{{ note }}{% endif %}{{ greeting | default('Hello') }}{{ app.name }}",
            "data": {"total": "{{ order.total }}"},
        },
        "email": {"subject": "{{ subject }}", "text": "{% for item in items %}{{ item.name }}{% endfor %}"},
        "sms": {"text": "{{ code }}"},
    });
    service.template(&shop, "shipped", None, channels).await;
    let all = json!({"order": {"id": 7, "total": null}, "subject": "", "items": [], "code": 0});
    let without = |name: &str| {
        let mut data = all.clone();
        data.as_object_mut().unwrap().remove(name);
        data
    };
    let own = |data: Value| json!([{"identifier": "ada", "data": data}]);
    let only = |channels: Value| json!({"channels": channels});
    let email = json!({"channel": {"email": {"subject": "Own", "text": "Own"}}});
    let cases: [(Value, Value, Value, &[&str]); 10] = [
        (all.clone(), json!(["ada"]), json!({}), &[]),
        (json!({}), json!(["ada"]), json!({}), &["code", "items", "order.id", "order.total", "subject"]),
        (without("code"), json!(["ada"]), json!({}), &["code"]),
        (json!({}), own(all.clone()), json!({}), &[]),
        (without("code"), own(json!({"code": 1})), json!({}), &[]),
        (all.clone(), own(json!({"order": {"id": 8}})), json!({}), &["order.total"]),
        (
            without("code"),
            json!([{"identifier": "ada", "data": {"code": 1}}, {"identifier": "bob"}]),
            json!({}),
            &["code"],
        ),
        (json!({}), json!(["ada"]), only(json!(["sms"])), &["code"]),
        (without("subject"), json!(["ada"]), email, &[]),
        (without("order"), json!(["ada"]), only(json!(["email", "sms"])), &[]),
    ];
    for (data, recipients, overrides, expected) in cases {
        let mut body = send("shipped", &data, &recipients);
        body["override"] = overrides;
        let answer = service.by(&shop, SEND).header("Prefer", "handling=strict").json(&body).send().await;
        if expected.is_empty() {
            answer.is(202);
        } else {
            let fields: Vec<_> = expected.iter().map(|variable| format!("data.{variable}")).collect();
            answer.has_problems(
                &fields.iter().map(|field| (field.as_str(), "missing_data")).collect::<Vec<_>>(),
            );
        }
        service.by(&shop, SEND).json(&body).send().await.is(202);
    }
}

#[tokio::test]
async fn a_send_with_gaps_is_sent_and_its_request_names_them() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service
        .template(&shop, "shipped", None, json!({"inApp": {"title": "Order {{ order }} of {{ shop.name }}"}}))
        .await;
    let people = json!([
        {"identifier": "ada", "data": {"order": 7}}, {"identifier": "bob"}, {"identifier": "cyd"},
    ]);
    let warnings = async |data: Value, people: &Value| {
        let body = send("shipped", &data, people);
        completed(&service, &shop, &body).await["warnings"].clone()
    };
    let expected = json!([
        {
            "field": "data.order", "code": "missing_data",
            "message": "data.order was missing for 2 recipients; the template shows it",
        },
        {
            "field": "data.shop.name", "code": "missing_data",
            "message": "data.shop.name was missing for 3 recipients; the template shows it",
        },
    ]);
    assert_eq!(warnings(json!({"shop": {}}), &people).await, expected);
    assert_eq!(warnings(json!({"shop": {"name": "S"}, "order": 1}), &people).await, json!([]));
}

#[tokio::test]
async fn a_profile_with_gaps_is_named_with_the_number_of_people() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let named = json!({"app": {"name": "Ada"}, "city": "Bath"});
    service.by(&shop, "PUT /v3/users/ada").json(&named).send().await.is(200);
    for user in ["bob", "cyd"] {
        service.by(&shop, &format!("PUT /v3/users/{user}")).send().await.is(200);
    }
    let text = "{{ recipient.app.name }} {{ recipient.city }} {{ recipient.identifier }} \
                {{ recipient.app.nick | default('you') }}";
    service.template(&shop, "hello", None, json!({"inApp": {"title": text}})).await;
    let missing = |variable: &str, cause: &str, people: &str| {
        let message =
            format!("{variable} was missing in the profile{cause} for {people}; the template shows it");
        json!({"field": variable, "code": "missing_profile", "message": message})
    };
    let hidden = ", or hidden by template-profile=app,";
    let body = send("hello", &json!({}), &json!(["ada", "bob", "cyd", "unknown"]));
    let expected = [
        missing("recipient.app.name", "", "2 recipients"),
        missing("recipient.city", hidden, "2 recipients"),
    ];
    let warnings = &completed(&service, &shop, &body).await["warnings"];
    assert_eq!(warnings.as_array().unwrap()[..2], expected);
    let only_ada = send("hello", &json!({}), &json!(["ada"]));
    assert_eq!(completed(&service, &shop, &only_ada).await["warnings"], json!([]));
    let hides = [AppSetting::TemplateProfile(TemplateProfile::App)];
    service.context.store.control().set_settings(shop.id, &hides, &Actor::System).await.unwrap();
    let expected = json!([missing("recipient.city", hidden, "1 recipient")]);
    assert_eq!(completed(&service, &shop, &only_ada).await["warnings"], expected);
}

#[tokio::test]
async fn the_first_unknown_recipients_are_named() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.by(&shop, "PUT /v3/users/ada").send().await.is(200);
    let mut people: Vec<String> = (0..53).map(|number| format!("stranger-{number}")).collect();
    people.push("ada".to_owned());
    let body = json!({"notification": {"title": "Hi"}, "sendTo": {"recipients": people}});
    let request = completed(&service, &shop, &body).await;
    let warnings = request["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 51, "{request}");
    let message = "sendTo.recipients: the user \"stranger-0\" did not exist";
    let first = json!({"field": "sendTo.recipients", "code": "unknown_recipient", "message": message});
    assert_eq!(warnings[0], first);
    assert!(warnings[50]["message"].as_str().unwrap().contains(" 3 more did not exist"), "{request}");
}

/// Sends, and returns the request once an item is delivered and all deliveries have ended.
async fn completed(service: &Service, shop: &App, body: &Value) -> Value {
    let receipt = service.by(shop, SEND).json(body).send().await.is(202);
    let get = format!("GET /v3/requests/{}", receipt["requestId"].as_str().unwrap());
    let done = testkit::eventually(SOON, "the request is completed", async || {
        let request = service.by(shop, &get).send().await.is(200);
        (request["status"] == "completed").then_some(request)
    });
    let request = done.await;
    assert!(request["counts"]["inApp"]["delivered"].is_number(), "{request}");
    request
}
