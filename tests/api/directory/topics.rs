//! `/v3/topics`, and the subscriptions of users to topics.

use domain::Actor;
use std::num::NonZeroU32;

use domain::app_setting::AppSetting;
use serde_json::{Value, json};
use testkit::eventually;

use crate::client::{Answer, Call};
use crate::service::{App, Backing, SOON, Service};

async fn put(service: &Service, app: &App, topic: &str, body: &Value) -> Value {
    service.by(app, &format!("PUT /v3/topics/{topic}")).json(body).send().await.is(200)
}

/// Sends a change of a topic's subscriptions.
async fn change(service: &Service, app: &App, topic: &str, body: &Value) -> Answer {
    service.by(app, &format!("POST /v3/topics/{topic}/subscriptions")).json(body).send().await
}

async fn create_users(service: &Service, app: &App, users: &[&str]) {
    for user in users {
        service.by(app, "POST /v3/users").json(&json!({"identifier": user})).send().await.is(200);
    }
}

/// Returns this member of each element of a list.
fn each(list: &Value, member: &str) -> Vec<Value> {
    list.as_array().unwrap().iter().map(|element| element[member].clone()).collect()
}

async fn subscribers(service: &Service, app: &App, topic: &str) -> Vec<Value> {
    let call = service.by(app, &format!("GET /v3/topics/{topic}/subscriptions"));
    each(&call.send().await.is(200), "identifier")
}

/// Reads a list page by page, by following the links of the answers.
async fn pages(call: impl Fn(&str) -> Call, first: &str) -> Vec<Value> {
    let (mut path, mut pages) = (first.to_owned(), Vec::new());
    loop {
        let answer = call(&format!("GET {path}")).send().await;
        let link = answer.header("link").map(str::to_owned);
        pages.push(answer.is(200));
        let Some(link) = link else { return pages };
        path = link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap().to_owned();
    }
}

#[tokio::test]
async fn topics_are_created_changed_and_deleted() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let plain = service.by(&shop, "PUT /v3/topics/news").send().await.is(200);
    assert_eq!(
        (&plain["identifier"], &plain["name"], &plain["open"], &plain["subscribed"]),
        (&json!("news"), &json!("news"), &json!(false), &Value::Null)
    );
    assert_eq!(put(&service, &shop, "news", &json!({})).await, plain, "an empty change changes nothing");
    assert_eq!(put(&service, &shop, "news", &json!({"name": "news", "open": null})).await, plain);
    let named = put(&service, &shop, "news", &json!({"name": "News, weekly"})).await;
    assert_eq!((&named["name"], &named["open"]), (&json!("News, weekly"), &json!(false)));
    let open = put(&service, &shop, "news", &json!({"open": true})).await;
    assert_eq!((&open["name"], &open["open"]), (&json!("News, weekly"), &json!(true)));
    assert_eq!(open["createdAt"], plain["createdAt"]);
    let sport = put(&service, &shop, "Sport:EU.1_x-y", &json!({"name": "Sport", "open": false})).await;

    let read = |app, path: &str| service.by(app, &format!("GET {path}")).send();
    assert_eq!(read(&shop, "/v3/topics/news").await.is(200), open);
    assert_eq!(read(&shop, "/v3/topics").await.is(200), json!([open, sport]));
    assert_eq!(read(&bank, "/v3/topics").await.is(200), json!([]));
    for call in ["GET /v3/topics/news", "GET /v3/topics/news/subscriptions", "DELETE /v3/topics/news"] {
        service.by(&bank, call).send().await.fails(404, "not_found");
        service.of(&shop, "ada", call).send().await.fails(401, "secret_required");
    }

    let deleted = service.by(&shop, "DELETE /v3/topics/news").send().await.is(200);
    assert_eq!(deleted["statusCode"], 200);
    service.by(&shop, "DELETE /v3/topics/news").send().await.fails(404, "not_found");
    read(&shop, "/v3/topics/news").await.fails(404, "not_found");
    assert_eq!(read(&shop, "/v3/topics").await.is(200), json!([sport]));
}

