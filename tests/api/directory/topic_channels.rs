//! The channels of subscriptions to topics, and the ids of topics.

use serde_json::{Value, json};
use testkit::eventually;

use crate::service::{App, Backing, SOON, Service};

const ALL: [&str; 5] = ["inApp", "email", "webPush", "mobilePush", "sms"];

/// Creates a topic with these subscribers, and returns its id.
async fn topic(service: &Service, app: &App, identifier: &str, users: Value) -> String {
    let body = json!({"identifier": identifier, "name": identifier, "open": identifier == "open"});
    let id = service.by(app, "POST /v3/topics").json(&body).send().await.is(200)["id"].to_string();
    let add = service.by(app, &format!("POST /v3/topics/{id}/users"));
    add.json(&json!({"users": users})).send().await.is(200);
    id
}

/// Sends to a topic and returns the reason or the status of each pair of a user, by channel.
async fn planned(service: &Service, app: &App, body: Value, user: &str) -> Value {
    let request = service.by(app, "POST /v3/notifications").json(&body).send().await.is(202);
    let request = request["requestId"].as_str().unwrap();
    eventually(SOON, "the request is completed", async || {
        let answer = service.request(app, request).await;
        (answer["status"] == "completed").then_some(())
    })
    .await;
    let path = format!("GET /v3/requests/{request}/deliveries?recipient={user}");
    let rows = service.by(app, &path).send().await.is(200);
    let pair = |row: &Value| (row["channel"].as_str().unwrap().to_owned(), row["reason"].clone());
    Value::Object(rows["data"].as_array().unwrap().iter().map(pair).collect())
}

fn send_to(topics: &[&str]) -> Value {
    json!({"notification": {"title": "News"}, "sendTo": {"topics": topics},
           "override": {"channels": ["inApp", "sms"]}})
}

#[tokio::test]
async fn a_topic_reaches_a_subscriber_on_the_channels_of_the_subscription_only() {
    let service = Service::start().await;
    let app = service.app("shop").await;
    let users = json!([{"identifier": "ada", "channels": ["sms", "email"]}, {"identifier": "bob"}]);
    topic(&service, &app, "news", users).await;
    topic(&service, &app, "sport", json!([{"identifier": "ada", "channels": ["inApp"]}])).await;
    let by_ada = planned(&service, &app, send_to(&["news"]), "ada").await;
    assert_eq!((&by_ada["inApp"], &by_ada["sms"]), (&json!("topic_channel_off"), &json!("no_provider")));
    assert_eq!(planned(&service, &app, send_to(&["news"]), "bob").await["inApp"], Value::Null);
    // Each of the send's topics may reach the user on its channels.
    assert_eq!(planned(&service, &app, send_to(&["news", "sport"]), "ada").await["inApp"], Value::Null);
    // A send that names the user does not need the topic.
    let mut named = send_to(&["news"]);
    named["sendTo"]["recipients"] = json!(["ada"]);
    assert_eq!(planned(&service, &app, named, "ada").await["inApp"], Value::Null);
    let list = service.of(&app, "ada", "GET /v3/notifications").send().await.is(200);
    assert_eq!(list["pagination"]["totalCount"], 2);
}

#[tokio::test]
async fn the_channels_do_not_apply_to_critical_categories_and_preferences_come_first() {
    let service = Service::start().await;
    let app = service.app("shop").await;
    topic(&service, &app, "news", json!([{"identifier": "ada", "channels": []}])).await;
    for (identifier, critical) in [("alarms", true), ("offers", false)] {
        let body = json!({"identifier": identifier, "name": identifier, "critical": critical});
        let category = service.by(&app, "POST /v3/categories").json(&body).send().await.is(200)["id"].clone();
        let off = json!([{"channel": "inApp", "enabled": false}]);
        let body = json!({"preference": [{"categoryId": category, "channels": off}]});
        service.of(&app, "ada", "PATCH /v3/preferences").json(&body).send().await.is(200);
    }
    let with = |category: &str| {
        let mut body = send_to(&["news"]);
        body["category"] = json!(category);
        body
    };
    assert_eq!(planned(&service, &app, with("alarms"), "ada").await["inApp"], Value::Null);
    assert_eq!(planned(&service, &app, with("offers"), "ada").await["inApp"], "preference_off");
    assert_eq!(planned(&service, &app, with("others"), "ada").await["inApp"], "topic_channel_off");
    let mut run =
        service.by(&app, "POST /v3/notifications?dryRun=true").json(&with("others")).send().await.is(200);
    assert_eq!(run["counts"]["inApp"].take(), json!({"skipped": 1}));
}

