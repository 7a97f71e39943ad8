//! A user's inbox: lists, single notifications and every change.

use serde_json::{Value, json};
use testkit::eventually;

use crate::service::{App, Backing, SOON, Service, titles};

/// Returns the newest notification of a user's inbox.
async fn newest(service: &Service, app: &App, user: &str) -> Value {
    service.list(app, user, "limit=1").await["data"][0].clone()
}

#[tokio::test]
async fn an_unknown_user_has_an_empty_inbox_and_is_not_created() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let empty = json!({
        "unreadCount": 0, "unseenCount": 0,
        "pagination": {"totalCount": 0, "pageNo": 1, "limit": 15, "pageCount": 0, "nextCursor": null},
        "data": [],
    });
    assert_eq!(service.list(&shop, "ada", "").await, empty);
    assert_eq!(service.context.store.directory().find_user(shop.id, "ada").await.unwrap(), None);
}

#[tokio::test]
async fn changes_are_visible_in_their_answer_and_in_the_next_list() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 2).await;
    let id = newest(&service, &shop, "ada").await["id"].as_i64().unwrap();
    // Method and path of the change, and the expected values afterwards: seen, read, unseen count, unread count.
    let cases = [
        ("POST", "/views", true, false, 1, 2),
        ("DELETE", "/views", false, false, 2, 2),
        ("PUT", "/views", true, false, 1, 2),
        ("POST", "/click", true, true, 1, 1),
        ("DELETE", "/reads", true, false, 1, 2),
        ("PATCH", "/click", true, true, 1, 1),
        ("DELETE", "/views", false, false, 2, 2),
        ("PUT", "/reads", true, true, 1, 1),
        ("POST", "/reads", true, true, 1, 1),
    ];
    for (method, path, seen, read, unseen_count, unread_count) in cases {
        let call = format!("{method} /v3/notifications/{id}{path}");
        // An unexpected body is ignored.
        let changed = service.shown(|| service.of(&shop, "ada", &call).body("{", "text/plain")).await;
        let list = service.list(&shop, "ada", "").await;
        assert_eq!(changed, list["data"][0], "{method} {path}");
        assert_eq!(
            (changed["seenAt"].is_string(), changed["clickedAt"].is_string()),
            (seen, read),
            "{method} {path}"
        );
        let counts = (&list["unseenCount"], &list["unreadCount"]);
        assert_eq!(counts, (&json!(unseen_count), &json!(unread_count)), "{method} {path}");
    }
    for (filter, expected) in
        [("read", vec!["2"]), ("unread", vec!["1"]), ("seen", vec!["2"]), ("unseen", vec!["1"])]
    {
        let list = service.list(&shop, "ada", &format!("filter={filter}")).await;
        assert_eq!(titles(&list), expected);
        assert_eq!(list["pagination"]["totalCount"], 1);
    }

    service.change(service.of(&shop, "ada", &format!("DELETE /v3/notifications/{id}"))).await;
    let list = service.list(&shop, "ada", "").await;
    assert_eq!((titles(&list), &list["unreadCount"]), (vec!["1"], &json!(1)));
    for (method, path) in
        [("GET", ""), ("DELETE", ""), ("POST", "/click"), ("DELETE", "/reads"), ("PUT", "/views")]
    {
        let call = service.of(&shop, "ada", &format!("{method} /v3/notifications/{id}{path}"));
        call.send().await.fails(404, "not_found");
    }
}

#[tokio::test]
async fn retrieving_a_notification_marks_it_seen_unless_the_app_retrieves_it() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let id = newest(&service, &shop, "ada").await["id"].as_i64().unwrap();
    let get = |query: &str| format!("GET /v3/notifications/{id}{query}");
    let untouched = service.of(&shop, "ada", &get("?markSeen=false")).send().await.is(200);
    assert_eq!(untouched["seenAt"], Value::Null);
    let members: Vec<_> = untouched.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "archivedAt",
        "blocks",
        "category",
        "clickedAt",
        "createdAt",
        "data",
        "icon",
        "id",
        "message",
        "requestId",
        "seenAt",
        "snoozedUntil",
        "state",
        "title",
        "url",
    ];
    assert_eq!(members, expected);
    let send = service.rows("SELECT send_id::text FROM inbox_item").await;
    assert_eq!(untouched["requestId"], json!(send[0]));
    let by_app = service.by(&shop, &get("?userIdentifier=ada")).send().await.is(200);
    assert_eq!(by_app["seenAt"], Value::Null);
    assert_eq!(service.by(&shop, &get("")).send().await.is(200)["seenAt"], Value::Null);
    let wrong = service.of(&shop, "ada", &get("?markSeen=no")).send().await;
    wrong.has_problems(&[("markSeen", "unknown_value")]);

    let seen = eventually(SOON, "the notification is marked as seen", async || {
        let item = service.of(&shop, "ada", &get("")).send().await.is(200);
        item["seenAt"].is_string().then_some(item)
    })
    .await;
    assert!(seen["clickedAt"].is_null());
    assert_eq!(service.list(&shop, "ada", "").await["unseenCount"], 0);
    assert_eq!(service.of(&shop, "ada", &get("")).send().await.is(200), seen);
}