#[tokio::test]
async fn every_problem_of_a_topic_is_named() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let put = |topic: &str| service.by(&shop, &format!("PUT /v3/topics/{topic}"));
    for topic in ["a%20b", "a%2Fb", "%C3%A9", "a,b", "%FF", &"x".repeat(256)] {
        let answer = put(topic).json(&json!({})).send().await;
        answer.has_problems(&[("topic", "invalid_topic")]);
        let message = answer.body["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains("1 to 255 of the characters A-Z a-z 0-9 : . _ -"), "{message}");
    }
    put(&"x".repeat(255)).json(&json!({})).send().await.is(200);
    let cases: [(Value, &[(&str, &str)]); 4] = [
        (json!("News"), &[("", "invalid_type")]),
        (json!({"name": "", "open": "yes"}), &[("name", "empty"), ("open", "invalid_type")]),
        (json!({"name": "x".repeat(256), "open": 1}), &[("name", "too_long"), ("open", "invalid_type")]),
        (json!({"name": 7}), &[("name", "invalid_type")]),
    ];
    for (body, expected) in cases {
        put("news").json(&body).send().await.has_problems(expected);
    }
    let strict = put("news").header("Prefer", "handling=strict").json(&json!({"closed": true})).send().await;
    strict.has_problems(&[("closed", "unknown_member")]);
}

#[tokio::test]
async fn a_change_of_subscriptions_reports_the_result_of_each_user() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    create_users(&service, &shop, &["ada", "bob", "eve"]).await;
    create_users(&service, &bank, &["zoe"]).await;
    let result = |identifier: &str, status: &str| json!({"identifier": identifier, "status": status});

    change(&service, &shop, "news", &json!({"remove": ["ada"]})).await.fails(404, "not_found");
    let first = change(&service, &shop, "news", &json!({"add": ["bob", "ada", "zoe", "bob"]})).await.is(200);
    let expected = [result("bob", "subscribed"), result("ada", "subscribed"), result("zoe", "unknownUser")];
    assert_eq!(first, json!({"subscribed": 2, "unsubscribed": 0, "data": expected}));
    let topic = service.by(&shop, "GET /v3/topics/news").send().await.is(200);
    assert_eq!((&topic["name"], &topic["open"]), (&json!("news"), &json!(false)), "the topic was created");

    let listed = service.by(&shop, "GET /v3/topics/news/subscriptions").send().await.is(200);
    assert_eq!(each(&listed, "identifier"), ["ada", "bob"]);
    let body = json!({"add": ["ada", "eve"], "remove": ["bob", "zoe"]});
    let second = change(&service, &shop, "news", &body).await.is(200);
    let expected = [
        result("ada", "alreadySubscribed"),
        result("eve", "subscribed"),
        result("bob", "unsubscribed"),
        result("zoe", "unknownUser"),
    ];
    assert_eq!(second, json!({"subscribed": 1, "unsubscribed": 1, "data": expected}));
    let third = change(&service, &shop, "news", &json!({"remove": ["bob"]})).await.is(200);
    assert_eq!(third, json!({"subscribed": 0, "unsubscribed": 0, "data": [result("bob", "notSubscribed")]}));
    let again = service.by(&shop, "GET /v3/topics/news/subscriptions").send().await.is(200);
    assert_eq!(each(&again, "identifier"), ["ada", "eve"]);
    assert_eq!(again[0], listed[0], "an existing subscription keeps its time");
    let of_ada = service.by(&shop, "GET /v3/users/ada/topics").send().await.is(200);
    let expected = json!([{
        "id": topic["id"], "identifier": "news", "name": "news", "open": false,
        "channels": ["inApp", "email", "webPush", "mobilePush", "sms"], "subscribedAt": listed[0]["subscribedAt"],
    }]);
    assert_eq!(of_ada, expected);
    assert_eq!(service.by(&shop, "GET /v3/users/bob/topics").send().await.is(200), json!([]));
    service.by(&shop, "GET /v3/users/zoe/topics").send().await.fails(404, "not_found");

    let empty = change(&service, &shop, "news", &json!({"add": []})).await.is(200);
    assert_eq!(empty, json!({"subscribed": 0, "unsubscribed": 0, "data": []}));
    let alone = change(&service, &bank, "news", &json!({"add": ["zoe"]})).await.is(200);
    assert_eq!(alone["subscribed"], 1);
    assert_eq!(subscribers(&service, &bank, "news").await, ["zoe"]);
    assert_eq!(subscribers(&service, &shop, "news").await, ["ada", "eve"]);
}

