//! Live updates of an inbox as Server-Sent Events.

use domain::Actor;
use std::time::Duration;

use serde_json::{Value, json};

use super::live::{Live, user_headers};
use crate::service::{App, Backing, SOON, Service};
use testkit::eventually;

/// Returns the id of the newest notification of a user.
async fn newest(service: &Service, app: &App, user: &str) -> i64 {
    service.list(app, user, "").await["data"][0]["id"].as_i64().unwrap()
}

#[tokio::test]
async fn every_change_is_reported_to_all_connections_of_its_user_and_to_no_other() {
    let service = Service::start().await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    for (app, user) in [(&shop, "ada"), (&shop, "bob"), (&bank, "ada")] {
        service.deliver(app, user, 1).await;
    }
    let mut lives = [Live::open(&service, &shop, "ada").await, Live::open(&service, &shop, "ada").await];
    let mut others = [Live::open(&service, &shop, "bob").await, Live::open(&service, &bank, "ada").await];

    service.deliver(&shop, "ada", 1).await;
    let id = newest(&service, &shop, "ada").await;
    let of_item = |call: &str| call.replace("ID", &format!("/v3/notifications/{id}"));
    for live in &mut lives {
        let created = live.expect("notification.created").await;
        let listed = service.list(&shop, "ada", "").await["data"][0].clone();
        assert!(listed["requestId"].is_string());
        assert_eq!((&created.data["notification"], created.counts()), (&listed, (2, 2)));
    }
    // The call, the counts of unread and unseen notifications afterwards, and the member that the change sets.
    let changes = [
        (of_item("PUT ID/views"), Value::Null, (2, 1), "seenAt"),
        (of_item("POST ID/click"), Value::Null, (1, 1), "clickedAt"),
        (of_item("DELETE ID/reads"), Value::Null, (2, 1), "seenAt"),
        (of_item("PUT ID/state"), json!({"state": "kept"}), (2, 1), "state"),
        (of_item("DELETE ID/views"), Value::Null, (2, 2), "state"),
    ];
    for (call, body, counts, member) in changes {
        let request = service.of(&shop, "ada", &call);
        let request = if body.is_null() { request } else { request.json(&body) };
        service.change(request).await;
        let listed = service.list(&shop, "ada", "").await["data"][0].clone();
        for live in &mut lives {
            let updated = live.expect("notification.updated").await;
            assert_eq!(updated.counts(), counts, "{call}");
            let notification = &updated.data["notification"];
            assert_eq!((&notification["id"], &notification[member]), (&json!(id), &listed[member]), "{call}");
            assert!(!notification[member].is_null(), "{call}");
        }
    }
    service.change(service.of(&shop, "ada", "POST /v3/notifications/markAllNotificationsAsRead")).await;
    for live in &mut lives {
        let all = live.expect("inbox.updated").await;
        assert_eq!((&all.data["change"], all.counts()), (&json!("allRead"), (0, 0)));
        assert!(all.data["upTo"].as_i64().unwrap() >= id);
    }
    service.change(service.of(&shop, "ada", &of_item("DELETE ID"))).await;
    for live in &mut lives {
        let deleted = live.expect("notification.deleted").await;
        assert_eq!((&deleted.data["id"], deleted.counts()), (&json!(id), (0, 0)));
        assert!(deleted.data["requestId"].is_string());
    }
    service.change(service.of(&shop, "ada", "POST /v3/notifications/markAllNotificationsAsDeleted")).await;
    for live in &mut lives {
        assert_eq!(live.expect("inbox.updated").await.data["change"], "allDeleted");
    }
    // Changes of other users come after these in no order, so each of them gets a last change of its own.
    service.deliver(&shop, "bob", 1).await;
    service.deliver(&bank, "ada", 1).await;
    for other in &mut others {
        assert_eq!(other.expect("notification.created").await.counts(), (2, 2));
    }
}

#[tokio::test]
async fn a_large_notification_is_shortened() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let mut live = Live::open(&service, &shop, "ada").await;
    let large = "x".repeat(20 * 1024);
    let send = json!({
        "notification": {"title": "Large", "message": large, "data": {"large": large}},
        "override": {"channels": ["inApp"]},
        "sendTo": {"recipients": ["ada"]},
    });
    service.by(&shop, "POST /v3/notifications").json(&send).send().await.is(202);
    let created = live.expect("notification.created").await;
    let notification = &created.data["notification"];
    assert_eq!(notification["title"], "Large");
    assert_eq!((&notification["truncated"], &notification["message"]), (&json!(true), &Value::Null));
    assert_eq!((&notification["data"], &notification["blocks"]), (&json!({}), &json!([])));
}

