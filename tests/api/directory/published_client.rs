//! The calls of topics and workflows that a published server client makes: its paths, bodies and header prefix, with each base URL.

use serde_json::{Value, json};

use crate::client::{Answer, Call};
use crate::service::{App, Backing, Service};

/// A server client with a base URL.
struct Client<'a> {
    service: &'a Service,
    app: &'a App,
    base: &'static str,
}

impl Client<'_> {
    fn call(&self, method: &str, path: &str) -> Call {
        let call = self.service.call(&format!("{method} {}{path}", self.base));
        call.header("X-SERVICE-API-KEY", &self.app.key).header("X-SERVICE-API-SECRET", &self.app.secret)
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.call(method, path).json(body).send().await
    }

    /// Creates a topic. Like the published client, derives the identifier from the name.
    async fn create(&self, name: &str) -> Answer {
        let identifier = name.to_lowercase().split_whitespace().collect::<Vec<_>>().join("-");
        self.send("POST", "/topics", &json!({"name": name, "identifier": identifier})).await
    }

    /// Lists the subscriptions of a user: the name of each topic and the channels.
    async fn subscriptions(&self, user: &str) -> Value {
        let listed = self.call("GET", &format!("/topics/subscriptions/{user}")).send().await.is(200);
        let pairs = listed.as_array().unwrap().iter();
        pairs.map(|subscription| json!([subscription["topic"]["name"], subscription["channels"]])).collect()
    }
}

#[tokio::test]
async fn each_call_works_with_and_without_the_version_in_the_base_url() {
    let service = Service::start_with(Backing::Nothing).await;
    for base in ["/v3", ""] {
        let app = service.app(&format!("shop{}", base.len())).await;
        let client = Client { service: &service, app: &app, base };
        let topic = client.create("Release  News").await.is(200);
        assert_eq!((&topic["identifier"], &topic["name"]), (&json!("release-news"), &json!("Release  News")));
        // Larger than the numbers that apps use as identifiers, and exact in JavaScript.
        let id = topic["id"].as_u64().filter(|id| (1_000_000_000_000..1 << 53).contains(id)).unwrap();
        client.create("Release News").await.fails(409, "topic_exists");

        let renamed = client.send("PATCH", &format!("/topics/{id}"), &json!({"name": "News"})).await.is(200);
        assert_eq!((&renamed["id"], &renamed["name"]), (&json!(id), &json!("News")));

        let users = json!({"users": [
            {"identifier": "user1", "channels": ["email", "push"]}, {"identifier": "user2"},
        ]});
        let added = client.send("POST", &format!("/topics/{id}/users"), &users).await.is(200);
        assert_eq!((&added["subscribed"], &added["data"][0]["status"]), (&json!(2), &json!("subscribed")));
        assert_eq!(
            client.subscriptions("user1").await,
            json!([["News", ["email", "webPush", "mobilePush"]]])
        );
        let all = json!(["inApp", "email", "webPush", "mobilePush", "sms"]);
        assert_eq!(client.subscriptions("user2").await, json!([["News", all]]));

        let channels = json!({"channels": ["inApp"]});
        client.send("PUT", &format!("/topics/{id}/users/user2"), &channels).await.is(200);
        assert_eq!(client.subscriptions("user2").await, json!([["News", ["inApp"]]]));

        let detached = client
            .send("POST", &format!("/topics/{id}/detachUsers"), &json!({"users": ["user1"]}))
            .await
            .is(200);
        assert_eq!(detached["unsubscribed"], 1);
        assert_eq!(client.subscriptions("user1").await, json!([]));
        client.send("PUT", &format!("/topics/{id}/users/user1"), &channels).await.fails(404, "not_found");

        let deleted = client.call("DELETE", &format!("/topics/{id}")).send().await.is(200);
        assert_eq!(deleted["statusCode"], 200);
        client.send("PATCH", &format!("/topics/{id}"), &json!({"name": "x"})).await.fails(404, "not_found");
    }
}

#[tokio::test]
async fn runs_of_a_workflow_are_cancelled_below_each_version() {
    let service = Service::start_with(Backing::Nothing).await;
    let app = service.app("shop").await;
    service.template(&app, "welcome", None, json!({"inApp": {"title": "Hello"}})).await;
    for base in ["/v3", "/v4", ""] {
        let client = Client { service: &service, app: &app, base };
        let sends = Client { service: &service, app: &app, base: "" };
        let key = format!("order{}", base.replace('/', "-"));
        let run = json!({
            "notification": {"workflow": {"identifier": "welcome", "cancellationKey": key}},
            "sendTo": {"recipients": ["ada"]},
        });
        sends.send("POST", "/notifications", &run).await.is(202);
        let cancel = async |workflow: &str| {
            client.send("PATCH", &format!("/workflows/{workflow}"), &json!({"cancellationKey": key})).await
        };
        cancel("another").await.fails(404, "not_found");
        assert_eq!(cancel("welcome").await.is(200), json!({"requests": 1, "cancelled": 0}));
        assert_eq!(cancel("welcome").await.is(200), json!({"requests": 0, "cancelled": 0}));
        let some = json!({"cancellationKey": key, "cancelFor": {"recipients": ["ada"]}});
        let refused = client.send("PATCH", "/workflows/welcome", &some).await.is(400);
        assert_eq!(refused["errors"][0]["field"], "cancelFor");
    }
    service.call("PATCH /v4/workflows/welcome").send().await.fails(401, "no_credentials");
    service.by(&app, "GET /v4/topics").send().await.fails(404, "not_found");
}

#[tokio::test]
async fn the_other_calls_of_server_clients_need_no_version_either() {
    let service = Service::start_with(Backing::Nothing).await;
    let app = service.app("shop").await;
    let client = Client { service: &service, app: &app, base: "" };
    client.send("PUT", "/users/ada%2Fb", &json!({"email": "ada@example.com"})).await.is(200);
    client
        .send("POST", "/notifications/categories", &json!({"identifier": "news", "name": "News"}))
        .await
        .is(200);
    let send = json!({"notification": {"title": "Hello"}, "sendTo": {"recipients": ["ada/b"]}});
    client.send("POST", "/notifications?dryRun=true", &send).await.is(200);
    let list =
        client.call("GET", "/notifications?pageNo=1&limit=20&userIdentifier=ada%2Fb").send().await.is(200);
    assert_eq!(list["unreadCount"], 0);
    client.call("GET", "/unknown").send().await.fails(404, "not_found");
}