#[tokio::test]
async fn every_problem_of_a_change_of_subscriptions_is_named() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    create_users(&service, &shop, &["ada"]).await;
    let many: Vec<_> = (0..501).map(|number| format!("u{number}")).collect();
    let cases: [(Value, &[(&str, &str)]); 7] = [
        (json!({}), &[("add", "required")]),
        (json!({"add": null, "remove": null}), &[("add", "required")]),
        (json!({"add": "ada", "remove": {}}), &[("add", "invalid_type"), ("remove", "invalid_type")]),
        (
            json!({"add": ["ada", 7, "", "x".repeat(256)]}),
            &[("add[1]", "invalid_type"), ("add[2]", "empty"), ("add[3]", "too_long")],
        ),
        (json!({"add": ["bob", "ada"], "remove": ["eve", "ada"]}), &[("remove[1]", "conflicting")]),
        (json!({"add": many, "remove": many[..500]}), &[("add", "too_many")]),
        (json!({"remove": vec!["ada"; 1001]}), &[("remove", "too_many")]),
    ];
    for (body, expected) in cases {
        change(&service, &shop, "news", &body).await.has_problems(expected);
    }
    change(&service, &shop, "a%20b", &json!({"add": ["ada"]}))
        .await
        .has_problems(&[("topic", "invalid_topic")]);
    let strict = service.by(&shop, "POST /v3/topics/news/subscriptions").header("Prefer", "handling=strict");
    let strict = strict.json(&json!({"add": ["ada"], "users": []})).send().await;
    strict.has_problems(&[("users", "unknown_member")]);
    service.by(&shop, "GET /v3/topics/news").send().await.fails(404, "not_found");
    let most = json!({"add": many[..500], "remove": many[500..]});
    let answer = change(&service, &shop, "news", &most).await.is(200);
    assert_eq!(answer["data"].as_array().unwrap().len(), 501);
}

#[tokio::test]
async fn lists_of_topics_and_subscribers_are_paged() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let (users, topics) = (["ada", "bob", "a/ü b"], ["one", "two", "three"]);
    create_users(&service, &shop, &users).await;
    for topic in topics {
        put(&service, &shop, topic, &json!({"open": topic != "two"})).await;
        change(&service, &shop, topic, &json!({"add": users})).await.is(200);
    }
    change(&service, &shop, "two", &json!({"remove": ["ada"]})).await.is(200);
    let by_app = |call: &str| service.by(&shop, call);
    let identifiers = |pages: Vec<Value>| -> Vec<Vec<Value>> {
        pages.iter().map(|page| each(page, "identifier")).collect()
    };
    let listed = identifiers(pages(by_app, "/v3/topics?limit=2").await);
    assert_eq!(listed, [vec!["one", "two"], vec!["three"]]);
    let listed = identifiers(pages(by_app, "/v3/topics/one/subscriptions?limit=1").await);
    assert_eq!(listed, [["ada"], ["bob"], ["a/ü b"]]);
    let listed = identifiers(pages(by_app, "/v3/users/a%2F%C3%BC%20b/topics?limit=2").await);
    assert_eq!(listed, [vec!["one", "two"], vec!["three"]]);

    // For a user, the list has the open topics only, and every page is for the same user.
    let by_user = |call: &str| service.of(&shop, "ada", call);
    assert_eq!(identifiers(pages(by_user, "/v3/topics?limit=1").await), [["one"], ["three"]]);
    let listed = pages(by_app, "/v3/topics?limit=1&userIdentifier=ada").await;
    assert!(listed.iter().all(|page| page[0]["subscribed"] == true), "{listed:?}");
    assert_eq!(identifiers(listed), [["one"], ["three"]]);

    for list in ["/v3/topics", "/v3/topics/one/subscriptions", "/v3/users/ada/topics"] {
        for (query, problem) in [
            ("limit=0", ("limit", "invalid_number")),
            ("limit=1001", ("limit", "invalid_number")),
            ("cursor=x", ("cursor", "invalid_cursor")),
        ] {
            by_app(&format!("GET {list}?{query}")).send().await.has_problems(&[problem]);
        }
    }
}