#[tokio::test]
async fn a_notification_is_returned_even_if_it_cannot_be_marked_seen() {
    let mut service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let id = newest(&service, &shop, "ada").await["id"].as_i64().unwrap();
    let get = format!("GET /v3/notifications/{id}");
    service.servers.nats.pause().unwrap();
    assert_eq!(service.of(&shop, "ada", &get).send().await.is(200)["seenAt"], Value::Null);
    service.servers.nats.kill();
    assert_eq!(service.of(&shop, "ada", &get).send().await.is(200)["seenAt"], Value::Null);
    service.servers.nats.restart().await.unwrap();
    eventually(SOON, "the notification is marked as seen", async || {
        let item = service.of(&shop, "ada", &get).send().await.is(200);
        item["seenAt"].is_string().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_app_can_change_a_notification_with_or_without_naming_the_user() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let id = newest(&service, &shop, "ada").await["id"].as_i64().unwrap();
    let read = format!("POST /v3/notifications/{id}/click");
    assert!(service.shown(|| service.by(&shop, &read)).await["clickedAt"].is_string());
    let unread = format!("DELETE /v3/notifications/{id}/reads?userIdentifier=ada");
    assert!(service.shown(|| service.by(&shop, &unread)).await["clickedAt"].is_null());
    let other = format!("DELETE /v3/notifications/{id}/reads?userIdentifier=bob");
    service.by(&shop, &other).send().await.fails(404, "not_found");
    // A deletion cannot be repeated, so each attempt deletes another notification.
    let deleted = eventually(SOON, "a deletion is answered 200", async || {
        service.deliver(&shop, "ada", 1).await;
        let id = newest(&service, &shop, "ada").await["id"].as_i64().unwrap();
        let answer = service.changed(service.by(&shop, &format!("DELETE /v3/notifications/{id}"))).await;
        (answer.status != 202).then(|| answer.is(200))
    })
    .await;
    assert_eq!(deleted["statusCode"], 200);
}

#[tokio::test]
async fn an_id_that_is_not_a_number_is_a_problem() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    for id in ["abc", "1.5", "%FF", "99999999999999999999", "1%2F2"] {
        let answer = service.of(&shop, "ada", &format!("GET /v3/notifications/{id}")).send().await;
        answer.has_problems(&[("id", "invalid_number")]);
    }
    for id in ["1", "-1", "9223372036854775807"] {
        service.of(&shop, "ada", &format!("GET /v3/notifications/{id}")).send().await.fails(404, "not_found");
    }
}

#[tokio::test]
async fn a_change_that_is_not_projected_in_time_is_answered_202() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service.context.store.directory().merge_user(shop.id, "ada", Default::default()).await.unwrap();
    service
        .run(
            "INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, content, event_id)
             SELECT app_id, number, 5, gen_random_uuid(), now(),
                    '{\"title\":\"x\",\"message\":null,\"icon\":null,\"url\":null,\"data\":{},\"blocks\":[]}',
                    gen_random_uuid()
             FROM app_user",
        )
        .await;
    for call in ["POST /v3/notifications/5/click", "DELETE /v3/notifications/5"] {
        let answer = service.of(&shop, "ada", call).send().await.is(202);
        assert_eq!(answer["statusCode"], 202);
        assert!(answer["message"].is_string());
    }
    let item = service.of(&shop, "ada", "GET /v3/notifications/5").send().await.is(200);
    assert_eq!(item["seenAt"], Value::Null, "the item is unchanged");
}