#[tokio::test]
async fn a_person_mutes_a_topic_on_one_channel() {
    let service = Service::start().await;
    let app = service.app("shop").await;
    topic(&service, &app, "open", json!([])).await;
    topic(&service, &app, "closed", json!([{"identifier": "ada"}])).await;
    let own = async |user: &str, topic: &str| {
        service.of(&app, user, &format!("GET /v3/topics/{topic}/subscription")).send().await
    };
    let set = async |user: &str, topic: &str, body: Value| {
        service.of(&app, user, &format!("PUT /v3/topics/{topic}/subscription")).json(&body).send().await
    };
    let before = own("ada", "open").await.is(200);
    assert_eq!((&before["subscribed"], &before["channels"]), (&json!(false), &Value::Null));
    set("ada", "open", json!({"channels": ["push", "inApp"]})).await.is(200);
    let channels = json!(["inApp", "webPush", "mobilePush"]);
    let muted = own("ada", "open").await.is(200);
    assert_eq!((&muted["topic"]["identifier"], &muted["subscribed"]), (&json!("open"), &json!(true)));
    assert_eq!(muted["channels"], channels);
    for kept in [json!({}), json!({"channels": null}), Value::Null] {
        set("ada", "open", kept).await.is(200);
        assert_eq!(own("ada", "open").await.is(200)["channels"], channels);
    }
    // A subscriber may set the channels of a topic that is not open. Other users learn nothing about it.
    set("ada", "closed", json!({"channels": ["email"]})).await.is(200);
    set("bob", "closed", json!({"channels": ["email"]})).await.fails(404, "not_found");
    own("bob", "closed").await.fails(404, "not_found");
    own("ada", "unknown").await.fails(404, "not_found");
    let listed = service.of(&app, "ada", "GET /v3/topics").send().await.is(200);
    assert_eq!((&listed[0]["channels"], &listed[1]["channels"]), (&channels, &json!(["email"])));
    let by_ada = planned(&service, &app, send_to(&["closed"]), "ada").await;
    assert_eq!(by_ada["inApp"], "topic_channel_off");
    // A backend that subscribes the user again does not undo the choice, unless it names channels.
    let again = async |users: Value| {
        let call = service.by(&app, "POST /v3/topics/closed/users").json(&json!({"users": users}));
        call.send().await.is(200)["data"][0]["status"].clone()
    };
    assert_eq!(again(json!([{"identifier": "ada"}])).await, "alreadySubscribed");
    assert_eq!(own("ada", "closed").await.is(200)["channels"], json!(["email"]));
    again(json!([{"identifier": "ada", "channels": ["sms"]}, {"identifier": "ada", "channels": ALL}])).await;
    assert_eq!(own("ada", "closed").await.is(200)["channels"], json!(ALL));
}

#[tokio::test]
async fn digits_are_an_identifier_first_and_then_an_id() {
    let service = Service::start_with(Backing::Nothing).await;
    let app = service.app("shop").await;
    let id = topic(&service, &app, "news", json!([{"identifier": "ada"}])).await;
    let read = |topic: &str| service.by(&app, &format!("GET /v3/topics/{topic}")).send();
    assert_eq!(read(&id).await.is(200)["identifier"], "news");
    let subscribers = service.by(&app, &format!("GET /v3/topics/{id}/subscriptions")).send().await.is(200);
    assert_eq!(subscribers[0]["identifier"], "ada");
    for unknown in ["9007199254740991", "99999999999999999999"] {
        read(unknown).await.fails(404, "not_found");
    }
    // A call that creates the topic it names never changes the topic with that id.
    service.by(&app, &format!("PUT /v3/topics/{id}")).json(&json!({"name": "Digits"})).send().await.is(200);
    assert_eq!(read(&id).await.is(200)["identifier"], id.as_str());
    assert_eq!(read("news").await.is(200)["name"], "news");
    service.by(&app, &format!("DELETE /v3/topics/{id}")).send().await.is(200);
    assert_eq!(read(&id).await.is(200)["identifier"], "news");
}

/// A call, its body, and the problems with their fields and codes.
type Case<'a> = (&'a str, Value, &'a [(&'a str, &'a str)]);

#[tokio::test]
async fn every_problem_of_the_calls_of_server_clients_is_named() {
    let service = Service::start_with(Backing::Nothing).await;
    let app = service.app("shop").await;
    topic(&service, &app, "news", json!([{"identifier": "ada"}])).await;
    let many = vec![json!({"identifier": "ada"}); 1_001];
    let cases: [Case; 8] = [
        ("POST /v3/topics", json!({}), &[("identifier", "required"), ("name", "required")]),
        (
            "POST /v3/topics",
            json!({"identifier": "a b", "name": ""}),
            &[("identifier", "invalid_topic"), ("name", "empty")],
        ),
        ("PATCH /v3/topics/news", json!({"name": 7}), &[("name", "invalid_type")]),
        (
            "POST /v3/topics/news/users",
            json!({"users": [{"identifier": "bob", "channels": ["mail"]}, "eve", {"channels": ["email"]}]}),
            &[
                ("users[0].channels[0]", "unknown_channel"),
                ("users[1]", "invalid_type"),
                ("users[2].identifier", "required"),
            ],
        ),
        ("POST /v3/topics/news/users", json!({"users": many}), &[("users", "too_many")]),
        ("POST /v3/topics/news/detachUsers", json!({"users": [7]}), &[("users[0]", "invalid_type")]),
        ("PUT /v3/topics/news/users/ada", json!({}), &[("channels", "required")]),
        ("PUT /v3/topics/news/users/ada", json!({"channels": "email"}), &[("channels", "invalid_type")]),
    ];
    for (call, body, problems) in cases {
        service.by(&app, call).json(&body).send().await.has_problems(problems);
    }
    let own = service.of(&app, "ada", "PUT /v3/topics/news/subscription").json(&json!({"channels": [1]}));
    own.send().await.has_problems(&[("channels[0]", "unknown_channel")]);
    service.by(&app, "GET /v3/users/bob").send().await.fails(404, "not_found");
    for call in ["POST /v3/topics/news/users", "PUT /v3/topics/news/users/ada", "PATCH /v3/topics/news"] {
        service.of(&app, "ada", call).json(&json!({})).send().await.fails(401, "secret_required");
    }
}