#[tokio::test]
async fn users_subscribe_to_open_topics_and_may_leave_every_topic() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    create_users(&service, &shop, &["ada"]).await;
    put(&service, &shop, "open", &json!({"open": true})).await;
    put(&service, &shop, "closed", &json!({})).await;
    put(&service, &shop, "other", &json!({})).await;
    let call = |user: &str, method: &str, topic: &str| {
        service.of(&shop, user, &format!("{method} /v3/topics/{topic}/subscription")).send()
    };
    let seen = async |user: &str| {
        let list = service.of(&shop, user, "GET /v3/topics").send().await.is(200);
        let topics = list.as_array().unwrap().iter();
        let row = |topic: &Value| (topic["identifier"].clone(), topic["subscribed"].clone());
        topics.map(row).collect::<Vec<_>>()
    };
    for method in ["PUT", "DELETE"] {
        let (closed, unknown) = (call("zoe", method, "closed").await, call("zoe", method, "unknown").await);
        assert_eq!(
            (closed.status, closed.body),
            (unknown.status, unknown.body),
            "{method} never tells names"
        );
        call("zoe", method, "a%20b").await.has_problems(&[("topic", "invalid_topic")]);
    }
    assert_eq!(seen("zoe").await, [(json!("open"), json!(false))]);
    service.by(&shop, "GET /v3/users/zoe").send().await.fails(404, "not_found");

    for _ in 0..2 {
        assert_eq!(call("zoe", "PUT", "open").await.is(200)["statusCode"], 200);
    }
    service.by(&shop, "GET /v3/users/zoe").send().await.is(200);
    change(&service, &shop, "closed", &json!({"add": ["zoe", "ada"]})).await.is(200);
    assert_eq!(seen("zoe").await, [(json!("open"), json!(true)), (json!("closed"), json!(true))]);
    assert_eq!(seen("ada").await, [(json!("open"), json!(false)), (json!("closed"), json!(true))]);
    assert_eq!(subscribers(&service, &shop, "open").await, ["zoe"]);

    call("zoe", "PUT", "closed").await.is(200);
    for _ in 0..2 {
        assert_eq!(call("zoe", "DELETE", "closed").await.is(200)["statusCode"], 200);
    }
    call("zoe", "PUT", "closed").await.fails(404, "not_found");
    let by_app = async |topic: &str| {
        let call = service.by(&shop, &format!("PUT /v3/topics/{topic}/subscription"));
        call.header("X-SERVICE-USER-ID", "zoe").send().await
    };
    by_app("closed").await.fails(403, "topic_closed");
    by_app("unknown").await.fails(404, "not_found");
    call("zoe", "DELETE", "open").await.is(200);
    call("eve", "DELETE", "open").await.is(200);
    assert_eq!(seen("zoe").await, [(json!("open"), json!(false))]);
    assert_eq!(subscribers(&service, &shop, "closed").await, ["ada"]);
    service.by(&shop, "GET /v3/users/eve").send().await.fails(404, "not_found");
}

