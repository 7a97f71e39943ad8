//! `/v3/preferences`, and their effect on sends.

use domain::{Actor, Channel};
use serde_json::{Value, json};
use store::control::provider::{NewProvider, SecretChange};
use testkit::eventually;

use crate::service::{App, Backing, SOON, Service, plain_send};

const PATCH: &str = "PATCH /v3/preferences";

async fn category(service: &Service, app: &App, identifier: &str) -> i64 {
    let body = json!({"identifier": identifier, "name": format!("The {identifier}")});
    let created = service.by(app, "POST /v3/categories").json(&body).send().await.is(200);
    created["id"].as_i64().unwrap()
}

/// Builds a request body that turns channels of one category on or off.
fn choice(category: i64, channels: &[(&str, bool)]) -> Value {
    let channels: Vec<_> =
        channels.iter().map(|(channel, enabled)| json!({"channel": channel, "enabled": enabled})).collect();
    json!({"preference": [{"categoryId": category, "channels": channels}]})
}

#[tokio::test]
async fn only_named_channels_change() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let (orders, news) = (category(&service, &shop, "orders").await, category(&service, &shop, "news").await);
    let get = || service.of(&shop, "ada", "GET /v3/preferences").send();
    assert_eq!(get().await.is(200), json!([]));
    assert_eq!(service.context.store.directory().find_user(shop.id, "ada").await.unwrap(), None);

    let first = choice(news, &[("email", false), ("inApp", true), ("slack", false), ("email", true)]);
    service.of(&shop, "ada", PATCH).json(&first).send().await.is(200);
    let second = json!({"preference": [
        {"categoryId": news, "channels": [{"channel": "inApp", "enabled": false}]},
        {"categoryId": orders, "channels": [{"channel": "sms", "enabled": false}]},
        {"categoryId": news, "channels": null},
        {"categoryId": f64::from(i32::try_from(orders).unwrap()), "channels": [{"channel": "sms", "enabled": true}]},
    ]});
    let answer = service.of(&shop, "ada", "PUT /v3/preferences/").json(&second).send().await.is(200);
    let of_orders = json!([{"channel": "sms", "enabled": true}]);
    let of_news = json!([
        {"channel": "inApp", "enabled": false}, {"channel": "email", "enabled": true}, {"channel": "slack", "enabled": false},
    ]);
    let expected = json!([
        {
            "categoryId": orders, "category": {"id": orders, "name": "The orders", "identifier": "orders"},
            "channels": of_orders, "channelPreferences": of_orders,
        },
        {
            "categoryId": news, "category": {"id": news, "name": "The news", "identifier": "news"},
            "channels": of_news, "channelPreferences": of_news,
        },
    ]);
    assert_eq!(answer, expected);
    assert_eq!(get().await.is(200), expected);
    let by_app = service.by(&shop, "GET /v3/preferences?userIdentifier=ada").send().await.is(200);
    assert_eq!(by_app, expected);
    for (app, user) in [(&shop, "bob"), (&bank, "ada")] {
        let others = service.of(app, user, "GET /v3/preferences").send().await.is(200);
        assert_eq!(others, json!([]), "{user} of {}", app.key);
    }
    let nothing = service.of(&shop, "eve", PATCH).json(&json!({"preference": []})).send().await.is(200);
    assert_eq!(nothing, json!([]));
    assert!(service.context.store.directory().find_user(shop.id, "eve").await.unwrap().is_some());

    service.by(&shop, &format!("DELETE /v3/categories/{news}")).send().await.is(200);
    assert_eq!(get().await.is(200), json!([expected[0]]));
}

#[tokio::test]
async fn every_problem_is_named_and_nothing_is_applied() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let (orders, foreign) =
        (category(&service, &shop, "orders").await, category(&service, &bank, "orders").await);
    let cases: [(Value, &[(&str, &str)]); 9] = [
        (json!({}), &[("preference", "required")]),
        (json!({"preference": null}), &[("preference", "required")]),
        (json!([1]), &[("", "invalid_type")]),
        (json!({"preference": {}}), &[("preference", "invalid_type")]),
        (
            json!({"preference": [7, {}]}),
            &[("preference[0]", "invalid_type"), ("preference[1].categoryId", "required")],
        ),
        (
            json!({"preference": [{"categoryId": "1", "channels": {}}, {"categoryId": 1.5}]}),
            &[
                ("preference[0].categoryId", "invalid_type"),
                ("preference[0].channels", "invalid_type"),
                ("preference[1].categoryId", "invalid_type"),
            ],
        ),
        (
            json!({"preference": [{"categoryId": orders}, {"categoryId": orders, "channels": [
                {"channel": "email", "enabled": false}, {"channel": "pigeon", "enabled": false}, {}, 7,
                {"channel": 7, "enabled": "no"}, {"channel": null, "enabled": null},
            ]}]}),
            &[
                ("preference[1].channels[1].channel", "unknown_channel"),
                ("preference[1].channels[2].channel", "required"),
                ("preference[1].channels[2].enabled", "required"),
                ("preference[1].channels[3]", "invalid_type"),
                ("preference[1].channels[4].channel", "invalid_type"),
                ("preference[1].channels[4].enabled", "invalid_type"),
                ("preference[1].channels[5].channel", "required"),
                ("preference[1].channels[5].enabled", "required"),
            ],
        ),
        (
            json!({"preference": [
                {"categoryId": orders, "channels": [{"channel": "email", "enabled": false}]},
                {"categoryId": foreign}, {"categoryId": 4_000_000_000_i64}, {"categoryId": -1, "channels": 7},
            ]}),
            &[
                ("preference[3].channels", "invalid_type"),
                ("preference[3].categoryId", "unknown_category"),
                ("preference[1].categoryId", "unknown_category"),
                ("preference[2].categoryId", "unknown_category"),
            ],
        ),
        (
            json!({"preference": [{"categoryId": orders, "n": 1e300}]}),
            &[("preference[0].n", "unsafe_number")],
        ),
    ];
    for (body, expected) in cases {
        service.of(&shop, "ada", PATCH).json(&body).send().await.has_problems(expected);
    }
    assert_eq!(service.context.store.directory().find_user(shop.id, "ada").await.unwrap(), None);
}