#[tokio::test]
async fn a_client_resumes_at_another_gateway_and_is_reset_if_changes_are_unknown() {
    let service = Service::start().await;
    let (other, _stops) = service.another_gateway().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let headers = user_headers(&shop, "ada");
    // The other gateway follows the stream since this connection.
    let (mut follows, _) = Live::open_at(other, &headers, None).await;
    let mut live = Live::open(&service, &shop, "ada").await;
    service.deliver(&shop, "ada", 1).await;
    live.expect("notification.created").await;
    let last = live.last_id.clone();
    drop(live);

    service.deliver(&shop, "ada", 2).await;
    for _ in 0..3 {
        follows.expect("notification.created").await;
    }
    let id = newest(&service, &shop, "ada").await;
    service.change(service.of(&shop, "ada", &format!("POST /v3/notifications/{id}/click"))).await;
    // After this report, the other gateway has read all changes.
    follows.expect("notification.updated").await;
    drop(follows);
    let (mut live, ready) = Live::open_at(other, &headers, Some(&last)).await;
    assert_eq!((&ready.data["resumed"], ready.counts()), (&json!(true), (3, 3)));
    let missed = [live.expect("notification.created").await, live.expect("notification.created").await];
    let titles = missed.each_ref().map(|event| event.data["notification"]["title"].as_str().unwrap());
    assert_eq!(titles, ["1", "2"]);
    assert!(missed[1].data["notification"]["clickedAt"].is_string(), "each item is in its current state");
    service.deliver(&shop, "ada", 1).await;
    assert_eq!(live.expect("notification.created").await.counts(), (4, 4));

    let (stream, seq) = last.split_once('-').unwrap();
    for unusable in [
        "nonsense".to_owned(),
        format!("zzzz-{seq}"),
        format!("{stream}-0"),
        format!("{stream}-99999999999999999999"),
        format!("{stream}-4000000000"),
    ] {
        let (mut live, ready) = Live::open_at(other, &headers, Some(&unusable)).await;
        assert_eq!(ready.data["resumed"], false, "{unusable}");
        assert_eq!(live.expect("reset").await.data, json!({"reason": "too_old"}), "{unusable}");
    }
}

#[tokio::test]
async fn nothing_is_reported_before_lists_show_it() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.by(&shop, "PUT /v3/users/ada").json(&json!({})).send().await.is(200);
    let mut live = Live::open(&service, &shop, "ada").await;
    service.publish_item(&shop, "ada", "early").await;
    assert_eq!(live.until_quiet(Duration::from_millis(500)).await, [], "the projection does not run");
    service.context.serve("inbox", inbox::run);
    let created = live.expect("notification.created").await;
    assert_eq!(created.counts(), (1, 1));
    assert_eq!(service.list(&shop, "ada", "").await["unreadCount"], 1);
}

#[tokio::test]
async fn many_changes_at_once_become_a_reset_and_a_hundred_do_not() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 120).await;
    let mut live = Live::open(&service, &shop, "ada").await;
    let last = live.last_id.clone();
    let mut ids = Vec::new();
    for page in 1..=6 {
        let list = service.list(&shop, "ada", &format!("limit=20&pageNo={page}")).await;
        ids.extend(list["data"].as_array().unwrap().iter().map(|item| item["id"].clone()));
    }
    let bulk = json!({"ids": ids[..100], "change": "read"});
    service.change(service.of(&shop, "ada", "POST /v3/notifications/bulk").json(&bulk)).await;
    let mut changed = std::collections::BTreeSet::new();
    while changed.len() < 100 {
        let updated = live.expect("notification.updated").await;
        assert_eq!(updated.counts(), (20, 20));
        changed.insert(updated.data["notification"]["id"].as_i64().unwrap());
    }
    let rest = json!({"ids": ids[100..], "change": "read"});
    service.change(service.of(&shop, "ada", "POST /v3/notifications/bulk").json(&rest)).await;
    // After these reports, the gateway has read all changes.
    for _ in 100..ids.len() {
        live.expect("notification.updated").await;
    }
    let headers = user_headers(&shop, "ada");
    let (mut resumed, ready) = Live::open_at(service.address, &headers, Some(&last)).await;
    assert_eq!(ready.counts(), (0, 0));
    assert_eq!(resumed.expect("reset").await.data, json!({"reason": "too_old"}));
}

#[tokio::test]
async fn a_user_who_does_not_exist_yet_gets_updates_once_it_is_created() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let mut live = Live::open(&service, &shop, "zoe").await;
    let users = service.rows("SELECT identifier FROM app_user").await;
    assert!(users.is_empty(), "a connection creates no user");
    service.by(&shop, "PUT /v3/users/zoe").json(&json!({})).send().await.is(200);
    live.expect("reset").await;
    service.deliver(&shop, "zoe", 1).await;
    assert_eq!(live.expect("notification.created").await.counts(), (1, 1));
}

