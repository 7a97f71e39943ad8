//! Sends to topics.

use serde_json::{Value, json};
use testkit::eventually;

use crate::service::{App, Backing, SOON, Service, titles};

const SEND: &str = "POST /v3/notifications";

impl Service {
    /// Creates users, and subscribes them to a topic.
    async fn subscribe(&self, app: &App, topic: &str, users: std::ops::Range<usize>) {
        let users: Vec<_> = users.map(|number| format!("user-{number}")).collect();
        for users in users.chunks(200) {
            let all: Vec<_> = users.iter().map(|user| json!({"identifier": user})).collect();
            self.by(app, "POST /v3/users/bulk").json(&json!({"users": all})).send().await.is(200);
            let call = self.by(app, &format!("POST /v3/topics/{topic}/subscriptions"));
            call.json(&json!({"add": users})).send().await.is(200);
        }
    }

    async fn send_to(&self, app: &App, send_to: Value) -> Value {
        let body = json!({"notification": {"title": "News"}, "sendTo": send_to});
        self.by(app, SEND).json(&body).send().await.is(202)["requestId"].clone()
    }

    /// Waits until a request is completed, and returns it.
    async fn completed(&self, app: &App, request: &Value) -> Value {
        eventually(SOON, "the request is completed", async || {
            let answer = self.request(app, request.as_str().unwrap()).await;
            (answer["status"] == "completed").then_some(answer)
        })
        .await
    }

    async fn problem(&self, app: &App, strict: bool, send_to: Value) -> (Value, Value) {
        let body = json!({"notification": {"title": "News"}, "sendTo": send_to});
        let call = self.by(app, SEND).json(&body);
        let call = if strict { call.header("Prefer", "handling=strict") } else { call };
        let errors = call.send().await.is(400)["errors"].clone();
        (errors[0]["field"].clone(), errors[0]["code"].clone())
    }
}

#[tokio::test]
async fn everyone_who_subscribes_gets_the_send_once() {
    let service = Service::start().await;
    let app = service.app("shop").await;
    service.subscribe(&app, "news", 0..520).await;
    service.subscribe(&app, "sport", 500..540).await;
    let request =
        service.send_to(&app, json!({"topics": ["news", "sport", "none"], "exclude": ["user-7"]})).await;
    let answer = service.completed(&app, &request).await;
    assert_eq!(answer["recipients"], 539);
    assert_eq!(
        answer["topics"],
        json!([
            {"topic": "news", "recipients": 519}, {"topic": "sport", "recipients": 20},
            {"topic": "none", "recipients": 0},
        ])
    );
    assert_eq!(answer["counts"]["inApp"], json!({"delivered": 539}));
    for (user, items) in [("user-0", 1), ("user-7", 0), ("user-510", 1), ("user-539", 1)] {
        let list = service.of(&app, user, "GET /v3/notifications").send().await.is(200);
        assert_eq!(titles(&list).len(), items, "{user}");
    }
}

#[tokio::test]
async fn a_send_may_name_topics_and_recipients() {
    let service = Service::start().await;
    let app = service.app("shop").await;
    service.subscribe(&app, "news", 0..3).await;
    let named = json!(["user-1", {"identifier": "new", "email": "new@example.com"}]);
    let request = service.send_to(&app, json!({"topics": ["news"], "recipients": named})).await;
    let answer = service.completed(&app, &request).await;
    assert_eq!((&answer["recipients"], &answer["topics"][0]["recipients"]), (&json!(4), &json!(2)));

    // A send to a topic without subscribers ends too.
    let request = service.send_to(&app, json!({"topics": ["none"]})).await;
    let answer = service.completed(&app, &request).await;
    assert_eq!((&answer["recipients"], &answer["counts"]), (&json!(0), &json!({})));
}

#[tokio::test]
async fn unknown_topics_are_problems_of_strict_calls() {
    let service = Service::start_with(Backing::Nothing).await;
    let app = service.app("shop").await;
    service.subscribe(&app, "news", 0..1).await;
    let unknown = (json!("sendTo.topics"), json!("unknown_topic"));
    assert_eq!(service.problem(&app, true, json!({"topics": ["news", "none"]})).await, unknown);
    service.send_to(&app, json!({"topics": ["none"]})).await;
    // Another app's topic is unknown.
    let other = service.app("bank").await;
    assert_eq!(service.problem(&other, true, json!({"topics": ["news"]})).await, unknown);
    let invalid = (json!("sendTo.topics[0]"), json!("invalid_topic"));
    assert_eq!(service.problem(&app, false, json!({"topics": ["a b"]})).await, invalid);
}

#[tokio::test]
async fn a_dry_run_shows_the_subscribers() {
    let service = Service::start_with(Backing::Nothing).await;
    let app = service.app("shop").await;
    service.subscribe(&app, "news", 0..600).await;
    let body = json!({
        "notification": {"title": "News"}, "override": {"channels": ["inApp"]},
        "sendTo": {"topics": ["news"], "recipients": ["user-3"], "exclude": ["user-5"]},
    });
    let run = service.by(&app, "POST /v3/notifications?dryRun=true").json(&body).send().await.is(200);
    assert_eq!((&run["recipients"], &run["more"]), (&json!(599), &json!(false)));
    assert_eq!(run["counts"]["inApp"], json!({"queued": 599}));
    let items: Vec<_> =
        run["data"].as_array().unwrap().iter().filter(|row| row["channel"] == "inApp").collect();
    let shown = items.iter().filter(|item| !item["content"].is_null()).count();
    assert_eq!((items.len(), shown, &items[0]["recipient"]), (599, 10, &json!("user-3")));
    assert!(items.iter().all(|item| item["recipient"] != "user-5"));
}

#[tokio::test]
async fn a_scheduled_send_to_a_topic_is_cancelled() {
    let service = Service::start().await;
    let app = service.app("shop").await;
    service.subscribe(&app, "news", 0..3).await;
    let send_at = service_kit::clock::now() + std::time::Duration::from_secs(3_600);
    let body = json!({"notification": {"title": "News"}, "sendTo": {"topics": ["news"]}, "sendAt": send_at});
    let request = service.by(&app, SEND).json(&body).send().await.is(202)["requestId"].clone();
    let path = format!("/v3/requests/{}", request.as_str().unwrap());
    eventually(SOON, "the request is scheduled", async || {
        let answer = service.once_stored(&app, &format!("GET {path}")).await;
        (answer["status"] == "scheduled").then_some(())
    })
    .await;
    service.by(&app, &format!("DELETE {path}")).send().await.is(200);
    eventually(SOON, "the send has ended", async || {
        let open = "SELECT count(*) FROM request WHERE expanding OR body IS NOT NULL";
        (service.count(open).await == 0).then_some(())
    })
    .await;
    let answer = service.by(&app, &format!("GET {path}")).send().await.is(200);
    assert_eq!((&answer["status"], &answer["recipients"]), (&json!("cancelled"), &json!(0)));
}