#[tokio::test]
async fn topics_and_subscriptions_stay_within_their_quotas() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let limits =
        [AppSetting::MaxTopics(NonZeroU32::new(2)), AppSetting::MaxSubscriptions(NonZeroU32::new(2))];
    assert!(service.context.store.control().set_settings(shop.id, &limits, &Actor::System).await.unwrap());
    create_users(&service, &shop, &["ada", "bob", "eve"]).await;
    put(&service, &shop, "one", &json!({"open": true})).await;
    let both = json!({"add": ["ada", "bob"]});
    change(&service, &shop, "two", &both).await.is(200);
    service.by(&shop, "PUT /v3/topics/three").send().await.fails(403, "quota_reached");
    change(&service, &shop, "three", &both).await.fails(403, "quota_reached");
    put(&service, &shop, "one", &json!({"name": "One"})).await;

    change(&service, &shop, "one", &json!({"add": ["eve"]})).await.fails(403, "quota_reached");
    change(&service, &shop, "two", &both).await.is(200);
    let refused = change(&service, &shop, "two", &json!({"add": ["eve"], "remove": ["unknown"]})).await;
    refused.fails(403, "quota_reached");
    assert!(refused.body["message"].as_str().unwrap().contains("max-subscriptions"), "{}", refused.body);
    assert_eq!(subscribers(&service, &shop, "two").await, ["ada", "bob"]);
    let subscribe = |user: &str| service.of(&shop, user, "PUT /v3/topics/one/subscription").send();
    subscribe("zoe").await.fails(403, "quota_reached");
    service.by(&shop, "GET /v3/users/zoe").send().await.fails(404, "not_found");
    let swapped = change(&service, &shop, "two", &json!({"add": ["eve"], "remove": ["ada"]})).await.is(200);
    assert_eq!((&swapped["subscribed"], &swapped["unsubscribed"]), (&json!(1), &json!(1)));
    service.by(&shop, "DELETE /v3/users/bob").send().await.is(202);
    subscribe("zoe").await.is(200);
    let counted = "SELECT kind || ' ' || sum(used) FROM app_usage WHERE kind IN ('topics', 'subscriptions')
                   GROUP BY kind ORDER BY kind";
    assert_eq!(service.rows(counted).await, ["subscriptions 2", "topics 2"]);
}

#[tokio::test]
async fn an_erased_user_subscribes_to_no_topic() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    create_users(&service, &shop, &["ada", "bob"]).await;
    change(&service, &shop, "news", &json!({"add": ["ada", "bob"]})).await.is(200);
    service.by(&shop, "DELETE /v3/users/ada").send().await.is(202);
    assert_eq!(subscribers(&service, &shop, "news").await, ["bob"]);
    service.by(&shop, "GET /v3/users/ada/topics").send().await.fails(404, "not_found");
    create_users(&service, &shop, &["ada"]).await;
    assert_eq!(service.by(&shop, "GET /v3/users/ada/topics").send().await.is(200), json!([]));
    assert_eq!(subscribers(&service, &shop, "news").await, ["bob"]);
}

#[tokio::test]
async fn a_topic_that_is_created_again_has_no_subscribers_and_old_subscriptions_are_removed() {
    let mut service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    create_users(&service, &shop, &["ada", "bob", "eve"]).await;
    change(&service, &shop, "news", &json!({"add": ["ada", "bob", "eve"]})).await.is(200);
    service.by(&shop, "DELETE /v3/topics/news").send().await.is(200);
    service.by(&shop, "GET /v3/topics/news/subscriptions").send().await.fails(404, "not_found");
    assert_eq!(service.by(&shop, "GET /v3/users/ada/topics").send().await.is(200), json!([]));
    assert_eq!(service.of(&shop, "ada", "GET /v3/topics").send().await.is(200), json!([]));

    put(&service, &shop, "news", &json!({})).await;
    assert_eq!(subscribers(&service, &shop, "news").await, [""; 0]);
    change(&service, &shop, "news", &json!({"add": ["bob"]})).await.is(200);
    let stored = "SELECT count(*)::text FROM topic_subscription";
    assert_eq!(service.one_text(stored).await, "4");

    // The dispatcher removes the old subscriptions when it starts.
    service.restart(Backing::DispatcherAndInbox).await;
    eventually(SOON, "the old subscriptions are removed", async || {
        (service.one_text("SELECT count(*)::text FROM deleted_topic").await == "0").then_some(())
    })
    .await;
    assert_eq!(service.one_text(stored).await, "1");
    assert_eq!(subscribers(&service, &shop, "news").await, ["bob"]);
    let used = "SELECT sum(used)::text FROM app_usage WHERE kind = 'subscriptions'";
    assert_eq!(service.one_text(used).await, "1");
}