#[tokio::test]
async fn clients_fetch_their_list_again_after_the_inbox_was_rebuilt() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let mut live = Live::open(&service, &shop, "ada").await;
    service.deliver(&shop, "ada", 1).await;
    live.expect("notification.created").await;
    let before = live.last_id.clone();
    let database = store::Settings { url: service.servers.database_url().to_owned(), max_connections: 4 };
    let rebuild = inbox::Rebuild {
        database: &database,
        log: &service.context.log,
        partitions: service.context.partitions,
        accepts_differences: false,
        most: 10,
    };
    assert!(rebuild.run(&|_| {}).await.unwrap().is_switched);
    let reset = live.expect("reset").await;
    assert_eq!(reset.data, json!({"reason": "rebuilt"}));
    service.deliver(&shop, "ada", 1).await;
    assert_eq!(live.expect("notification.created").await.counts(), (3, 3));
    // A client that missed the reset cannot resume from before.
    let headers = user_headers(&shop, "ada");
    let (mut late, ready) = Live::open_at(service.address, &headers, Some(&before)).await;
    assert_eq!(ready.data["resumed"], false);
    late.expect("reset").await;
    let (_, ready) = Live::open_at(service.address, &headers, Some(&live.last_id)).await;
    assert_eq!(ready.data["resumed"], true);
}

#[tokio::test]
async fn credentials_may_be_in_the_query_but_a_token_may_not() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let stream = |query: &str| service.call(&format!("HEAD /v3/stream?{query}"));
    stream("apiKey=shop&userId=ada&deviceId=phone").send().await.is(200);
    assert_eq!(stream("apiKey=shop&userId=ada&token=x").send().await.status, 400);
    assert_eq!(stream("apiKey=shop").send().await.status, 401);
    assert_eq!(stream("apiKey=bank&userId=ada").send().await.status, 401);
    assert_eq!(stream("userId=ada").header("X-SERVICE-API-KEY", "shop").send().await.status, 200);
    let both = service.of(&shop, "ada", "HEAD /v3/stream?userId=bob").send().await;
    assert_eq!(both.status, 401, "the header and the query disagree");
    let token = service.of(&shop, "ada", "GET /v3/stream?access_token=x").send().await;
    token.has_problems(&[("access_token", "token_in_url")]);
    let json = service.of(&shop, "ada", "GET /v3/stream").header("Accept", "application/json").send().await;
    json.fails(406, "not_acceptable");
    let strict = service.of(&shop, "ada", "GET /v3/stream?nonsense=1").header("Prefer", "handling=strict");
    strict.send().await.has_problems(&[("nonsense", "unknown_parameter")]);
}

#[tokio::test]
async fn connections_are_limited_and_a_gateway_may_hold_none() {
    let service = Service::start_configured(|config| config.gateway.realtime_connections = 16).await;
    let shop = service.app("shop").await;
    let mut lives = Vec::new();
    let refused = loop {
        assert!(lives.len() <= 8, "callers with a public key get at most half of the connections");
        match Live::try_open(service.address, &user_headers(&shop, "ada"), None).await {
            Ok(live) => lives.push(live),
            Err(answer) => break answer,
        }
    };
    assert_eq!(refused.status(), 503);
    let seconds: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=10).contains(&seconds));
    assert_eq!(refused.json::<Value>().await.unwrap()["code"], "unavailable");
    assert!(!lives.is_empty());
    drop(lives);
    let opened = async |app: &App, user: &str| {
        let headers = user_headers(app, user);
        eventually(SOON, "closed connections are released", async || {
            Live::try_open(service.address, &headers, None).await.ok()
        })
        .await
    };
    opened(&shop, "ada").await;

    let app = service.app("small").await;
    let most = std::num::NonZeroU32::new(2);
    let limited = domain::app_setting::AppSetting::RealtimeConnections(most);
    service.context.store.control().set_settings(app.id, &[limited], &Actor::System).await.unwrap();
    let lives = [opened(&app, "ada").await, opened(&app, "bob").await];
    service.of(&app, "cyd", "GET /v3/stream").send().await.fails(503, "unavailable");
    drop(lives);
    opened(&app, "cyd").await;

    let none = Service::start_configured(|config| config.gateway.realtime = false).await;
    let shop = none.app("shop").await;
    none.of(&shop, "ada", "GET /v3/stream").send().await.fails(503, "unavailable");
}