#[tokio::test]
async fn the_number_of_preferences_in_a_request_is_limited() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let orders = category(&service, &shop, "orders").await;
    let set =
        |elements: Vec<Value>| service.of(&shop, "ada", PATCH).json(&json!({"preference": elements})).send();
    let many = |count| vec![json!({"categoryId": orders}); count];
    set(many(1_001)).await.has_problems(&[("preference", "too_many")]);
    set(many(1_000)).await.is(200);
    let channels = |count| {
        let channel = json!({"channel": "sms", "enabled": false});
        vec![json!({"categoryId": orders, "channels": vec![channel; count]})]
    };
    set(channels(101)).await.has_problems(&[("preference[0].channels", "too_many")]);
    set(channels(100)).await.is(200);
}

#[tokio::test]
async fn strict_handling_refuses_unknown_members_and_wrong_calls_fail() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let orders = category(&service, &shop, "orders").await;
    let strict = service.of(&shop, "ada", PATCH).header("Prefer", "handling=strict");
    let body = json!({
        "preference": [{"categoryId": orders, "category": {}, "channels": [{"channel": "sms", "enabled": true, "on": true}]}],
        "user": "ada",
    });
    strict.json(&body).send().await.has_problems(&[
        ("user", "unknown_member"),
        ("preference[0].channels[0].on", "unknown_member"),
        ("preference[0].category", "unknown_member"),
    ]);
    let bare = service.call(PATCH).header("X-SERVICE-API-KEY", &shop.key).send().await;
    bare.fails(401, "user_required");
    service.of(&shop, "ada", PATCH).body("x", "text/plain").send().await.fails(415, "unsupported_media_type");
    service.of(&shop, "ada", "POST /v3/preferences").send().await.fails(405, "method_not_allowed");
    assert_eq!(service.context.store.directory().find_user(shop.id, "ada").await.unwrap(), None);
}

/// Makes a send. Returns, for each channel, the reason why the send skips ada there, or null if it does not.
async fn skipped(service: &Service, app: &App, send: &Value) -> Value {
    let receipt = service.by(app, "POST /v3/notifications").json(send).send().await.is(202);
    let path = format!("GET /v3/requests/{}/deliveries", receipt["requestId"].as_str().unwrap());
    eventually(SOON, "the send is planned", async || {
        let answer = service.by(app, &path).send().await;
        let deliveries = answer.body["data"].as_array().filter(|rows| !rows.is_empty())?.clone();
        let by_channel =
            deliveries.into_iter().filter(|row| row["channel"] == "email" || row["channel"] == "inApp");
        let rows = by_channel.map(|row| (row["channel"].as_str().unwrap().to_owned(), row["reason"].clone()));
        Some(Value::Object(rows.collect()))
    })
    .await
}

#[tokio::test]
async fn a_send_honours_what_the_user_turned_off() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let provider = NewProvider {
        identifier: "main",
        channel: Channel::Email,
        kind: "smtp",
        priority: 1,
        enabled: true,
        settings: &json!({}),
        secret: SecretChange::Remove,
        max_per_second: None,
    };
    service.context.store.control().put_provider(shop.id, provider, &Actor::System).await.unwrap();
    let ada = json!({"identifier": "ada", "profile": {"email": "ada@example.com"}});
    service.by(&shop, "POST /v3/users").json(&ada).send().await.is(200);
    let orders = category(&service, &shop, "orders").await;
    category(&service, &shop, "news").await;
    let alarms = json!({"identifier": "alarms", "name": "Alarms", "critical": true});
    let alarms = service.by(&shop, "POST /v3/categories").json(&alarms).send().await.is(200);
    let alarms = alarms["id"].as_i64().unwrap();
    let set = async |body: Value| service.of(&shop, "ada", PATCH).json(&body).send().await.is(200);
    let sent = async |category: Option<&str>| {
        let mut send = plain_send(&["ada"]);
        send["category"] = json!(category);
        skipped(&service, &shop, &send).await
    };
    let everything = json!({"inApp": null, "email": null});
    set(choice(orders, &[("email", false)])).await;
    set(choice(alarms, &[("email", false), ("inApp", false)])).await;
    assert_eq!(sent(Some("orders")).await, json!({"inApp": null, "email": "preference_off"}));
    assert_eq!(sent(Some("news")).await, everything);
    assert_eq!(sent(Some("alarms")).await, everything, "preferences do not apply to critical categories");
    assert_eq!(sent(None).await, everything, "preferences do not apply without a category");
    set(choice(orders, &[("email", true), ("inApp", false)])).await;
    assert_eq!(sent(Some("orders")).await, json!({"inApp": "preference_off", "email": null}));
    let listed = async || {
        let list = service.list(&shop, "ada", "").await;
        (list["data"].as_array().unwrap().len() == 4).then_some(())
    };
    eventually(SOON, "the four notifications in the inbox are listed", listed).await;
}
